"""The tokenizer as TensorFlow operations, so that a SavedModel takes raw text.

The ids are those of text/tokenization.py, computed by TensorFlow's own operations
alone, so that a server needs no other library. Cleaning, lower-casing, stripping
accents and separating punctuation are one look-up per code point (why that is right:
text/normalization.py), except for a capital sigma, which depends on its neighbours. One
thing is left out: sorting two combining marks after a letter, if both survive the
stripping of accents.

Letters: B texts, C their code points in sequence, N words.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from bert_mgpu.text.normalization import normalized
from bert_mgpu.text.tokenization import MAX_WORD, Tokenizer

# The code points in the table; all others, unassigned or letters, stay as they are.
# The second range holds variation selectors and tags.
_RANGES = ((0, 0x2FA20), (0xE0000, 0xE0200))
_SPACE = 0x20
_BLANKS = [point for point in range(0x3001) if chr(point).isspace()]
_SIGMA, _FINAL_SIGMA = 0x3A3, 0x3C2


class Located(NamedTuple):
    """The pieces of texts and their offsets in characters, ragged int32 [B, pieces].

    The offsets are those of `Tokenizer.ids_with_offsets`.
    """

    ids: tf.RaggedTensor
    starts: tf.RaggedTensor
    ends: tf.RaggedTensor  # exclusive


class _Words(NamedTuple):
    """The words of all texts, one text after the other, of K characters in all."""

    words: tf.Tensor  # string [N]
    rows: tf.Tensor  # int64 [N], the text of each
    sources: tf.Tensor  # int32 [K]: index of the original code point in all texts
    row_starts: tf.Tensor  # int32 [B]: the first code point of each text


class GraphTokenizer(tf.Module):  # type: ignore[misc]
    """Texts, string [B] in UTF-8 -> ids of their pieces, ragged int32 [B, pieces]."""

    needs = ""  # the module to import before an exported model is loaded

    def __init__(self, tokenizer: Tokenizer):
        super().__init__()
        self._lower = tokenizer.do_lower_case
        self._unknown = tokenizer.unk_id
        sizes = [len(token) for token in tokenizer.tokens]  # as a word's first piece
        self._sizes = tf.constant(sizes, tf.int32)
        self._longest = max(map(len, tokenizer.vocab))
        self._table, self._ends = map(tf.constant, _expansions(self._lower))
        self._known = len(_code_points())  # the index of all others
        if self._lower:
            self._cased, self._skipped = map(tf.constant, _sigma_classes())
        self._vocab = tf.lookup.StaticHashTable(
            tf.lookup.KeyValueTensorInitializer(
                tf.constant([*tokenizer.vocab]),
                # int64: tensorflow-text's kernel, which reads it too, takes no other.
                tf.constant([*tokenizer.vocab.values()], tf.int64),
            ),
            default_value=-1,
        )

    def __call__(self, texts: tf.Tensor) -> tf.RaggedTensor:
        return self._cut(texts)[0]

    def located(self, texts: tf.Tensor) -> Located:
        """The pieces of texts, string [B], with their offsets in characters."""
        ids, word_pieces, words = self._cut(texts)
        pieces = word_pieces.values
        lengths = tf.gather(
            tf.strings.length(words.words, "UTF8_CHAR"), word_pieces.value_rowids()
        )
        # After the first piece of a word, tokens begin with "##".
        is_first = tf.ragged.range(word_pieces.row_lengths()).values == 0
        sizes = tf.gather(self._sizes, pieces) - tf.where(is_first, 0, 2)
        sizes = tf.where(pieces == self._unknown, lengths, sizes)
        owners = tf.repeat(tf.range(tf.size(pieces)), sizes)  # of each character
        count = tf.size(pieces)
        firsts = tf.math.unsorted_segment_min(words.sources, owners, count)
        lasts = tf.math.unsorted_segment_max(words.sources, owners, count)
        begins = tf.gather(words.row_starts, ids.value_rowids())
        return Located(
            ids, ids.with_values(firsts - begins), ids.with_values(lasts + 1 - begins)
        )

    def _cut(self, texts: tf.Tensor) -> tuple[tf.RaggedTensor, tf.RaggedTensor, _Words]:
        """The ids of each text, the ids of each word, and the words."""
        words = self._words(texts)
        distinct, index = tf.unique(words.words)
        pieces = tf.gather(self._pieces(distinct), index)  # ragged [N, pieces]
        counts = tf.math.unsorted_segment_sum(
            pieces.row_lengths(), words.rows, tf.shape(texts, tf.int64)[0]
        )
        return tf.RaggedTensor.from_row_lengths(pieces.values, counts), pieces, words

    def _words(self, texts: tf.Tensor) -> _Words:
        points = tf.strings.unicode_decode(texts, "UTF-8")
        values, rows = points.values, points.value_rowids()  # [C]
        indices = _indices(values)
        known = indices < self._known
        begins = tf.gather(self._ends, indices)
        counts = tf.where(known, tf.gather(self._ends, indices + 1) - begins, 1)
        source = tf.repeat(tf.range(tf.size(values)), counts)  # of each new character
        number = tf.range(tf.size(source)) - tf.gather(
            tf.cumsum(counts, exclusive=True), source
        )
        in_table = tf.gather(known, source)
        entry = tf.where(in_table, tf.gather(begins, source) + number, 0)
        chars = tf.gather(self._table, entry)
        chars = tf.where(in_table, chars, tf.gather(values, source))
        if self._lower:
            final = self._final_sigmas(values, rows, indices)
            chars = tf.where(tf.gather(final, source), _FINAL_SIGMA, chars)
        rows = tf.gather(rows, source)
        inside = chars != _SPACE
        before = tf.concat([[False], inside[:-1]], 0)
        same = tf.concat([[False], rows[1:] == rows[:-1]], 0)
        starts_word = inside & ~(before & same)
        number = tf.cumsum(tf.cast(starts_word, tf.int64)) - 1
        words = tf.RaggedTensor.from_value_rowids(
            tf.boolean_mask(chars, inside),
            tf.boolean_mask(number, inside),
            nrows=tf.reduce_sum(tf.cast(starts_word, tf.int64)),
        )
        return _Words(
            tf.strings.unicode_encode(words, "UTF-8"),
            tf.boolean_mask(rows, starts_word),
            sources=tf.boolean_mask(source, inside),
            row_starts=tf.cast(points.row_starts(), tf.int32),
        )

    def _final_sigmas(
        self, values: tf.Tensor, rows: tf.Tensor, indices: tf.Tensor
    ) -> tf.Tensor:
        """Which code points are capital sigmas that end a word: bool [C].

        A cased letter comes before such a sigma and none after it; some characters are
        skipped in between.
        """
        seen = ~tf.gather(self._skipped, indices)
        cased = tf.boolean_mask(tf.gather(self._cased, indices), seen)
        rows_seen = tf.boolean_mask(rows, seen)
        count = tf.cumsum(tf.cast(seen, tf.int32))

        def is_cased(index: tf.Tensor) -> tf.Tensor:
            """Whether the index-th unskipped character is cased and in this text."""
            inside = (index >= 0) & (index < tf.size(cased))
            index = tf.where(inside, index, 0)
            padded = tf.concat([cased, [False]], 0)
            padded_rows = tf.concat([rows_seen, [-1]], 0)
            same = tf.gather(padded_rows, index) == rows
            return inside & same & tf.gather(padded, index)

        before, after = is_cased(count - 2), is_cased(count)
        return (values == _SIGMA) & before & ~after

    def _pieces(self, words: tf.Tensor) -> tf.RaggedTensor:
        """WordPiece, the longest match first: string [N] -> int32 [N, pieces]."""
        lengths = tf.strings.length(words, "UTF8_CHAR")
        count = tf.size(words)
        sizes = tf.range(1, self._longest + 1)  # of a match, in characters
        whole = lengths <= MAX_WORD

        def more(start: tf.Tensor, failed: tf.Tensor, ids: tf.Tensor) -> tf.Tensor:
            return tf.reduce_any(~failed & (start < lengths))

        def cut(
            start: tf.Tensor, failed: tf.Tensor, ids: tf.Tensor
        ) -> tuple[tf.Tensor, ...]:
            active = tf.where(~failed & (start < lengths))[:, 0]
            own = tf.gather(words, active)
            first = tf.gather(start, active)
            left = tf.gather(lengths, active) - first
            repeated = tf.broadcast_to(own[:, None], [tf.size(own), self._longest])
            candidates = tf.strings.substr(
                repeated,
                tf.broadcast_to(first[:, None], tf.shape(repeated)),
                tf.broadcast_to(sizes[None], tf.shape(repeated)),
                "UTF8_CHAR",
            )
            candidates = tf.where(
                first[:, None] > 0, tf.strings.join(["##", candidates]), candidates
            )
            known = self._vocab.lookup(candidates)  # [active, longest]
            fits = (known >= 0) & (sizes[None] <= left[:, None])
            size = tf.reduce_max(tf.where(fits, sizes[None], 0), -1)
            piece_ids = tf.gather(known, tf.maximum(size - 1, 0), batch_dims=1)
            piece_ids = tf.cast(piece_ids, tf.int32)
            column = tf.scatter_nd(
                active[:, None], tf.where(size > 0, piece_ids + 1, 0), [count]
            )
            start = tf.tensor_scatter_nd_add(start, active[:, None], size)
            failed = tf.tensor_scatter_nd_update(failed, active[:, None], size == 0)
            return start, failed, tf.concat([ids, column[:, None]], 1)

        zeros = tf.zeros([count], tf.int32)
        state = zeros, ~whole, tf.zeros([count, 0], tf.int32)
        shapes = zeros.shape, whole.shape, tf.TensorShape([None, None])
        _, failed, ids = tf.while_loop(more, cut, state, shape_invariants=shapes)
        # Ids are stored plus one: 0 is no piece. A word that fails is [UNK].
        unknown = tf.fill([count, 1], self._unknown + 1)
        ids = tf.concat([unknown, ids], 1)
        first = (tf.range(tf.shape(ids)[1]) == 0)[None]
        chosen = tf.where(failed[:, None], first, ~first & (ids > 0))
        kept = tf.boolean_mask(ids, chosen) - 1
        sizes = tf.reduce_sum(tf.cast(chosen, tf.int64), -1)
        return tf.RaggedTensor.from_row_lengths(kept, sizes)


def is_space(points: tf.Tensor) -> tf.Tensor:
    """Whether code points are whitespace to `str.isspace`: [C] -> bool [C]."""
    return tf.reduce_any(points[:, None] == tf.constant(_BLANKS), 1)


def _code_points() -> list[int]:
    return [point for first, end in _RANGES for point in range(first, end)]


def _indices(values: tf.Tensor) -> tf.Tensor:
    """Code points -> their indices in the tables; the last one is for all others."""
    index, used = tf.fill(tf.shape(values), 0), 0
    known = tf.zeros_like(values, tf.bool)
    for first, end in _RANGES:
        inside = (values >= first) & (values < end)
        index = tf.where(inside, values - first + used, index)
        known |= inside
        used += end - first
    return tf.where(known, index, used)


@functools.cache
def _expansions(lower_case: bool) -> tuple[np.ndarray, np.ndarray]:
    """What each code point becomes, concatenated characters, and where each begins."""
    parts = [
        [_SPACE if char.isspace() else ord(char) for char in text]
        for text in (normalized(chr(point), lower_case) for point in _code_points())
    ]
    ends = np.cumsum([0, *map(len, parts), 0])
    values = np.array([value for part in parts for value in part], np.int32)
    return values, ends.astype(np.int32)


@functools.cache
def _sigma_classes() -> tuple[np.ndarray, np.ndarray]:
    """Whether code points are cased, and whether a sigma skips them, as in Python."""

    def is_final(text: str) -> bool:
        return text.lower().endswith(chr(_FINAL_SIGMA))

    sigma, cased, skipped = chr(_SIGMA), [], []
    for point in _code_points():
        char = chr(point)
        dropped = normalized(char, False) == ""
        after_letter = is_final(f"a{char}{sigma}")  # cased, or skipped
        by_itself = is_final(f"{char}{sigma}")
        cased.append(by_itself and not dropped)
        skipped.append(dropped or (after_letter and not by_itself))
    return np.array([*cased, False]), np.array([*skipped, False])
