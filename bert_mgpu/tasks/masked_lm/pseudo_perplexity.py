"""Pseudo-perplexity of sentences (Salazar et al. 2020), one word masked at a time.

Letters: L lines, W words in all lines, B rows, P pieces of the longest word.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from bert_mgpu.core.rows import POSITIONS, Features, Ragged
from bert_mgpu.core.task import Batch, Params
from bert_mgpu.model.config import BertConfig
from bert_mgpu.tasks.masked_lm.task import Pretraining
from bert_mgpu.text import whole_words
from bert_mgpu.text.tokenization import Tokenizer


class MaskedWords:
    """Rows that each have one word of a line masked (a `core.rows.Rows`)."""

    def __init__(self, texts: Sequence[str], tokenizer: Tokenizer, max_length: int):
        """max_length: tokens of a row with [CLS] and [SEP]; longer lines are cut."""
        self._tokenizer = tokenizer
        ids = tokenizer.batch_ids(texts)
        most = max_length - 2
        kept = [ids.row(line)[:most] for line in range(len(texts))]
        self.truncated = int((ids.lengths > most).sum())
        self.lines = Ragged.from_rows([row.tolist() for row in kept])  # L rows
        continues = whole_words.continuing(tokenizer.tokens)[self.lines.values]
        continues[self.lines.offsets[:-1][self.lines.lengths > 0]] = False
        self._starts = np.flatnonzero(~continues)  # of words, among all tokens, [W]
        self.target_counts = np.diff(np.append(self._starts, len(continues)))  # pieces
        line_of_token = np.repeat(np.arange(len(texts)), self.lines.lengths)
        self._line = line_of_token[self._starts]
        self._words = np.bincount(self._line, minlength=len(texts))  # of each line
        self.lengths = self.lines.lengths[self._line] + 2
        self.notes: dict[str, Any] = {}

    def __len__(self) -> int:
        return len(self._starts)

    def take(self, numbers: np.ndarray) -> Features:
        tokenizer, rows = self._tokenizer, numbers % len(self)
        ids, positions, labels = [], [], []
        for row in rows.tolist():
            line = self._line[row]
            tokens = self.lines.row(line).tolist()
            first = int(self._starts[row] - self.lines.offsets[line])
            pieces = range(first, first + int(self.target_counts[row]))
            labels.append([tokens[index] for index in pieces])
            for index in pieces:
                tokens[index] = tokenizer.mask_id
            ids.append([tokenizer.cls_id, *tokens, tokenizer.sep_id])
            positions.append([index + 1 for index in pieces])  # after [CLS]
        return Features(
            {
                "input_ids": Ragged.from_rows(ids),
                "segment_ids": Ragged.from_rows([[0] * len(row) for row in ids]),
            },
            {},
            rows,
            targets={
                POSITIONS: Ragged.from_rows(positions),
                "masked_lm_ids": Ragged.from_rows(labels),
            },
        )

    def scores(self, losses: np.ndarray) -> Iterator[dict[str, Any]]:
        """The tokens of each line with their probabilities, and its perplexity.

        losses: float [W, P], -log p of each piece of each word. As in bert-ad, the
        perplexity is exp(sum of all losses / words). It is None for a line without
        words, and where it is not finite, since JSON has no such numbers.
        """
        tokens = self._tokenizer.tokens
        is_piece = np.arange(losses.shape[1]) < self.target_counts[:, None]
        token_losses = losses[is_piece]  # of all lines, in order
        for line in range(len(self.lines.lengths)):
            here = slice(*self.lines.offsets[line : line + 2])
            line_losses = token_losses[here].astype(np.float64)
            count = int(self._words[line])
            yield {
                "tokens": [
                    {"token": tokens[index], "prob": float(np.exp(-loss))}
                    for index, loss in zip(
                        self.lines.row(line), line_losses, strict=True
                    )
                ],
                "ppl": _perplexity(line_losses.sum() / count) if count else None,
            }


def _perplexity(loss: float) -> float | None:
    """exp(loss), or None where that is too large for a float: for a loss above 709."""
    with np.errstate(over="ignore"):
        found = float(np.exp(loss))
    return found if math.isfinite(found) else None


class Scoring(Pretraining):
    """A task whose outputs are -log p of each masked piece. Its rows are not packed."""

    def __init__(self, bert_config: BertConfig, max_seq_length: int, pieces: int):
        """pieces: P, to which the outputs are padded."""
        super().__init__(bert_config, max_seq_length, next_sentence=False)
        self._pieces = pieces

    def outputs(self, params: Params, batch: Batch) -> dict[str, tf.Tensor]:
        found, (rows, most) = self._losses(params, batch, None), batch[POSITIONS].shape
        losses = found.masked * found.tokens.weights
        places = found.tokens.index[:, None]
        losses = tf.reshape(tf.scatter_nd(places, losses, [rows * most]), [rows, most])
        return {"losses": tf.pad(losses, [[0, 0], [0, self._pieces - most]])}
