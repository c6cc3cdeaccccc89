"""A dev set that is a share of the training file, where a task has no dev file.

The share is that of each label. Rows of the same text are on one side, and a text is on
the same side in every run: hashes of the texts choose, not a seed that may differ when
the model is evaluated later.
"""

from __future__ import annotations

import collections
import hashlib
from collections.abc import Sequence

from bert_mgpu.core.rows import Example


def part(examples: Sequence[Example], share: float, *, dev: bool) -> list[Example]:
    """The examples of the dev set, or the others, in their order.

    share: of the rows of each label, 0 to 1; all numbers count as one label. A label
    of two texts or more has one at least on each side.
    """
    chosen = _chosen(examples, share)
    return [e for e in examples if (_text(e) in chosen) == dev]


def _text(example: Example) -> bytes:
    """A hash of the texts, equal for rows of the same text."""
    texts = (example.text_a.strip(), (example.text_b or "").strip())
    return hashlib.blake2b("\0".join(texts).encode(), digest_size=16).digest()


def _chosen(examples: Sequence[Example], share: float) -> set[bytes]:
    """The texts of the dev set. A text belongs to the label of its first row."""
    labels: dict[bytes, object] = {}
    counts: collections.Counter[bytes] = collections.Counter()
    for example in examples:
        text = _text(example)
        is_number = isinstance(example.label, float)
        labels.setdefault(text, None if is_number else example.label)
        counts[text] += 1
    texts_of = collections.defaultdict[object, list[bytes]](list)
    for text, label in labels.items():
        texts_of[label].append(text)
    chosen: set[bytes] = set()
    for texts in texts_of.values():
        wanted = max(1, round(share * sum(counts[text] for text in texts)))
        rows = 0
        for text in sorted(texts)[:-1]:  # one stays
            if rows >= wanted:
                break
            chosen.add(text)
            rows += counts[text]
    return chosen
