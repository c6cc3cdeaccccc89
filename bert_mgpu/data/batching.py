"""The placement of rows in batches, which follows from (seed, step) alone.

Letters: N towers, R rows of tokens per tower, S slots for examples per row.
"""

from __future__ import annotations

import functools

import numpy as np

from bert_mgpu.core.rng.shuffles import SHUFFLES
from bert_mgpu.data import packing
from bert_mgpu.data.packing import EMPTY, Placement

POLICIES = ("max_length", "longest", "bucket", "pack")
_WINDOW = 50  # steps that bucket sorts together
_SAMPLE = 300  # steps, or rows, from which shapes are chosen
_FEWEST_SAMPLED = 50  # steps: a set of few batches has new ones in each epoch
_SHAPE_SEED = 0  # so that all seeds of a run share what is compiled
_PACKED_ROWS = 100_000  # on which packed shapes are tried
# To compile one more width takes as long as some 10 batches of BERT-base, or 60 of a
# model of 4 layers: it has to save so many in an epoch, or in a prediction.
_WORTH_A_WIDTH = 10
_EVEN, _EIGHTS = 2, 8  # what widths are multiples of


def _widths(longest: np.ndarray, max_length: int, worth: float) -> list[int]:
    """The numbers of tokens to pad to, at most `max_length`.

    longest: int [batches]; worth: see `packing.few_widths`.
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
        counts: np.ndarray | None = None,
        random_numbers: str = "counters",
    ):
        """lengths: tokens of each row; sample: steps, at most, that choose shapes;
        counts: targets of each row at most; random_numbers: one of SHUFFLES.
        """
        self._lengths = lengths
        self._counts = np.zeros_like(lengths) if counts is None else counts
        self._towers = towers
        self._per_tower = rows_per_tower
        self._padding = padding
        self._max_length = max_length
        self._seed = seed
        self._random_numbers = random_numbers
        longest = int(packing.rounded(lengths.max()))
        self._longest = min(longest, max_length)
        self._sorted = functools.lru_cache(maxsize=1)(self._sorted_window)
        # Of a few widths; each looks through all rows.
        self._most_targets = functools.cache(
            lambda width: _most_targets_to(width, lengths, self._counts)
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
                worth = _WORTH_A_WIDTH * len(groups) / epoch
                self._widths = _widths(needed, max_length, worth)
        self._shapes: list[packing.Shape] = []
        if padding == "pack":
            self._shapes, self._targets = self._packed_shapes(groups), 0
            tried = [self._packed(step, self._shapes) for step in steps]
            most_targets = [placed.targets for placed in tried if placed]
            self._targets = max(most_targets, default=0)
        self._seed = seed
        self._sorted.cache_clear()

    @property
    def _batch(self) -> int:
        return self._towers * self._per_tower

    def _sizes(self, numbers: np.ndarray) -> np.ndarray:
        return self._lengths[numbers % len(self._lengths)]

    def _packed_shapes(self, groups: list[np.ndarray]) -> list[packing.Shape]:
        """The shape of almost all steps and one for longer ones; none if packing
        saves nothing, as with towers of few rows.
        """
        shape = packing.packed_shape(groups, self._longest, self._towers)
        widths = [self._width_for(sizes) for sizes in groups]
        if shape.rows * shape.length >= self._batch * np.mean(widths):
            return []
        more = shape.rows + -(-shape.rows // 8)
        return [shape, shape._replace(rows=more)]

    @property
    def compilations(self) -> int:
        """The number of shapes of batches, almost surely all that will come."""
        return len(self._shapes) or len(self._widths)

    def widest(self) -> Placement:
        """A batch of the shape that takes the most memory (packed: almost surely)."""
        if placed := self._packed(0, self._shapes[-1:]):
            return placed
        return self._one_a_row(self._numbers(0), self._widths[-1])

    def placement(self, step: int) -> Placement:
        numbers = self._numbers(step)
        if packed := self._packed(step, self._shapes):
            return packed
        return self._one_a_row(numbers, self._width_for(self._sizes(numbers)))

    def _width_for(self, sizes: np.ndarray) -> int:
        return next(width for width in self._widths if width >= sizes.max())

    def _one_a_row(self, numbers: np.ndarray, length: int) -> Placement:
        placed = packing.one_a_row(numbers, self._towers, length)
        return placed._replace(targets=self._most_targets(length))

    def _packed(self, step: int, shapes: list[packing.Shape]) -> Placement | None:
        """A packed batch, or None where it is too long for all shapes."""
        numbers = self._numbers(step)
        sizes = self._sizes(numbers)
        placed = packing.pack(numbers, sizes, self._towers, shapes=shapes)
        if placed is None:
            return None
        # More targets than any batch of the sample: one more compilation.
        need = packing.rounded(packing.most_targets(placed.numbers, self._counts))
        return placed._replace(targets=max(need, self._targets))

    def _numbers(self, step: int) -> np.ndarray:
        rows = len(self._lengths)
        if self._padding != "bucket":
            return self._shuffled(step)
        first, last = window_of_step(rows, self._batch, step, size=_WINDOW)
        return self._sorted(first, last)[step - first]

    def _sorted_window(self, first: int, last: int) -> np.ndarray:
        """The rows of the steps [first, last) sorted by length, as shuffled batches."""
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

    Epochs follow each other without a gap: no row is dropped at their ends.
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

    No window crosses the step at which an epoch ends: a run of whole epochs sees
    every row, and keeps its order if it is given more epochs.
    """
    epoch = ((step + 1) * batch - 1) // rows
    begin, end = rows * epoch // batch, rows * (epoch + 1) // batch
    first = begin + (step - begin) // size * size
    return first, min(first + size, end)


