"""The forward pass over a whole set of rows, which evaluation and prediction share."""

from __future__ import annotations

import dataclasses
import functools
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from bert_mgpu.core.errors import (
    NotFinite,
    OutOfMemory,
    RunError,
    memory_advice,
    shortened,
)
from bert_mgpu.core.log import fact, progress_bar, say
from bert_mgpu.core.rows import Outputs, Ragged, Rows
from bert_mgpu.core.task import ReadExamples, Task
from bert_mgpu.data import batching, forward_batching, pipeline
from bert_mgpu.data.forward_batching import PassShape
from bert_mgpu.distributed import collective
from bert_mgpu.training.towers import Towers


@dataclasses.dataclass(frozen=True)
class ForwardSettings:
    """Settings of the forward passes over a set."""

    name: str  # of the passes, in the log and in errors
    batch_size: int  # rows per tower at a time
    max_length: int  # tokens of a row at most
    precision: str
    recompute: str
    packs: bool = True  # examples may share a row of tokens
    segment: int | None = None  # as in data.batching.Batching
    streams: bool = False  # few shapes of batches, however few rows there are at once


def _note(text: str) -> None:
    """Logs a text beside the last fact, which is about the set."""
    fact("", text)


class Abandoned(Exception):
    """The pass was abandoned since the run is to stop; a resumed run repeats it."""


def scored_rows(
    task: Task,
    rows: Rows,
    towers: Towers,
    *,
    settings: ForwardSettings,
    examples: ReadExamples,
    note: Callable[[str], None] = _note,
    stopping: Callable[[], bool] = lambda: False,
) -> Any:
    """The scored rows of a set (see `Task.scored_rows`); None except in process 0.

    examples: reads the texts of the set. note: logs the first pass, and the number of
    passes if there are more. For other arguments see `forward`.
    """
    counts = list[int]()  # rows of each pass
    known = list[PassShape]()

    def passed(rows: Rows) -> Outputs:
        counts.append(len(rows))
        said = note if len(counts) == 1 else lambda text: None
        return forward(
            rows, towers, settings, note=said, stopping=stopping, known=known
        )

    began = time.perf_counter()
    outputs = task.infer(rows, passed)
    if counts[1:]:
        seconds = time.perf_counter() - began
        note(f"{len(counts)} passes over {sum(counts)} rows in {seconds:.1f} s")
    return task.scored_rows(outputs, rows, examples) if towers.group.rank == 0 else None


