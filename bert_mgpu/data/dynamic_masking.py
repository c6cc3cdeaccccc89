"""Masks drawn during training, for records without masks."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np

from bert_mgpu.core.rng.draws import Draws
from bert_mgpu.core.rows import POSITIONS, Features, Ragged
from bert_mgpu.text import masking, whole_words

# The source of random numbers for each value of `RunConfig.random_numbers`.
_DRAWS: dict[str, Callable[[np.random.BitGenerator], masking.Random]]
_DRAWS = {"counters": Draws, "numpy": np.random.Generator}


@dataclasses.dataclass(frozen=True)
class DynamicMasking:
    """Masks drawn anew in each epoch; they depend on (seed, row number) alone."""

    masking: masking.Masking
    special: tuple[int, ...]  # ids that are never masked: [CLS], [SEP]
    seed: int
    random_numbers: str = "counters"

    def most(self, lengths: np.ndarray) -> np.ndarray:
        """The largest number of masked tokens in a row of each of these lengths."""
        if self.masking.strategy == "infill":
            return np.minimum(lengths, self.masking.most)
        sizes = range(int(lengths.max(initial=0)) + 1)
        budgets = [masking.budget(self.masking, size) for size in sizes]
        return np.array(budgets, np.int32)[lengths]

    def masked(self, rows: Features, starts: Ragged, numbers: np.ndarray) -> Features:
        """The rows with masks. starts: 1 where a word begins; empty: at every token."""
        ids, segments = rows.ragged["input_ids"], rows.ragged["segment_ids"]
        is_text = ~np.isin(ids.values, self.special)
        positions, labels, counts = [], [], []
        values = ids.values.copy()
        for row, number in enumerate(numbers.tolist()):
            here = slice(ids.offsets[row], ids.offsets[row + 1])
            if starts.lengths[row]:
                begins = starts.row(row) > 0
                word_of = whole_words.numbered(begins, is_text[here])
            else:
                word_of = whole_words.single_token_words(is_text[here])
            # Each row has its own stream: the counter's last word is the row number.
            bits = np.random.Philox(key=self.seed, counter=[0, 0, 0, number])
            masked = masking.apply(
                self.masking,
                ids.values[here],
                segments.values[here],
                words=word_of,
                rng=_DRAWS[self.random_numbers](bits),
            )
            counts.append(0 if masked is None else len(masked.positions))
            if masked is not None:
                values[here] = masked.input_ids
                positions.append(masked.positions)
                labels.append(masked.labels)
        offsets = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
        none = np.zeros(0, np.int32)
        return dataclasses.replace(
            rows,
            ragged=rows.ragged | {"input_ids": Ragged(values, ids.offsets)},
            targets={
                POSITIONS: Ragged(np.concatenate([none, *positions]), offsets),
                "masked_lm_ids": Ragged(np.concatenate([none, *labels]), offsets),
            },
        )
