"""Batches made from rows, and the outputs of batches put back in the order of rows.

Letters: N towers, R rows of tokens per tower, at most S examples per row, T tokens and
P targets per row.
"""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

import numpy as np

from bert_mgpu.core.rows import (
    POSITIONS,
    REAL_TARGETS,
    Features,
    Outputs,
    Ragged,
    Rows,
)
from bert_mgpu.data.batching import Batching, TrainingOrder
from bert_mgpu.data.packing import EMPTY, Placement

Item = TypeVar("Item")
NUMBERS = "numbers"  # the row numbers, returned with the outputs


def collate(rows: Rows, placement: Placement) -> dict[str, np.ndarray]:
    """The batch of the placed examples, with zeros elsewhere.

    -> every ragged column int32 [N, R, T]; `input_mask` [N, R, T], 0 at padding, else
    the number of the token's example in its row, from 1; every dense column
    [N, R * S, ...]; `is_real_example` float32 [N, R * S]. If S > 1 also
    `position_ids` [N, R, T], from 0 in each example, and `first_tokens` [N, R, S],
    where each example starts. If P > 0 also every target column [N, R, P],
    `masked_lm_weights`, 1 where there is a target, and if the placement has M,
    `masked_lm_real` int32 [N, M], where these are among the R * P, then -1.
    """
    towers, per_tower, per_row = placement.numbers.shape
    shape = (towers, per_tower, placement.length)
    filled = np.flatnonzero(placement.numbers.reshape(-1) != EMPTY)
    block = rows.take(placement.numbers.reshape(-1)[filled])
    offsets = placement.offsets.reshape(-1)[filled]
    indices = placement.token_indices(block.lengths)

    def scatter_tokens(values: np.ndarray) -> np.ndarray:
        tokens = np.zeros(np.prod(shape), np.int32)
        tokens[indices] = values
        return tokens.reshape(shape)

    def scatter_examples(values: np.ndarray) -> np.ndarray:
        inner = values.shape[1:]
        examples = np.zeros((placement.numbers.size, *inner), values.dtype)
        examples[filled] = values
        return examples.reshape(towers, per_tower * per_row, *inner)

    batch = {
        name: scatter_tokens(column.values) for name, column in block.ragged.items()
    }
    batch["input_mask"] = scatter_tokens(np.repeat(filled % per_row + 1, block.lengths))
    if per_row > 1:
        batch["position_ids"] = scatter_tokens(block.ragged["input_ids"].positions)
        batch["first_tokens"] = placement.offsets.astype(np.int32)
    for name, values in block.dense.items():
        batch[name] = scatter_examples(values)
    batch["is_real_example"] = scatter_examples(np.ones(len(filled), np.float32))
    if placement.targets:
        batch |= _targets(block, filled // per_row, offsets, placement=placement)
    return batch


def _targets(
    block: Features, row: np.ndarray, offsets: np.ndarray, *, placement: Placement
) -> dict[str, np.ndarray]:
    """The target columns, by row of tokens: [N, R, P] each.

    row, offsets: int [examples], the row of tokens of each example and its start in it.
    """
    counts = block.targets[POSITIONS].lengths
    rows = np.repeat(row, counts)  # the row of each target, ascending
    in_row = np.arange(len(rows)) - np.searchsorted(rows, rows)
    shape = (*placement.numbers.shape[:2], placement.targets)
    columns = {name: column.values for name, column in block.targets.items()}
    columns[POSITIONS] = columns[POSITIONS] + np.repeat(offsets, counts)
    columns["masked_lm_weights"] = np.ones(len(rows), np.float32)
    batch = {}
    for name, values in columns.items():
        dtype = np.float32 if values.dtype.kind == "f" else np.int32
        filled = np.zeros(shape, dtype).reshape(-1, placement.targets)
        filled[rows, in_row] = values
        batch[name] = filled.reshape(shape)
    if placement.real_targets is not None:
        towers, row_of_tower = np.divmod(rows, shape[1])
        in_tower = np.arange(len(rows)) - np.searchsorted(towers, towers)
        real = np.full((shape[0], placement.real_targets), -1, np.int32)
        real[towers, in_tower] = row_of_tower * placement.targets + in_row
        batch[REAL_TARGETS] = real
    return batch


def padding_fraction(placements: Iterable[Placement], lengths: np.ndarray) -> float:
    """The fraction of all tokens that are padding."""
    tokens = real = 0
    for placement in placements:
        numbers = placement.numbers
        tokens += numbers.shape[0] * numbers.shape[1] * placement.length
        real += int(lengths[numbers[numbers != EMPTY] % len(lengths)].sum())
    return 1 - real / tokens


def padding_fractions(
    orders: Mapping[str, TrainingOrder],
    lengths: np.ndarray,
    batching: Batching,
    *,
    steps: int,
) -> dict[str, float]:
    """The fraction of padding in the batches of the first steps, under each policy."""
    sample = range(min(steps, batching.compared_steps))
    return {
        policy: padding_fraction(map(order.placement, sample), lengths)
        for policy, order in orders.items()
    }


def forward_all(
    rows: Rows,
    placements: list[Placement],
    place: Callable[[dict[str, np.ndarray]], Any],
    *,
    ask: Callable[[Any], Any],
    progress: Callable[[Iterable[Any]], Iterable[Any]] = iter,
    token_outputs: frozenset[str] = frozenset(),
    shared_outputs: frozenset[str] = frozenset(),
) -> dict[str, Any]:
    """The outputs of the placed rows, and the rows' numbers: one entry per row.

    place: puts a batch on the devices; ask: launches it and returns an answer, whose
    `read()` is called once the next batch has been launched. token_outputs: outputs
    with a value per token, [N * R, T, ...]; each row gets those of its own tokens.
    shared_outputs: outputs that are the same for all rows, so that one value is kept.
    The entries are in the order of the placements; see `in_order`.
    """
    results: dict[str, list[Any]] = {}
    lengths = rows.lengths  # once: to count them takes time for each row

    def keep(placement: Placement, answer: Any) -> None:
        numbers = placement.numbers.reshape(-1)
        real = numbers != EMPTY
        own_lengths = lengths[numbers[real] % len(rows)]
        for name, values in (answer.read() | {NUMBERS: numbers}).items():
            if name in token_outputs:
                own: Any = _own_token_values(
                    name, values, placement, lengths=own_lengths
                )
            elif name in shared_outputs and any(map(len, results.get(name, ()))):
                continue
            else:
                own = values[real][: 1 if name in shared_outputs else None]
            results.setdefault(name, []).append(own)

    asked: list[tuple[Placement, Any]] = []
    made = (place(collate(rows, placement)) for placement in placements)
    with prefetch(made) as batches:
        for placement, batch in zip(progress(placements), batches, strict=True):
            asked.append((placement, ask(batch)))
            if len(asked) > 1:
                keep(*asked.pop(0))
        for placement, answer in asked:
            keep(placement, answer)
    return {
        name: (Ragged.concatenated if name in token_outputs else np.concatenate)(parts)
        for name, parts in results.items()
    }


def _own_token_values(
    name: str, values: np.ndarray, placement: Placement, *, lengths: np.ndarray
) -> Ragged:
    """The values [N * R, T, ...] at the tokens of each placed example."""
    towers, per_tower, _ = placement.numbers.shape
    expected = towers * per_tower, placement.length
    if values.shape[:2] != expected:
        raise ValueError(
            f"{name} is {[*values.shape]}: an output of tokens is {[*expected]} and"
            " more"
        )
    flat = values.reshape(-1, *values.shape[2:])
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    return Ragged(flat[placement.token_indices(lengths)], offsets)


def in_order(
    results: Outputs, shared_outputs: frozenset[str] = frozenset()
) -> dict[str, Any]:
    """The results of `forward_all` for all rows, in the order of the rows.

    shared_outputs: as in `forward_all`, [1, ...].
    """
    order = np.argsort(results[NUMBERS])

    def ordered(name: str, column: Any) -> Any:
        if name in shared_outputs:
            return column[:1]
        return column.take(order) if isinstance(column, Ragged) else column[order]

    return {
        name: ordered(name, column)
        for name, column in results.items()
        if name != NUMBERS
    }


@contextlib.contextmanager
def prefetch(items: Iterable[Item], depth: int = 4) -> Iterator[Iterator[Item]]:
    """The same items, made up to `depth` ahead in a background thread."""
    made: queue.Queue[tuple[bool, Any]] = queue.Queue(depth)
    stop = threading.Event()

    def put(more: bool, value: Any) -> None:
        while not stop.is_set():
            with contextlib.suppress(queue.Full):
                made.put((more, value), timeout=0.1)
                return

    def work() -> None:
        try:
            for item in items:
                put(True, item)
                if stop.is_set():
                    return
            put(False, None)
        except Exception as error:  # raised where the item would be read
            put(False, error)

    def read() -> Iterator[Item]:
        while True:
            more, value = made.get()
            if more:
                yield value
            elif value is None:
                return
            else:
                raise value

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield read()
    finally:
        stop.set()
        thread.join()
