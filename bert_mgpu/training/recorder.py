"""What a run shows and writes while it trains: bar, metrics.jsonl, TensorBoard."""

from __future__ import annotations

import contextlib
import json
import math
import pathlib
import sys
import time
from collections.abc import Iterable
from typing import Any

import tensorflow as tf
import tqdm

from bert_mgpu.core import files, tensor_names, units
from bert_mgpu.core.log import say
from bert_mgpu.training import precision
from bert_mgpu.training.loop import StepRecord

# Short enough for the loss, rate and speed to fit into 80 columns.
_BAR = "{l_bar}{bar}| {n_fmt}/{total_fmt} [{elapsed}<{remaining}{postfix}]"
FILE = "metrics.jsonl"
_LONGEST_LINE = 1 << 16  # bytes of a record
_LARGEST = 2**63  # a whole number
_PLAIN_SECONDS = 10.0  # between two lines where there is no terminal


class Recorder:
    """Records every `every` steps: means since the last record."""

    def __init__(
        self,
        directory: pathlib.Path,
        start: int,
        steps: int,
        *,
        batch: int,
        every: int,
        sent: int = 0,
    ):
        """sent: bytes that a step sends to other processes."""
        self._sent = sent
        self._start, self._steps = start, steps
        self._batch, self._every = batch, every
        self._file = continued(directory / FILE, start)
        self._events = tf.summary.create_file_writer(str(directory))
        self._bar = tqdm.tqdm(
            total=steps,
            initial=start,
            desc="train",
            bar_format=_BAR,
            disable=not sys.stderr.isatty(),
        )
        self._unrecorded: list[StepRecord] = []
        self._last_plain = -_PLAIN_SECONDS

    def step(self, done: StepRecord) -> None:
        self._bar.update()
        self._unrecorded.append(done)
        self._say_what_is_new(done)
        if done.step % self._every and done.step != self._steps:
            return
        steps, self._unrecorded = self._unrecorded, []
        record: dict[str, Any] = {"step": done.step}
        for name in done.losses:
            record[name] = _mean(one.losses[name] for one in steps)
        record |= {"learning_rate": done.rate, "gradient_norm": done.norm}
        record |= {_plain_name(name): value for name, value in done.scaling.items()}
        # A step that compiles says nothing of the speed of the others.
        steady = [one for one in steps if not one.compiled]
        if seconds := sum(one.seconds for one in steady):
            speed = len(steady) * self._batch / seconds
            waited = sum(one.waited for one in steady) / len(steady)
            record["examples_per_second"] = round(speed, 2)
            record["input_wait_seconds"] = round(waited, 6)
            if self._sent:
                wait = sum(one.reduction for one in steady) / len(steady)
                record |= {"allreduce_bytes": self._sent}
                record |= {"allreduce_seconds": round(wait, 6)}
        self._write(record)
        self._show(record)

    def _say_what_is_new(self, done: StepRecord) -> None:
        if done.compiled:
            first = done.step == self._start + 1
            what = "first step" if first else f"step {done.step}, of a new shape,"
            say(f"{what} done in {done.seconds:.0f} s, compilation included")
        if done.scaling.get(tensor_names.SKIPS):
            scale = done.scaling[tensor_names.SCALE]
            floor = ", the lowest" if scale <= precision.FLOOR else ""
            say(
                f"step {done.step} overflowed float16 and was skipped: loss scale"
                f" {scale:g} now{floor}"
            )

    def _write(self, record: dict[str, Any]) -> None:
        # JSON has no infinity, which the norm of a skipped step may be.
        record = {n: v if math.isfinite(v) else None for n, v in record.items()}
        self._file.write(json.dumps(record) + "\n")
        self._file.flush()
        with self._events.as_default(step=record["step"]):
            for name, value in record.items():
                if name != "step" and value is not None:
                    tf.summary.scalar(f"train/{name}", value)

    def _show(self, record: dict[str, Any]) -> None:
        now = time.perf_counter()
        speed = record.get("examples_per_second")
        waited = record.get("input_wait_seconds", 0.0)
        wait = f"{1000 * waited:.1f} ms"
        # A bar has no room for what is next to nothing.
        starved = speed and waited > 0.05 * self._batch / speed
        loss = sum(value for name, value in record.items() if name.endswith("loss"))
        self._bar.set_postfix_str(
            f"loss {loss:.3f}, lr {record['learning_rate']:.1e}"
            + (f", {speed:.1f} ex/s" if speed else "")
            + (f", wait {wait}" if starved else "")
        )
        last = record["step"] == self._steps
        if self._bar.disable and (last or now - self._last_plain >= _PLAIN_SECONDS):
            self._last_plain = now
            left = (self._steps - record["step"]) * self._batch / speed if speed else 0
            say(
                f"step {record['step']}/{self._steps}  loss {loss:.4f}"
                f"  lr {record['learning_rate']:.2e}"
                + (f"  {speed:.1f} examples/s, input wait {wait}" if speed else "")
                + (f"  {units.clock_text(left)} left" if left else "")
            )

    def __enter__(self) -> Recorder:
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.close()
        self._file.close()
        self._events.close()


class NullRecorder:
    """What the processes record that are not the first."""

    def step(self, done: StepRecord) -> None: ...


def _mean(values: Iterable[float]) -> float:
    """Of the finite ones: a skipped step may have no loss."""
    finite = [value for value in values if math.isfinite(value)]
    return sum(finite) / len(finite) if finite else math.nan


def _plain_name(tensor: str) -> str:
    return tensor.rpartition("/")[2]


def read_records(path: pathlib.Path) -> list[dict[str, Any]]:
    """The records of a file, in order: a step, numbers, and which set they are of.

    Half a line of a run that was killed is none, nor is anything else in the file.
    """
    found = []
    with contextlib.suppress(OSError), files.open_regular(path) as file:
        while line := file.readline(_LONGEST_LINE):
            try:
                row = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(row, dict) and _is_record(row):
                found.append(row)
    return found


def _is_record(row: dict[str, Any]) -> bool:
    kinds = {"set": str, "step": int}
    return "step" in row and all(
        isinstance(value, kinds.get(name, int | float | None))
        and not (isinstance(value, int) and abs(value) > _LARGEST)
        for name, value in row.items()
    )


def continued(path: pathlib.Path, start: int) -> Any:
    """Opens a file of records to append, without what a killed run wrote beyond."""
    kept = [row for row in read_records(path) if row["step"] <= start]
    with files.replacing(path) as temporary:
        lines = "".join(json.dumps(row) + "\n" for row in kept)
        temporary.write_text(lines, encoding="utf-8")
    return path.open("a", encoding="utf-8")
