"""Accents and other marks after pieces, as operations: see text/pieces.py."""

from __future__ import annotations

import functools
import sys

import tensorflow as tf

from bert_mgpu.text.pieces import is_mark


def cover_marks(
    texts: tf.Tensor, starts: tf.Tensor, ends: tf.Tensor, *, unit_texts: tf.Tensor
) -> tf.Tensor:
    """The ends of units, moved past the marks after them that belong to no unit.

    starts, ends: int32, of the units of all texts, one text after the other;
    unit_texts: the text of each unit.
    """
    points = tf.strings.unicode_decode(texts, "UTF-8")
    others = ~_are_marks(points.values)
    begins = tf.gather(tf.cast(points.row_starts(), tf.int32), unit_texts)
    sizes = tf.gather(tf.cast(points.row_lengths(), tf.int32), unit_texts)
    is_last = tf.concat([unit_texts[1:] != unit_texts[:-1], [True]], 0)[
        : tf.size(starts)
    ]
    following = tf.where(
        is_last, sizes, tf.concat([starts[1:], [0]], 0)[: tf.size(starts)]
    )
    seen = tf.concat([[0], tf.cumsum(tf.cast(others, tf.int32))], 0)
    places = tf.concat([tf.cast(tf.where(others)[:, 0], tf.int32), [tf.int32.max]], 0)
    other = tf.gather(places, tf.gather(seen, begins + ends)) - begins
    return tf.maximum(ends, tf.minimum(other, following))


def _are_marks(points: tf.Tensor) -> tf.Tensor:
    """Whether code points are marks: [C] -> bool [C]."""
    return tf.searchsorted(tf.constant(_borders()), points, side="right") % 2 == 1


@functools.cache
def _borders() -> list[int]:
    """The code points at which runs of marks begin and end, by turns."""
    marks = [is_mark(chr(point)) for point in range(sys.maxunicode + 1)]
    return [
        point
        for point, (before, own) in enumerate(zip([False, *marks], marks, strict=False))
        if before != own
    ]
