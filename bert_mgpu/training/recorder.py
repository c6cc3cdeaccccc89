"""Records a training: progress bar, log lines, metrics.jsonl, TensorBoard events."""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import pathlib
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import tqdm

from bert_mgpu.core import files, run_files, tensor_names, terminal, units
from bert_mgpu.core.errors import Diverged, Interrupted, Preempted
from bert_mgpu.core.log import say
from bert_mgpu.training import precision
from bert_mgpu.training.events import Events
from bert_mgpu.training.loop import StepRecord

_BAR = "{l_bar}{bar}| {n_fmt}/{total_fmt} [{elapsed}{postfix}]"
_AROUND = len("train: 100%|#| / [1:02:03]")  # around the steps and the cells behind
_MAX_LINE_BYTES = 1 << 16  # of a record in the file
_MAX_INTEGER = 2**63
_LINE_SECONDS = 10.0  # between two log lines
# What ends a training before its last step: early stopping (no error), or these.
_BEFORE_THE_LAST_STEP = (type(None), Diverged, Preempted, Interrupted)


class Recorder:
    """Records the means over every `every` steps."""

    def __init__(
        self,
        directory: pathlib.Path,
        events: Events,
        *,
        start: int,
        steps: int,
        batch: int,
        rows: int,
        every: int,
        sent: int = 0,
        compiles: bool = True,
    ):
        """rows: of an epoch; sent: the bytes that a step sends to other processes;
        compiles: whether XLA compiles a step for each shape of batches.
        """
        self._sent, self._rows, self._compiles = sent, rows, compiles
        self._start, self._steps = start, steps
        self._batch, self._every = batch, every
        self._file = open_continued(directory / run_files.METRICS, start)
        self._events = events
        self._bar = tqdm.tqdm(
            total=steps,
            initial=start,
            desc="train",
            bar_format=_BAR,
            disable=not sys.stderr.isatty(),
        )
        self._unrecorded: list[StepRecord] = []
        self._began, self._done = time.perf_counter(), 0
        self._last_line = -_LINE_SECONDS
        self._steady, self._seconds = 0, 0.0  # steps without compilation, their time

    def step(self, done: StepRecord) -> None:
        self._bar.update()
        self._done += 1
        self._unrecorded.append(done)
        self._log_special(done)
        if done.step % self._every == 0 or done.step == self._steps:
            self._show(self._recorded())

    def _recorded(self) -> dict[str, Any]:
        """Writes and returns the record of the steps since the last record."""
        steps, self._unrecorded = self._unrecorded, []
        done = steps[-1]
        epoch = done.step * self._batch / self._rows
        record: dict[str, Any] = {"step": done.step, "epoch": round(epoch, 3)}
        record["time"] = round(time.time(), 3)  # seconds since 1970
        for name in done.losses:
            record[name] = _mean(step.losses[name] for step in steps)
        record |= {"learning_rate": done.rate, "gradient_norm": done.norm}
        record |= {_last_part(name): value for name, value in done.scaling.items()}
        # A step that compiles says nothing about the speed of the others.
        steady = [step for step in steps if not step.compiled]
        self._steady += len(steady)
        self._seconds += sum(step.seconds for step in steady)
        if seconds := sum(step.seconds for step in steady):
            speed = len(steady) * self._batch / seconds
            waited = sum(step.waited for step in steady) / len(steady)
            record["examples_per_second"] = round(speed, 2)
            record["input_wait_seconds"] = round(waited, 6)
            if self._sent:
                reduction = sum(step.reduction for step in steady) / len(steady)
                record["allreduce_bytes"] = self._sent
                record["allreduce_seconds"] = round(reduction, 6)
        self._write(record)
        return record

    def _log_special(self, done: StepRecord) -> None:
        """Logs a step that compiled or was skipped."""
        if done.compiled:
            first = done.step == self._start + 1
            name = "first step" if first else f"step {done.step}, with a new shape,"
            compiled = ", compilation included" * self._compiles
            say(f"{name} done in {done.seconds:.0f} s{compiled}")
        if done.scaling.get(tensor_names.SKIPS):
            scale = done.scaling[tensor_names.SCALE]
            floor = ", the lowest" if scale <= precision.FLOOR else ""
            say(
                f"step {done.step} overflowed float16 and was skipped: loss scale now"
                f" {scale:g}{floor}"
            )

    def _write(self, record: dict[str, Any]) -> None:
        # JSON has no infinity, which the norm of a skipped step may be.
        record = {n: v if math.isfinite(v) else None for n, v in record.items()}
        self._file.write(json.dumps(record) + "\n")
        self._file.flush()
        self._events.add("train", record)

    def _show(self, record: dict[str, Any]) -> None:
        now = time.perf_counter()
        speed = record.get("examples_per_second")
        waited = record.get("input_wait_seconds", 0.0)
        wait = f"{1000 * waited:.1f} ms"
        # A short wait is not worth the bar's space.
        starved = speed and waited > 0.05 * self._batch / speed
        known = total_loss(record)
        loss = math.nan if known is None else known
        last = record["step"] == self._steps
        left = "" if last or not self._steady else f"{self._left(record['step'])} left"
        fast = f"{speed:.1f} ex/s" if speed else ""
        slow = f"wait {wait}" if starved else ""
        shown = f"loss {loss:.3f}", left, fast, slow
        self._bar.set_postfix_str(self._fitting([*filter(None, shown)]))
        if last or now - self._last_line >= _LINE_SECONDS:
            self._last_line = now
            place = f"step {record['step']}/{self._steps}"
            epoch = f"epoch {record['epoch']:.2f}"
            rate = f"lr {record['learning_rate']:.2e}"
            cells = [place, epoch, f"loss {loss:.4f}", rate, fast, slow, left]
            say("  ".join(filter(None, cells)))

    def _fitting(self, cells: Sequence[str]) -> str:
        """As many of the cells, from the first one on, as fit beside the bar."""
        free = terminal.columns_of(sys.stderr) - _AROUND - 2 * len(str(self._steps))
        widths = itertools.accumulate(len(", ") + len(cell) for cell in cells)
        return ", ".join(cells[: sum(width <= free for width in widths)])

    def _left(self, step: int) -> str:
        """The time for the remaining steps, at the mean speed of all steps so far."""
        mean = self._seconds / self._steady
        return units.clock_text((self._steps - step) * mean)

    def __enter__(self) -> Recorder:
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.close()
        # An error such as a full disk must not hide why the training ended.
        hidden = (OSError,) if error[1] else ()
        with contextlib.suppress(*hidden), self._file:
            if self._unrecorded and isinstance(error[1], _BEFORE_THE_LAST_STEP):
                self._recorded()
        if self._done and error[0] is None:
            took = units.duration_text(time.perf_counter() - self._began)
            plural = "s" * (self._done > 1)
            say(f"trained {self._done} step{plural} in {took}{self._mean_speed()}")

    def _mean_speed(self) -> str:
        """The mean speed in words, without the first step of each shape."""
        if not self._seconds:
            return ""
        speed = self._steady * self._batch / self._seconds
        when = "once compiled" if self._compiles else "after the first step"
        return f", {speed:.1f} ex/s {when}"


