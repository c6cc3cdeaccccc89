"""The log of whole runs on screens of several widths, and where there is none."""

import re
import shutil
import subprocess

import pytest

from bert_mgpu.core import terminal
from tests.support.pretraining import LENGTH, records
from tests.support.processes import PRETRAINING, process

WIDE = "2000"  # columns: no line is wrapped
TRAINS = {"do_train": True, "do_eval": True, "num_train_epochs": 2, "log_steps": 1}
USES = {"do_predict": True, "n_gpus": 2, "cpu_devices": 2, "eval_steps": 4}
# Words that depend on how long something takes.
OF_TIMES = {
    "second#",
    "seconds#",
    "minute#",
    "minutes#",
    "left",
    "wait",
    "ms",
    "s",
    "ex/s",
    "second",
    "seconds",
    "minute",
    "minutes",
}


def ran(args, columns, **options):
    done = process(args, {"COLUMNS": columns}, **options)
    _, log = done.communicate(timeout=300)
    assert done.returncode == 0, log
    return log


@pytest.fixture
def runs(tiny, trained, cluster, tmp_path):
    """Name -> the log of such a run, given the columns."""
    model = shutil.copytree(trained("own", num_train_epochs=4), tmp_path / "model")
    file = tmp_path / "records.tfrecord"
    file.write_bytes(b"".join(records()))

    def folder(name, columns):
        return tmp_path / f"{name}-{columns or 'none'}".ljust(20, "-")

    def trains(columns):
        return ran(tiny.flags(folder("one", columns), **TRAINS, **USES), columns)

    def pretrains(columns):
        flags = {
            "input_file": file,
            "do_train": True,
            "do_eval": True,
            "data_dir": None,
        }
        flags |= {"num_train_steps": 4, "max_seq_length": LENGTH, "log_steps": 1}
        flags |= {
            "num_train_epochs": None,
            "max_predictions_per_seq": 3,
            "report": None,
        }
        args = tiny.flags(folder("masks", columns), task_name=None, **flags)
        return ran(args, columns, program=PRETRAINING)

    def several(columns):
        return ran(tiny.flags(folder("seeds", columns), seeds=2, **TRAINS), columns)

    def streams(columns):
        flags = {"do_predict": True, "predict_file": "-", "xla": None}
        args = tiny.flags(model, "own", **flags)
        one = process(args, {"COLUMNS": columns}, stdin=subprocess.PIPE)
        _, log = one.communicate("?\tsun joy\n", timeout=300)
        assert one.returncode == 0, log
        return log

    def together(columns):
        args = tiny.flags(folder("two", columns), **TRAINS)
        code, log = cluster.run(2, args, env={"COLUMNS": columns})
        assert code == 0, log
        return log

    own = (trains, pretrains, several, streams, together)
    return {run.__name__: run for run in own}


def without_ranks(log):
    """A log without what horovodrun puts before each line."""
    return re.sub(r"(?m)^\[\d+\]<\w+>:", "", log)


def words(log):
    """Those of a log, without numbers and what the width decides to cut."""
    kept = (word for word in log.split() if ".." not in word and "/" not in word)
    return {re.sub(r"[\d.,:%]+", "#", word) for word in kept} - OF_TIMES


@pytest.mark.nightly
@pytest.mark.parametrize(
    "name", ["trains", "pretrains", "several", "streams", "together"]
)
def test_no_line_is_too_long_and_no_word_broken(runs, name):
    wanted = words(without_ranks(runs[name](WIDE)))
    assert len(wanted) > (5 if name == "streams" else 60)
    for columns in (60, 80, 200, None):
        log = runs[name](str(columns or ""))
        for line in log.splitlines():
            is_path = "/" in line.split()[-1] if line.split() else False
            assert terminal.width(line) <= (columns or 80) or is_path, line
        log = without_ranks(log)
        cut = tuple(word.strip(".") for word in log.split() if word.endswith(".."))
        lost = {word for word in wanted - words(log) if not word.startswith(cut)}
        assert not lost and not words(log) - wanted, columns
