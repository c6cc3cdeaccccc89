"""Weights for a vocabulary that has grown since they were trained.

A new token starts from what the model has read in its place so far: the mean of the
rows of the pieces into which the old vocabulary splits it. The rows of all other
tokens stay as they are, bit for bit.
"""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Mapping, Sequence

import numpy as np

from bert_mgpu.core.errors import UserError
from bert_mgpu.text import vocab_coverage
from bert_mgpu.text.normalization import Normalizer
from bert_mgpu.text.tokenization import Pieces, Tokenizer

# Parameters with a row for each token; the first has a row of H values.
TABLES = ("bert/embeddings/word_embeddings", "cls/predictions/output_bias")
# Embeddings are often padded to a round number of rows, beyond the last token.
MAX_UNUSED_ROWS = 128
_MOST_RENAMED = 0.1  # fraction of the common rows; above it, another vocabulary
_MOST_SHOWN, _IN_LINE = 1000, 5
Origins = dict[int, list[int]]
Shapes = Mapping[str, tuple[int, ...]]


def origins(
    old_tokens: Sequence[str], new_tokens: Sequence[str], do_lower_case: bool
) -> Origins:
    """Row of each new token -> rows of its pieces in the old vocabulary.

    A token is new if its row did not exist or held another token. One that had another
    row is its own single piece; one that cannot be split gets the row of [UNK].
    """
    vocab = {token: row for row, token in enumerate(old_tokens)}
    words, pieces = Normalizer(do_lower_case).words, Pieces(vocab, vocab["[UNK]"])

    def rows_of(token: str) -> list[int]:
        if token in vocab:
            return [vocab[token]]
        # A continuation piece is split as it stands, with its "##".
        parts = [token] if token.startswith("##") else words(token)
        ids = b"".join(pieces[part] for part in parts)
        return np.frombuffer(ids, np.int32).tolist() or [vocab["[UNK]"]]

    return {
        row: rows_of(token)
        for row, token in enumerate(new_tokens)
        if row >= len(old_tokens) or token != old_tokens[row]
    }


def grow(
    old_table: np.ndarray,
    old_tokens: Sequence[str],
    new_tokens: Sequence[str],
    *,
    do_lower_case: bool,
) -> tuple[np.ndarray, Origins]:
    """A table for the new vocabulary, and the `origins` of its new rows.

    V old rows, W new tokens. Rows beyond all tokens stay as they are.

    Args:
      old_table: float [V, ...], with at least one row for each old token.
    Returns:
      float [max(V, W), ...].
    """
    pieces_of = origins(old_tokens, new_tokens, do_lower_case)
    return _grown(old_table, pieces_of, len(new_tokens)), pieces_of


def _grown(old: np.ndarray, pieces_of: Origins, size: int) -> np.ndarray:
    more = max(0, size - len(old))
    table = np.concatenate([old, np.zeros((more, *old.shape[1:]), old.dtype)])
    for row, pieces in pieces_of.items():
        table[row] = old[pieces].mean(axis=0)
    return table


@dataclasses.dataclass(frozen=True)
class Growth:
    """The tokens of a run's vocabulary that the weights do not know."""

    old_tokens: Sequence[str] = ()
    new_tokens: Sequence[str] = ()
    origins: Origins = dataclasses.field(default_factory=dict)
    note: str | None = None  # for the log: where the old tokens come from

    @property
    def _tables(self) -> tuple[str, ...]:
        return TABLES if self.origins else ()

    def shapes(self, stored: Shapes, wanted: Shapes) -> dict[str, tuple[int, ...]]:
        """The shapes `stored` in a checkpoint, after the growth."""
        grown = dict(stored)
        for name in self._tables:
            old, new = stored.get(name), wanted.get(name)
            if old and new and old[0] < new[0] and old[1:] == new[1:]:
                grown[name] = new
        return grown

    def apply(
        self, params: Mapping[str, np.ndarray], first: Mapping[str, np.ndarray]
    ) -> dict[str, np.ndarray]:
        """The parameters with new rows; rows without a token come from `first`."""
        grown = dict(params)
        for name in self._tables:
            if name in params:
                old = np.asarray(params[name], np.float32)
                table = _grown(old, self.origins, len(self.new_tokens))
                grown[name] = np.concatenate([table, first[name][len(table) :]])
        return grown

    def lines(self) -> list[str]:
        """Lines for the log: the new tokens and their pieces."""
        shown = [
            f"{self.new_tokens[row]} ({' '.join(self.old_tokens[i] for i in pieces)})"
            for row, pieces in self.origins.items()
        ]
        notes = [self.note] if self.note else []
        if not shown:
            return notes
        more = len(shown) - _MOST_SHOWN
        return [
            *notes,
            f"tokens that the weights do not know: {len(shown)}; each starts from the"
            " mean of its pieces:",
            *(
                f"  {', '.join(shown[first : first + _IN_LINE])}"
                for first in range(0, min(len(shown), _MOST_SHOWN), _IN_LINE)
            ),
            *([f"  and {more} more"] if more > 0 else []),
        ]


def find_growth(
    vocab_file: str, tokenizer: Tokenizer, beside: pathlib.Path, *, shapes: Shapes
) -> Growth:
    """The growth of a run's vocabulary over that of weights with these `shapes`.

    The vocabulary of the weights is the file `beside` them. If that is missing, or has
    too many or too few tokens, it is taken to be the first tokens of the run's.

    Raises UserError where the run has an entirely different vocabulary, or [unusedN] in
    place of a word that the weights know.
    """
    new, lower = tokenizer.tokens, tokenizer.do_lower_case
    rows = shapes.get(TABLES[0], (0,))[0]
    old = new[:rows]
    if beside.is_file():
        tokens = Tokenizer(beside, lower).tokens
        old = tokens if 0 <= rows - len(tokens) <= MAX_UNUSED_ROWS else old
    common = min(len(old), len(new))
    free = set(vocab_coverage.free_rows(old))
    renamed = [row for row in range(common) if old[row] != new[row] and row not in free]
    if len(renamed) > _MOST_RENAMED * common:
        row = renamed[0]
        raise UserError(
            f"{vocab_file}:{row + 1}: {new[row]!r}, but {old[row]!r} in {beside}, which"
            f" the weights were trained with; {len(renamed)} of {common} tokens differ:"
            f" pass --vocab_file={beside}, or one that only adds tokens to it, as"
            " data_prep/domain_vocab.py writes it"
        )
    if lost := sorted({*renamed} & {*vocab_coverage.free_rows(new)}):
        row = lost[0]
        raise UserError(
            f"{vocab_file}:{row + 1}: {new[row]!r}, but {old[row]!r} in {beside}, which"
            f" the weights were trained with; {len(lost)} of its words would be lost:"
            f" pass --vocab_file={beside}"
        )
    note = None
    if rows and not beside.is_file():
        note = (
            f"  no {beside.name} beside the weights: assuming that they know the first"
            f" {len(old)} tokens of {vocab_file}"
        )
    return Growth(old, new, origins(old, new, lower) if rows else {}, note=note)