class NullRecorder:
    """The recorder of all processes but the first: it does nothing."""

    def step(self, done: StepRecord) -> None: ...


def _mean(values: Iterable[float]) -> float:
    """The mean of the finite values: the loss of a skipped step may not be finite."""
    finite = [value for value in values if math.isfinite(value)]
    return sum(finite) / len(finite) if finite else math.nan


def _last_part(tensor: str) -> str:
    return tensor.rpartition("/")[2]


def read_records(path: pathlib.Path) -> list[dict[str, Any]]:
    """The records of a file, in order: a step, numbers, and perhaps the name of a set.

    Skips an incomplete line of a killed run, and anything else that is not a record.
    """
    records = []
    with contextlib.suppress(OSError), files.open_regular(path) as file:
        while line := file.readline(_MAX_LINE_BYTES):
            try:
                row = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(row, dict) and _is_record(row):
                records.append(row)
    return records


def total_loss(record: Mapping[str, Any]) -> float | None:
    """The sum of a record's losses; None if it has none or one of them is unknown."""
    losses = [value for name, value in record.items() if name.endswith("loss")]
    return None if not losses or None in losses else float(sum(losses))


def _is_record(row: dict[str, Any]) -> bool:
    types = {"set": str, "step": int}
    return "step" in row and all(
        isinstance(value, types.get(name, int | float | None))
        and not (isinstance(value, int) and abs(value) > _MAX_INTEGER)
        for name, value in row.items()
    )


def open_continued(path: pathlib.Path, start: int) -> Any:
    """Opens a file of records to append, without the records of steps after `start`."""
    kept = [row for row in read_records(path) if row["step"] <= start]
    with files.replacing(path) as temporary:
        lines = "".join(json.dumps(row) + "\n" for row in kept)
        temporary.write_text(lines, encoding="utf-8")
    return path.open("a", encoding="utf-8")
