"""Several seeds of one run, and one seed several times."""

import hashlib
import json
import statistics
import subprocess
import sys

import pytest

from tests.support import ranked, rewriting
from tests.support.marks import rarely
from tests.support.paths import ROOT
from tests.support.runs import assert_refused, assert_same_run, tree

FLAGS = {"do_train": True, "do_eval": True, "num_train_epochs": 2}


def scores(path):
    lines = (line.split(" = ") for line in path.read_text().splitlines())
    return {name: float(value) for name, value in lines}


def test_seeds_are_runs_of_their_own_and_are_summed_up(tiny, inside, tmp_path):
    out, alone = tmp_path / "out", tmp_path / "alone"
    flags = {**FLAGS, "seed": 5, "seeds": 3, "n_gpus": 2, "do_predict": True}
    code, _, err = inside(tiny.flags(out, **flags))
    assert code == 0, err
    single = {**flags, "seed": 6, "seeds": 1}
    assert inside(tiny.flags(alone, **single))[0] == 0
    assert_same_run(alone, out / "seed-6")
    for name in ("predict.txt", "eval_results.txt"):
        assert (alone / name).read_bytes() == (out / "seed-6" / name).read_bytes()
    actual = [scores(out / f"seed-{seed}" / "eval_results.txt") for seed in (5, 6, 7)]
    losses = [one["eval_loss"] for one in actual]
    assert len(set(losses)) == 3
    summary = json.loads((out / "seeds.json").read_text())
    assert summary["seeds"] == [5, 6, 7]
    reported = summary["scores"]["dev"]["eval_loss"]
    assert reported["mean"] == pytest.approx(statistics.fmean(losses))
    assert reported["deviation"] == pytest.approx(statistics.stdev(losses))
    assert f"eval_loss {reported['mean']:.4f} ± {reported['deviation']:.4f}" in err
    before = tree(out)
    code, _, err = inside(tiny.flags(out, **flags))  # all of them are done
    assert code == 0 and err.count("nothing left to train") == 3
    assert tree(out) == before


@pytest.mark.parametrize("metric", ["sari", *rarely("mrr")])
def test_scores_of_groups_and_rewritings_are_summed_up(tiny, inside, tmp_path, metric):
    """Each seed also predicts in its own folder, and is what it is alone."""
    data = tmp_path / "data"
    if metric == "mrr":
        ranked.write(data, {"train": ranked.small(8, 1), "dev": ranked.small(6, 2)})
    else:
        rewriting.write_task(data, counts=(16, 6, 4))
    flags = {**FLAGS, "data_dir": data, "num_train_epochs": 1, "do_predict": True}
    code, _, err = inside(tiny.flags(tmp_path / "out", "mine", seeds=2, **flags))
    assert code == 0, err
    assert inside(tiny.flags(tmp_path / "alone", "mine", seed=43, **flags))[0] == 0
    assert_same_run(tmp_path / "alone", tmp_path / "out" / "seed-43")
    folders = [tmp_path / "out" / f"seed-{seed}" for seed in (42, 43)]
    each = [scores(folder / "eval_results.txt") for folder in folders]
    summary = json.loads((tmp_path / "out" / "seeds.json").read_text())
    for name in (metric, "eval_loss"):
        reported = summary["scores"]["dev"][name]
        found = [own[name] for own in each]
        assert reported["mean"] == pytest.approx(statistics.fmean(found))
        assert reported["deviation"] == pytest.approx(statistics.stdev(found))
    assert found[0] != found[1]
    reported = summary["scores"]["dev"][metric]
    assert f"{metric} {reported['mean']:.4f} ± " in " ".join(err.split())


def test_seeds_see_the_same_rows(tiny, inside, tmp_path):
    """Of samples too: else their deviation would be that of the rows."""
    out = tmp_path / "out"
    sampled = {"max_train_examples": 12, "max_eval_examples": 5, "seeds": 2}
    assert inside(tiny.flags(out, **FLAGS, **sampled))[0] == 0
    assert len([*(out / "cache").glob("*.safetensors")]) == 2  # train and dev, once
    assert not (out / "seed-42" / "cache").exists()
    first = json.loads((out / "seed-42" / "run.json").read_text())
    second = json.loads((out / "seed-43" / "run.json").read_text())
    data = [one["identity"]["data_dir"] for one in (first, second)]
    assert data[0] == data[1]


@pytest.mark.parametrize(
    ("flags", "fragment"),
    [
        ({"do_eval": False}, "--seeds: pass --do_train=true and --do_eval=true"),
        ({"export_hf": "x"}, "--export_hf is for a single model"),
        ({"plan": True}, "--plan is for a single model"),
        ({"seeds": 0}, "--seeds=0: pass at least 1"),
        ({"seed": 2**63 - 1, "seeds": 2}, "beyond 64 bits: pass a smaller one"),
    ],
)
def test_mistakes(tiny, inside, tmp_path, flags, fragment):
    flags = {**FLAGS, "seeds": 2, **flags}
    assert_refused(inside(tiny.flags(tmp_path / "out", **flags)), fragment)


RUNS = """
import sys
from bert_mgpu.cli import run_classifier
for number in range(int(sys.argv[1])):
    folder = f"{sys.argv[2]}/{number}"
    assert run_classifier.main(["", f"--output_dir={folder}", *sys.argv[3:]]) == 0
"""


# XLA compiles each run anew, which takes long.
@pytest.mark.parametrize(
    ("xla", "count"),
    rarely(("off", 10), ("on", 3)),
)
def test_runs_of_one_seed_have_one_hash(tiny, tmp_path, xla, count):
    flags = {**FLAGS, "deterministic": True, "n_gpus": 2, "cpu_devices": 2, "xla": xla}
    args = [flag for flag in tiny.flags("", **flags) if "output_dir" not in flag]
    command = [sys.executable, "-c", RUNS, str(count), tmp_path, *args]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    hashes = set()
    for number in range(count):
        folder = tmp_path / str(number)
        (data,) = folder.glob("model.ckpt-6.data*")
        files = [data, folder / "eval_results.txt"]
        hashes.add(hashlib.sha256(b"".join(f.read_bytes() for f in files)).hexdigest())
    assert len(hashes) == 1


RESIDENT = """
import sys
import psutil
from bert_mgpu.cli import run_classifier
from bert_mgpu.runs import finetune

one = finetune.finetune

def measured(*arguments, **named):
    towers = one(*arguments, **named)
    print(psutil.Process().memory_info().rss >> 20)
    return towers

finetune.finetune = measured
sys.exit(run_classifier.main(["", *sys.argv[1:]]))
"""


@pytest.mark.nightly
def test_memory_does_not_grow_with_the_seeds(tiny, tmp_path):
    """TensorFlow keeps what it compiled for as long as a process lives: here once."""
    flags = {"do_train": True, "do_eval": True, "seeds": 5, "xla": "on"}
    args = tiny.flags(tmp_path, **flags)
    done = subprocess.run(
        [sys.executable, "-c", RESIDENT, *args], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    resident = [*map(int, done.stdout.split())]
    assert len(resident) == 5
    # 40 MB a seed before; what is left is the allocator's.
    assert max(resident[2:]) - resident[1] < 15, resident
