"""metrics.jsonl: means since the last record, and no lines of a later step."""

import contextlib
import dataclasses
import errno
import json

import pytest

from bert_mgpu.core import log
from bert_mgpu.core.errors import DivergedStep, Interrupted, Preempted
from bert_mgpu.training import recorder
from bert_mgpu.training.events import Events
from bert_mgpu.training.loop import StepRecord


def record(step, loss, *, seconds=1.0, compiled=False):
    return StepRecord(
        step,
        {"loss": loss},
        rate=0.5,
        norm=2.0,
        scaling={},
        seconds=seconds,
        waited=0.25,
        compiled=compiled,
        reduction=0.125,
    )


def lines(folder):
    text = (folder / "metrics.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]


def test_records_are_means_without_the_time_of_compilation(tmp_path):
    made = recorder.Recorder(
        tmp_path,
        Events(tmp_path),
        start=0,
        steps=3,
        batch=8,
        rows=10,
        every=2,
        sent=100,
    )
    with made as metrics:
        metrics.step(record(1, 1.0, seconds=60.0, compiled=True))
        metrics.step(record(2, 4.0, seconds=2.0))
        metrics.step(record(3, float("nan")))
    first, last = lines(tmp_path)
    assert (first["step"], last["step"]) == (2, 3)
    assert first["loss"] == 2.5 and last["loss"] is None
    assert first["examples_per_second"] == 4.0
    assert (first["input_wait_seconds"], first["allreduce_seconds"]) == (0.25, 0.125)
    assert first["allreduce_bytes"] == 100
    assert (first["epoch"], last["epoch"]) == (1.6, 2.4)


@pytest.mark.parametrize(
    "error", [None, DivergedStep(4, "loss nan", ""), Preempted("x"), Interrupted("x")]
)
def test_the_steps_before_an_early_end_are_recorded(tmp_path, error):
    """By early stopping, divergence or a signal."""
    made = recorder.Recorder(
        tmp_path, Events(tmp_path), start=0, steps=40, batch=8, rows=16, every=2
    )
    with contextlib.suppress(type(error or KeyError())), made as metrics:
        for step in (1, 2, 3):
            metrics.step(record(step, float(step)))
        if error:
            raise error
    assert [(row["step"], row["loss"]) for row in lines(tmp_path)] == [(2, 1.5), (3, 3)]


def test_a_full_disk_does_not_hide_why_a_training_ended(tmp_path, monkeypatch):
    made = recorder.Recorder(
        tmp_path, Events(tmp_path), start=0, steps=40, batch=8, rows=16, every=2
    )

    def full(record):
        raise OSError(errno.ENOSPC, "No space left on device")

    made.step(record(1, 1.0))
    monkeypatch.setattr(made, "_write", full)
    made.__exit__(DivergedStep, DivergedStep(2, "loss nan", ""), None)
    assert made._file.closed
    made = recorder.Recorder(
        tmp_path, Events(tmp_path), start=0, steps=40, batch=8, rows=16, every=2
    )
    made.step(record(1, 1.0))
    monkeypatch.setattr(made, "_write", full)
    with pytest.raises(OSError, match="No space left"):
        made.__exit__(None, None, None)


@pytest.mark.parametrize(
    ("columns", "kept"),
    [
        (200, ["loss 1.000", "12:03 left", "8.0 ex/s", "wait 250.0 ms"]),
        (80, ["loss 1.000", "12:03 left", "8.0 ex/s"]),
        (60, ["loss 1.000", "12:03 left"]),
        (30, []),
    ],
)
def test_the_bar_shows_whole_cells_that_fit(tmp_path, monkeypatch, columns, kept):
    """Beside the longest elapsed time and as many steps as there are."""
    monkeypatch.setenv("COLUMNS", str(columns))
    made = recorder.Recorder(
        tmp_path, Events(tmp_path), start=0, steps=1000, batch=8, rows=16, every=2
    )
    cells = ["loss 1.000", "12:03 left", "8.0 ex/s", "wait 250.0 ms"]
    shown = made._fitting(cells)
    assert shown == ", ".join(kept)
    bar = recorder._BAR.format(
        l_bar="train: 100%|",
        bar="#",
        n_fmt=1000,
        total_fmt=1000,
        elapsed="1:02:03",
        postfix=f", {shown}",
    )
    assert len(bar) <= columns or not kept


def said(tmp_path, monkeypatch, *steps, **options):
    """The log of these steps, of two of 8 rows to an epoch."""
    lines = []
    monkeypatch.setattr(log.tqdm.tqdm, "write", lambda line, file: lines.append(line))
    monkeypatch.setattr(recorder, "_LINE_SECONDS", 0.0)
    made = recorder.Recorder(
        tmp_path,
        Events(tmp_path),
        start=0,
        steps=40,
        batch=8,
        rows=16,
        every=1,
        **options,
    )
    with made as metrics:
        for step in steps:
            metrics.step(step)
    return lines


def test_the_time_left_is_by_the_mean_of_all_steps(tmp_path, monkeypatch):
    """Not by that of the last one alone, and without compilation."""
    compiled = record(1, 1.0, seconds=60.0, compiled=True)
    slow, fast = record(2, 0.5, seconds=3.0), record(3, 0.25, seconds=1.0)
    lines = said(tmp_path, monkeypatch, compiled, slow, fast)
    assert lines[0] == "first step done in 60 s, compilation included"
    assert lines[1] == "step 1/40  epoch 0.50  loss 1.0000  lr 5.00e-01"
    assert lines[3].startswith("step 3/40  epoch 1.50  loss 0.2500  lr")
    assert "  8.0 ex/s  " in lines[3] and lines[3].endswith("  1:14 left")  # 37 x 2 s
    assert lines[4] == "trained 3 steps in 0 seconds, 4.0 ex/s once compiled"
    last, _ = said(tmp_path, monkeypatch, record(40, 1.0))
    assert last.startswith("step 40/40") and "left" not in last


def test_a_training_that_fails_does_not_say_that_it_trained(tmp_path, monkeypatch):
    lines = []
    monkeypatch.setattr(log.tqdm.tqdm, "write", lambda line, file: lines.append(line))
    made = recorder.Recorder(
        tmp_path, Events(tmp_path), start=0, steps=40, batch=8, rows=16, every=1
    )
    made.step(record(1, 1.0))
    made.__exit__(RuntimeError, RuntimeError(), None)
    assert lines[-1].startswith("step 1/40")


def test_nothing_is_compiled_without_xla(tmp_path, monkeypatch):
    steps = (record(1, 1.0, compiled=True), record(2, 1.0, compiled=True))
    lines = said(tmp_path, monkeypatch, *steps, compiles=False)
    assert lines[0] == "first step done in 1 s"
    assert lines[2] == "step 2, with a new shape, done in 1 s"


def test_who_waits_for_data_is_told(tmp_path, monkeypatch):
    for waited, told in ((0.25, True), (0.01, False)):
        step = record(2, 1.0, seconds=1.0)
        own = dataclasses.replace(step, waited=waited)
        assert ("wait" in said(tmp_path, monkeypatch, own)[0]) == told


@pytest.mark.parametrize("start", [0, 2, 3])
def test_a_resume_keeps_the_records_of_its_past_alone(tmp_path, start):
    steps = [{"step": step, "loss": 1.0} for step in (1, 2, 3)]
    path = tmp_path / "metrics.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in steps) + '{"step": 4, "l')
    recorder.open_continued(path, start).close()
    assert lines(tmp_path) == steps[:start]
