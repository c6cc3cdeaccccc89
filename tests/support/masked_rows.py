"""Rows of words, masks drawn for them, and whether counts of them are as expected."""

import numpy as np

from bert_mgpu.text import masking

MASK = 4
WIDE = 1_000_000  # so many ids that a random one is new


def close(ours, expected, variance):
    """Within 4 standard errors everywhere; where there is no variance, equal."""
    difference = np.abs(np.asarray(ours, float) - np.asarray(expected, float))
    assert np.all(difference <= 4 * np.sqrt(variance)), (ours, expected)


def make_row(*segments):
    """A row of segments, each the sizes of its words: ids, segment ids, words.

    Ids are 100, 101, ...; [CLS] and a [SEP] after each segment are 2 and 3.
    """
    ids, segment_ids, words = [2], [0], [-1]
    for segment, sizes in enumerate(segments):
        for size in sizes:
            words += [max(words) + 1] * size
        count = sum(sizes)
        ids += [*range(98 + len(ids), 98 + len(ids) + count), 3]
        segment_ids += [segment] * (count + 1)
        words.append(-1)
    return tuple(np.array(values, np.int32) for values in (ids, segment_ids, words))


def draws(options, row, count, seed=0):
    rng = np.random.default_rng(seed)
    return [
        masking.apply(options, *row[:2], words=row[2], rng=rng) for _ in range(count)
    ]


def runs(positions):
    """[start, end) of consecutive positions."""
    cuts = np.flatnonzero(np.diff(positions) != 1) + 1
    return [(int(run[0]), int(run[-1]) + 1) for run in np.split(positions, cuts)]
