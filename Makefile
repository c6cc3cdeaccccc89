# make setup | horovod | demo | docs | check | test | test-all | behaviour | mutants |
# parity | bench | gpu | clean.
# Python 3.10 to 3.13, no GPU needed.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --disable-pip-version-check -q -c constraints.txt

.PHONY: setup horovod demo docs check test test-all behaviour mutants parity bench gpu clean

setup: .venv/.ready

.venv/.ready: requirements.txt requirements-zh.txt constraints.txt
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; \
	  sys.exit(0 if (3, 10) <= v <= (3, 13) else \
	  "Python %d.%d: TensorFlow 2.21 needs 3.10 to 3.13: make PYTHON=python3.12 setup" % v)'
	$(PYTHON) -m venv .venv
	$(PIP) -r requirements.txt -r requirements-zh.txt
	@touch $@

.venv/.demo: .venv/.ready requirements-demo.txt
	$(PIP) --no-deps -r requirements-demo.txt
	@touch $@

.venv/.dev: .venv/.demo requirements-dev.txt requirements-onnx.txt \
  requirements-parquet.txt requirements-reference.txt
	$(PIP) -r requirements-dev.txt
	$(PIP) --no-deps -r requirements-reference.txt
	@touch $@

.venv/.parity: .venv/.dev requirements-parity.txt
	$(PIP) -r requirements-parity.txt
	@touch $@

# For several processes or machines: builds Horovod from source, minutes.
horovod: .venv/.horovod

.venv/.horovod: .venv/.ready requirements-horovod.txt constraints.txt \
  bert_mgpu/cli/doctor/horovod_build.py bert_mgpu/cli/doctor/horovod_probe.py
	$(BIN)/python -m bert_mgpu install_horovod
	@touch $@

# Trains a small BERT on real news with two towers, about 3 minutes on 2 cores.
demo: .venv/.demo
	$(BIN)/python examples/demo_data.py demo
	$(BIN)/python run_classifier_mgpu.py --task_name=bbc --data_dir=demo \
	  --init_checkpoint=demo/model --output_dir=demo/output --n_gpus=2 \
	  --do_train=true --do_eval=true --do_predict=true \
	  --train_batch_size=8 --learning_rate=1e-4 --num_train_epochs=2 \
	  --max_seq_length=128
	@echo "head of demo/output/predict.txt, beside the labels of demo/test.tsv:"
	@cut -f1 demo/test.tsv | paste demo/output/predict.txt - | head -n 5

# Writes the tables of docs/ that the code decides: flags, files, exit codes.
docs: .venv/.ready
	$(BIN)/python -m tests.support.docs

check: .venv/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

# Without a compiler for Horovod the tests of several processes are skipped. Here XLA
# compiles quickly, to slower code; in test-all as users have it.
test: check
	-@$(MAKE) --no-print-directory .venv/.horovod
	XLA_FLAGS="$$XLA_FLAGS --xla_backend_optimization_level=0" \
	  $(BIN)/python -m pytest -n 2 --dist worksteal --durations=20

# What takes too long for each change: processes killed, frozen and broken 50 times and
# more, a million changed files for the readers, memory that lacks in every tower at
# every time, the path of GPUs through whole runs. About an hour and a half.
test-all: .venv/.dev .venv/.horovod
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "faults or nightly or not nightly"

# What users get, compared with that of another commit: make behaviour FROM=COMMIT runs
# some sixty commands on tiny models with both, about 4 minutes.
behaviour: .venv/.dev
	$(BIN)/python -m tests.support.behaviour between $(FROM)

# Plants small faults one by one; tests must notice 95 of 100. About 20 minutes.
mutants: .venv/.dev
	$(BIN)/python -m tests.support.mutants

# Compares with Google's code and transformers, live.
parity: .venv/.parity
	$(BIN)/python benchmarks/parity.py
	$(BIN)/python benchmarks/all_texts.py

# Speed and memory beside Google's code, transformers and ourselves; see the file for
# parts of it.
bench: .venv/.parity .venv/.horovod
	$(BIN)/python benchmarks/tokenizer.py
	$(BIN)/python benchmarks/preparation.py
	$(BIN)/python benchmarks/speed.py
	$(BIN)/python benchmarks/cluster.py run
	$(BIN)/python benchmarks/cluster.py show

# What the graphics card here does, in at most 45 minutes; needs Python and TensorFlow
# alone. The same command goes on where it ended.
gpu:
	$(if $(wildcard $(BIN)/python),$(BIN)/python,$(PYTHON)) -m benchmarks.gpu \
	  --minutes=45 --out=benchmarks/results/gpu.json

clean:
	rm -rf .venv demo build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache
