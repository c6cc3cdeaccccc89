"""metrics.jsonl: means since the last record, and no lines of a later step."""

import json

import pytest

from bert_mgpu.training import recorder
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
    with recorder.Recorder(tmp_path, 0, 3, batch=8, every=2, sent=100) as metrics:
        metrics.step(record(1, 1.0, seconds=60.0, compiled=True))
        metrics.step(record(2, 4.0, seconds=2.0))
        metrics.step(record(3, float("nan")))
    first, last = lines(tmp_path)
    assert (first["step"], last["step"]) == (2, 3)
    assert first["loss"] == 2.5 and last["loss"] is None
    assert first["examples_per_second"] == 4.0
    assert (first["input_wait_seconds"], first["allreduce_seconds"]) == (0.25, 0.125)
    assert first["allreduce_bytes"] == 100


@pytest.mark.parametrize("start", [0, 2, 3])
def test_a_resume_keeps_the_records_of_its_past_alone(tmp_path, start):
    steps = [{"step": step, "loss": 1.0} for step in (1, 2, 3)]
    path = tmp_path / "metrics.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in steps) + '{"step": 4, "l')
    recorder.open_continued(path, start).close()
    assert lines(tmp_path) == steps[:start]
