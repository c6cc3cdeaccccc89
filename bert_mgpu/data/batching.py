"""The padding policies: which rows a training step gets, and where in its batch.

Everything depends on (seed, step) alone. To add a policy, extend POLICIES, --padding
in config/base.py, and TrainingOrder.

Letters: N towers, R rows of tokens per tower, at most S examples per row.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np

from bert_mgpu.core.rng.shuffles import SHUFFLES
from bert_mgpu.core.rows import Rows
from bert_mgpu.data import packing
from bert_mgpu.data.packing import Placement

POLICIES = ("max_length", "longest", "bucket", "pack")
_WINDOW = 50  # steps whose rows "bucket" sorts together
_SAMPLE = 300  # steps from which shapes are chosen
_FEWEST_SAMPLED = 50  # steps: even a small set has new batches in each epoch
_SHAPE_SEED = 0  # fixed, so that runs of all seeds share what is compiled
_PACKED_ROWS = 100_000  # rows from which packed shapes are chosen
# Compiling one more width takes as long as about 10 batches of BERT-base, or 60 of a
# 4-layer model: it has to save that many in an epoch or in a prediction.
BATCHES_SAVED_PER_WIDTH = 10
_COMPARED_EXAMPLES = 20_000  # at most, to compare the padding of the policies
_COMPARED_STEPS = 50
_EVEN, _EIGHTS = 2, 8  # widths are multiples of one of these


def widths_for(longest: np.ndarray, max_length: int, worth: float) -> list[int]:
    """The widths, in tokens, to pad batches to; none exceeds `max_length`.

    longest: int [batches], the longest row of each; worth: see `packing.few_widths`.
    """
    widths = packing.few_widths(longest, multiple=_EVEN, worth=worth)
    return [min(width, max_length) for width in widths]


class TrainingOrder:
    """The rows that each step trains on, and their placement in its batch."""

    def __init__(
        self,
        lengths: np.ndarray,
        towers: int,
        rows_per_tower: int,
        *,
        padding: str,
        max_length: int,
        seed: int,
        sample: int | None = None,
        target_counts: np.ndarray | None = None,
        random_numbers: str = "counters",
        segment: int | None = None,
    ):
        """lengths: tokens of each row; sample: the most steps from which shapes are
        chosen; target_counts: the most targets of each row; random_numbers: one of
        SHUFFLES; segment: see `Batching`.
        """
        self._lengths = lengths = whole_segments(lengths, segment)
        self._target_counts = (
            np.zeros_like(lengths) if target_counts is None else target_counts
        )
        self._towers = towers
        self._per_tower = rows_per_tower
        self._padding = padding
        self._max_length = max_length
        self._seed = seed
        self._random_numbers = random_numbers
        longest = int(packing.rounded(lengths.max()))
        self._longest = min(longest, max_length)
        self._sorted = functools.lru_cache(maxsize=1)(self._sorted_window)
        # Cached for the few widths there are, since each takes a search over all rows.
        self._most_targets = functools.cache(
            lambda width: int(self._target_counts[lengths <= width].max(initial=0))
        )
        epoch = len(lengths) // self._batch
        if random_numbers != "numpy":  # older runs chose shapes by their own seed
            self._seed, epoch = _SHAPE_SEED, max(epoch, _FEWEST_SAMPLED)
        most = min(sample or _SAMPLE, epoch)
        if padding == "pack":
            most = min(most, _PACKED_ROWS // self._batch)
        steps = range(max(1, most))
        groups = [self._sizes(self._numbers(step)) for step in steps]
        self._widths = [max_length]
        if padding != "max_length":
            needs = [sizes.max() for sizes in groups]
            needed = np.array([*needs, lengths.max()])
            if random_numbers == "numpy":
                widths = packing.few_widths(needed, 4, _EIGHTS)
                self._widths = [min(width, max_length) for width in widths]
            else:
                worth = BATCHES_SAVED_PER_WIDTH * len(groups) / epoch
                self._widths = widths_for(needed, max_length, worth)
        self._widths = [whole_width(width, segment) for width in self._widths]
        self._shapes = self._packed_shapes(groups) if padding == "pack" else []
        self._targets = 0  # P of packed rows
        self._real_targets: dict[int, int] = {}  # M by length
        if self._target_counts.any():
            self._choose_targets(steps)
        self._seed = seed
        self._sorted.cache_clear()

    @property
    def _batch(self) -> int:
        return self._towers * self._per_tower

    def _sizes(self, numbers: np.ndarray) -> np.ndarray:
        return self._lengths[numbers % len(self._lengths)]

    def _packed_shapes(self, groups: list[np.ndarray]) -> list[packing.Shape]:
        """The shape of almost all steps and a larger one for the rest; empty if
        packing saves nothing, as with towers of few rows.
        """
        shape = packing.packed_shape(groups, self._longest, self._towers)
        widths = [self._width_for(sizes) for sizes in groups]
        if shape.rows * shape.length >= self._batch * np.mean(widths):
            return []
        return [shape, shape._replace(rows=shape.rows + -(-shape.rows // 8))]

    def _choose_targets(self, steps: range) -> None:
        """Chooses P of packed rows, and M, that suffice for almost all steps.

        M has room for one more row of the most targets. A wider batch has no less.
        """
        found = [self.placement(step) for step in steps]
        packed = [each.targets for each in found if each.numbers.shape[2] > 1]
        self._targets, real = max(packed, default=0), 0
        for placed in sorted(found, key=lambda each: each.length):
            known, more = self._most(placed).tower, self._most_targets(placed.length)
            real = max(real, packing.with_spare(known, more))
            self._real_targets[placed.length] = real

    @property
    def compilations(self) -> int:
        """The number of batch shapes; others almost surely never occur."""
        return len(self._shapes) or len(self._widths)

    def widest(self) -> Placement:
        """A batch of the shape that takes the most memory (packed: almost surely)."""
        if placed := self._packed(0, self._shapes[-1:]):
            return placed
        return self._one_per_row(self._numbers(0), self._widths[-1])

    def placement(self, step: int) -> Placement:
        numbers = self._numbers(step)
        if packed := self._packed(step, self._shapes):
            return packed
        return self._one_per_row(numbers, self._width_for(self._sizes(numbers)))

    def _width_for(self, sizes: np.ndarray) -> int:
        return next(width for width in self._widths if width >= sizes.max())

    def _one_per_row(self, numbers: np.ndarray, length: int) -> Placement:
        placed = packing.one_per_row(numbers, self._towers, length)
        return self._with_real(placed._replace(targets=self._most_targets(length)))

    def _packed(self, step: int, shapes: list[packing.Shape]) -> Placement | None:
        """A packed batch, or None if the rows do not fit into any of the shapes."""
        numbers = self._numbers(step)
        sizes = self._sizes(numbers)
        placed = packing.pack(numbers, sizes, self._towers, shapes=shapes)
        if placed is None:
            return None
        # A batch with more targets than any of the sample costs one more compilation.
        need = packing.rounded(self._most(placed).row)
        return self._with_real(placed._replace(targets=max(need, self._targets)))

    def _with_real(self, placed: Placement) -> Placement:
        """The batch with M, doubled if it has more real targets."""
        most = placed.most_real_targets
        real = self._real_targets.get(placed.length, most)
        if real >= most:
            return placed
        need = self._most(placed).tower
        while real < need:
            real *= 2
        return placed._replace(real_targets=real if real < most else None)

    def _most(self, placed: Placement) -> packing.MostTargets:
        return packing.most_targets(placed.numbers, self._target_counts)

    def _numbers(self, step: int) -> np.ndarray:
        rows = len(self._lengths)
        if self._padding != "bucket":
            return self._shuffled(step)
        first, last = window_of_step(rows, self._batch, step, size=_WINDOW)
        return self._sorted(first, last)[step - first]

    def _sorted_window(self, first: int, last: int) -> np.ndarray:
        """The rows of steps [first, last), sorted by length, in shuffled batches."""
        numbers = np.concatenate([self._shuffled(s) for s in range(first, last)])
        numbers = numbers[np.argsort(self._sizes(numbers), kind="stable")]
        batches = numbers.reshape(-1, self._batch)
        shuffles = SHUFFLES[self._random_numbers]
        return shuffles.window(batches, first, last, seed=self._seed)

    def _shuffled(self, step: int) -> np.ndarray:
        return rows_of_step(
            len(self._lengths),
            self._batch,
            step,
            seed=self._seed,
            random_numbers=self._random_numbers,
        )


def rows_of_step(
    rows: int, batch: int, step: int, *, seed: int, random_numbers: str = "counters"
) -> np.ndarray:
    """The row numbers (see `rows.Rows`) of the global batch of a step, int64 [batch].

    Epochs follow one another without a gap: no row is dropped at the end of one.
    random_numbers: one of SHUFFLES.
    """
    epochs, positions = np.divmod(np.arange(step * batch, (step + 1) * batch), rows)
    numbers = np.empty(batch, np.int64)
    for epoch in np.unique(epochs):
        inside = epochs == epoch
        numbers[inside] = epoch * rows + SHUFFLES[random_numbers].epoch(
            positions[inside], rows, int(epoch), seed=seed
        )
    return numbers


def window_of_step(rows: int, batch: int, step: int, *, size: int) -> tuple[int, int]:
    """The steps [first, last) that are sorted together with this one.

    No window crosses the step at which an epoch ends, so a run of whole epochs sees
    every row, and keeps its order if it is extended by more epochs.
    """
    epoch = ((step + 1) * batch - 1) // rows
    begin, end = rows * epoch // batch, rows * (epoch + 1) // batch
    first = begin + (step - begin) // size * size
    return first, min(first + size, end)


class Batching(NamedTuple):
    """The settings that determine the batches of a training run."""

    padding: str  # one of POLICIES
    parts: int  # parts of a batch: towers x accumulation steps
    rows: int  # rows of a part
    max_length: int  # tokens of a row
    seed: int
    random_numbers: str  # one of SHUFFLES
    # Tokens of a segment if rows may have several segments. Such rows are not packed:
    # "pack" then means "bucket".
    segment: int | None = None

    @property
    def examples(self) -> int:
        """The number of examples of a batch."""
        return self.parts * self.rows

    @property
    def compared_steps(self) -> int:
        return max(1, min(_COMPARED_STEPS, _COMPARED_EXAMPLES // self.examples))


def whole_segments(lengths: np.ndarray, segment: int | None) -> np.ndarray:
    """The lengths of rows after a model with segments has padded their last segment.

    Rows of one segment stay as they are. segment: its tokens; None: no segments.
    """
    if segment is None:
        return lengths
    return np.where(lengths > segment, -(-lengths // segment) * segment, lengths)


def whole_width(width: int, segment: int | None) -> int:
    """The width without an incomplete segment at its end; see `whole_segments`."""
    if segment is None or width <= segment:
        return width
    return width // segment * segment


def training_orders(batching: Batching, rows: Rows) -> dict[str, TrainingOrder]:
    """The order of rows under each policy; unused ones only to compare a few steps."""
    return {
        policy: TrainingOrder(
            rows.lengths,
            batching.parts,
            batching.rows,
            padding="bucket" if policy == "pack" and batching.segment else policy,
            max_length=batching.max_length,
            seed=batching.seed,
            sample=None if policy == batching.padding else batching.compared_steps,
            target_counts=rows.target_counts,
            random_numbers=batching.random_numbers,
            segment=batching.segment,
        )
        for policy in POLICIES
    }