def forward(
    rows: Rows,
    towers: Towers,
    settings: ForwardSettings,
    *,
    note: Callable[[str], None] = _note,
    stopping: Callable[[], bool] = lambda: False,
    known: list[PassShape] | None = None,
) -> Outputs:
    """The task's outputs for all rows, in batches, smaller ones if memory runs out.

    note: logs padding and time. stopping: asked before each batch; True raises
    Abandoned. known: the batch shapes of earlier passes over similar rows, to which
    this pass adds its own, so that few are compiled. Packing changes the outputs only
    by rounding. Each process computes the rows of its towers and gets the outputs of
    all rows. Raises Diverged if an output is not a finite number. Without rows there
    are no outputs: {}.
    """
    again = functools.partial(
        forward, rows, towers, settings, note=note, stopping=stopping, known=known
    )
    if not len(rows):
        return {}
    group, batch_size = towers.group, min(settings.batch_size, towers.max_rows)
    segment = settings.segment
    place = functools.partial(
        forward_batching.forward_placements,
        packs=settings.packs and segment is None,
        compiled=known or (),
    )
    if settings.streams:
        place = functools.partial(forward_batching.stream_placements, segment=segment)
    placements = [
        each._replace(length=batching.whole_width(each.length, segment))
        for each in place(
            batching.whole_segments(rows.lengths, segment),
            towers.n_towers,
            batch_size,
            max_length=settings.max_length,
            target_counts=rows.target_counts,
        )
    ]
    if known is not None:
        own_shapes = dict.fromkeys(map(PassShape.of, placements))
        known += [shape for shape in own_shapes if shape not in known]
    padding = f"{pipeline.padding_fraction(placements, rows.lengths):.0%} padding"
    most = placements[0].numbers.shape[2]
    packed = f"packed up to {most} texts per row; " if most > 1 else ""
    note(f"{packed}{padding}")
    if towers.programs.compiles and not (towers.compilations or settings.streams):
        note("compiling first, which takes from seconds to two minutes")
    own = [
        placement.share(towers.own_towers, towers.n_towers) for placement in placements
    ]
    began, compilations = time.perf_counter(), towers.compilations
    shortage, failure, outputs = None, None, {}

    def shown(batches: Iterable[Any]) -> Iterable[Any]:
        batches = _until(stopping, batches)
        if settings.streams:
            return batches
        return progress_bar(batches, settings.name, "batches", total=len(own))

    try:
        towers.refresh()
        outputs = pipeline.forward_all(
            rows,
            own,
            towers.place_for_outputs,
            ask=towers.launch_outputs,
            progress=shown,
            token_outputs=towers.task.token_outputs,
            shared_outputs=towers.task.shared_outputs,
        )
    except (Abandoned, RunError):  # the latter after SIGTERM
        raise
    except Exception as error:
        shortage = towers.out_of_memory(error)
        # XLA may need something that is missing; a stream can do without XLA.
        if shortage is None and not towers.programs.stop_compiling_frequent_shapes():
            raise
        failure = None if shortage else shortened(str(error))
    if failure is not None:
        say(f"{settings.name}: continuing without XLA, which failed: {failure}")
        return again()
    # If one process runs out of memory, all repeat the pass.
    facts = collective.all_gather_json(group, {"shortage": shortage})
    group.pausing()  # only now: who waits for a hanging process counts as working
    shortage = next((fact["shortage"] for fact in facts if fact["shortage"]), None)
    if shortage is None:
        ordered = pipeline.in_order(
            collective.all_gather_rows(group, outputs), towers.task.shared_outputs
        )
        seconds = time.perf_counter() - began
        shapes = towers.compilations - compilations
        compiled = ""
        if shapes and towers.programs.compiles:
            plural = "s" * (shapes > 1)
            compiled = f", including compilation ({shapes} batch shape{plural})"
        count = f"{len(rows)} row{'s' * (len(rows) != 1)}"
        note(f"{count} in {seconds:.1f} s{compiled}")
        check_finite(ordered, settings.precision, settings.name)
        return ordered
    if batch_size == 1:
        advice = memory_advice(False, settings.recompute)
        raise OutOfMemory(
            f"{settings.name}: {shortage}, with one row at a time: {advice}"
        )
    towers.max_rows = batch_size // 2
    # Only after the error is gone, whose traceback keeps what did not fit.
    say(f"{shortage}: continuing with batches of {batch_size // 2} rows per tower")
    if known is not None:
        known.clear()  # they are too large
    return again()


def _until(stopping: Callable[[], bool], batches: Iterable[Any]) -> Iterator[Any]:
    for batch in batches:
        if stopping():
            raise Abandoned
        yield batch


def check_finite(outputs: Outputs, precision: str, name: str) -> None:
    """Raises NotFinite if an output is not a finite number, which predicts no class.

    name: that of the pass, for the message.
    """
    for output, column in outputs.items():
        values = column.values if isinstance(column, Ragged) else column
        finite = np.isfinite(values.reshape(len(values), -1)).all(-1)
        rows = np.flatnonzero(~finite)
        if isinstance(column, Ragged):  # tokens -> their rows
            rows = np.unique(np.searchsorted(column.offsets, rows, side="right") - 1)
        count = len(column.lengths) if isinstance(column, Ragged) else len(column)
        if len(rows):
            advice = (
                "pass --precision=float32; to train with it, pass another --output_dir"
            )
            if precision in ("float32", "tf32"):
                advice = "train again with a lower --learning_rate"
            raise NotFinite(
                f"{name}: the {output} of {len(rows)} of {count} rows are not finite,"
                f" first in row {rows[0] + 1}; nothing is written: {advice}",
                int(rows[0]),
                precision,
            )