def forward_placements(
    lengths: np.ndarray,
    towers: int,
    rows_per_tower: int,
    *,
    packs: bool,
    max_length: int,
    counts: np.ndarray | None = None,
) -> list[Placement]:
    """The placements of every row once, by length, the longest first.

    packs: several may share a row of tokens, where that leaves less padding than a few
    widths do. The longest come first so that a lack of memory shows at once. A tower
    gets at most `rows_per_tower` rows of the longest example, or as many
    tokens. counts: targets of each row at most.
    """
    counts = np.zeros_like(lengths) if counts is None else counts
    sorted_rows = _sorted_rows(
        lengths, towers, rows_per_tower, max_length=max_length, counts=counts
    )
    if not packs:
        return sorted_rows
    packed = _packed_rows(
        lengths, towers, rows_per_tower, max_length=max_length, counts=counts
    )
    return min([sorted_rows, packed], key=_tokens) if packed else sorted_rows


def _sorted_rows(
    lengths: np.ndarray,
    towers: int,
    rows_per_tower: int,
    *,
    max_length: int,
    counts: np.ndarray,
) -> list[Placement]:
    """Placements of one example per row, in a few widths."""
    size = towers * rows_per_tower
    order = np.argsort(-lengths, kind="stable")
    full = -(-len(order) // size) * size
    order = np.concatenate([order, np.full(full - len(order), EMPTY)])
    batches = order.reshape(-1, size)
    widths = _widths(lengths[batches[:, 0]], max_length, _WORTH_A_WIDTH)
    targets = {width: _most_targets_to(width, lengths, counts) for width in widths}
    width_of = [next(w for w in widths if w >= lengths[ns[0]]) for ns in batches]
    return [
        packing.one_a_row(numbers, towers, width)._replace(targets=targets[width])
        for numbers, width in zip(batches, width_of, strict=True)
    ]


def _packed_rows(
    lengths: np.ndarray,
    towers: int,
    rows_per_tower: int,
    *,
    max_length: int,
    counts: np.ndarray,
) -> list[Placement]:
    """Placements of several examples per row; none where no two fit into one."""
    longest = min(int(packing.rounded(lengths.max())), max_length)
    few = min(_SAMPLE, len(lengths))
    sample = lengths[SHUFFLES["counters"].sample(len(lengths), few, 0)]
    shape = packing.packed_shape([np.append(sample, longest)], longest)
    per_tower = rows_per_tower * longest // shape.length
    if per_tower == 0 or shape.examples_per_row == 1:
        return []
    rows = packing.fill_rows(lengths, shape.length, shape.examples_per_row)
    shape = shape._replace(rows=min(per_tower, -(-len(rows) // towers)))
    placed = _in_batches(rows, lengths, towers, shape=shape)
    most = max(packing.most_targets(each.numbers, counts) for each in placed)
    return [each._replace(targets=most) for each in placed]


def _tokens(placements: list[Placement]) -> int:
    """The number of tokens of all rows, padding included."""
    return sum(np.prod(p.numbers.shape[:2]) * p.length for p in placements)


def _most_targets_to(width: int, lengths: np.ndarray, counts: np.ndarray) -> int:
    """The most targets of any row of at most `width` tokens."""
    return int(counts[lengths <= width].max(initial=0))


def _in_batches(
    rows: list[list[int]], lengths: np.ndarray, towers: int, *, shape: packing.Shape
) -> list[Placement]:
    """Batches of packed rows, shape.rows of them for each tower."""
    size = towers * shape.rows
    return [
        packing.place_rows(
            packing.split_rows(rows[b : b + size], towers, shape), lengths, shape
        )
        for b in range(0, len(rows), size)
    ]
