"""The forward pass over a whole set of rows: what evaluation and prediction share."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from bert_mgpu.config.base import RunConfig
from bert_mgpu.core.errors import Diverged, OutOfMemory, memory_advice
from bert_mgpu.core.log import progress_bar, say
from bert_mgpu.core.rows import Outputs, Ragged, Rows
from bert_mgpu.data import batching, pipeline
from bert_mgpu.distributed import collective
from bert_mgpu.training.towers import Towers

_ROWS_ON_GPU = 64  # fewer leave most of a card idle


def rows_at_once(config: RunConfig, towers: Towers, predicting: bool = False) -> int:
    """Of a tower: what the flags say, on a GPU more where they say nothing."""
    rows = config.prediction_batch if predicting else config.eval_batch_size
    said = {"eval_batch_size", *["predict_batch_size"] * predicting} & {*config.given}
    if said or not towers.devices[0].startswith("GPU"):
        return rows
    return max(rows, _ROWS_ON_GPU)


class Abandoned(Exception):
    """The run is to stop: what is not done by then is done when it goes on."""


def forward(
    config: RunConfig,
    rows: Rows,
    batch: int,
    *,
    towers: Towers,
    what: str,
    note: Callable[[str], None] = say,
    stopping: Callable[[], bool] = lambda: False,
    packs: bool = True,
) -> Outputs:
    """The task's outputs of all rows, `batch` of them at a time, or as many as fit.

    stopping: asked before each batch; then this raises Abandoned. batch: rows of a
    tower. packs: several examples may share a row of tokens, to the same outputs up to
    rounding. Each process works out the rows of its towers and gets those of all.
    Raises Diverged where an output is no number. No rows give no outputs, {}.
    """
    if not len(rows):
        return {}
    group, batch = towers.group, min(batch, towers.largest)
    placements = batching.forward_placements(
        rows.lengths,
        towers.n_towers,
        batch,
        packs=packs,
        max_length=config.max_seq_length,
        counts=rows.counts,
    )
    share = pipeline.padding_share(placements, rows.lengths)
    most = placements[0].numbers.shape[2]
    several = f", up to {most} texts in a row" if most > 1 else ""
    note(f"  {share:.0%} of the tokens are padding{several}")
    own = [one.share(towers.own, towers.n_towers) for one in placements]
    began, compilations = time.perf_counter(), towers.compilations
    lacking, outputs = None, {}
    try:
        towers.refresh()
        outputs = pipeline.forward_all(
            rows,
            own,
            towers.place_for_outputs,
            ask=towers.launch_outputs,
            progress=lambda batches: progress_bar(_unless(stopping, batches), what),
            token_outputs=towers.task.token_outputs,
        )
    except Abandoned:
        raise
    except Exception as error:
        lacking = towers.out_of_memory(error)
        if lacking is None:
            raise
    # What is too much for one of the processes is done anew by all.
    said = [
        facts["lacking"]
        for facts in collective.all_gather_json(group, {"lacking": lacking})
    ]
    group.pausing()  # not before: whoever waits for a process that hangs is working
    lacking = next(filter(None, said), None)
    if lacking is None:
        ordered = pipeline.in_order(collective.all_gather_rows(group, outputs))
        seconds = time.perf_counter() - began
        shapes = towers.compilations - compilations
        made = (
            f", compilation for {shapes} shape{'s' * (shapes > 1)} of batches included"
        )
        note(f"  {len(rows)} rows in {seconds:.1f} s{made if shapes else ''}")
        check_finite(ordered, config.precision, what)
        return ordered
    if batch == 1:
        advice = memory_advice(False, config.recompute)
        raise OutOfMemory(f"{what}: {lacking}, with one row at a time: {advice}")
    towers.largest = batch // 2
    # Not before the error is gone, whose traceback holds what did not fit.
    say(f"{lacking}: going on with batches of {batch // 2} rows a tower")
    return forward(
        config,
        rows,
        batch,
        towers=towers,
        what=what,
        note=note,
        stopping=stopping,
        packs=packs,
    )


def _unless(stopping: Callable[[], bool], batches: Iterable[Any]) -> Iterator[Any]:
    for batch in batches:
        if stopping():
            raise Abandoned
        yield batch


def check_finite(outputs: Outputs, precision: str, what: str) -> None:
    """Raises Diverged where an output is no number: no class follows from that."""
    for name, column in outputs.items():
        values = column.values if isinstance(column, Ragged) else column
        finite = np.isfinite(values.reshape(len(values), -1)).all(-1)
        rows = np.flatnonzero(~finite)
        if isinstance(column, Ragged):  # whose tokens these are
            rows = np.unique(np.searchsorted(column.offsets, rows, side="right") - 1)
        count = len(column.lengths) if isinstance(column, Ragged) else len(column)
        if len(rows):
            way = "pass --precision=float32"
            if precision in ("float32", "tf32"):
                way = "train anew, with a lower --learning_rate"
            raise Diverged(
                f"{what}: the {name} of {len(rows)} of {count} rows are no finite"
                f" numbers, row {rows[0] + 1} the first; nothing is written: {way}"
            )
