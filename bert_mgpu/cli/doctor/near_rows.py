"""Rows whose texts are nearly those of another row: lines for the doctor's report."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from bert_mgpu.cli.doctor.task_sets import ReadSet
from bert_mgpu.core import hashing
from bert_mgpu.core.rows import Example
from bert_mgpu.text import near_duplicates

_MAX_PAIRS = 3  # that are named
# (in one set, the label is the same or None: not known) -> what is said of such rows.
_SAID = {
    (True, True): "with nearly the text of an earlier row and its label",
    (True, False): "with nearly the text of an earlier row and another label",
    (True, None): "with nearly the text of an earlier row",
    (False, True): "with nearly the text of a row of {path}, and its label: a leak",
    (False, False): "with nearly the text of a row of {path}, and another label",
    (False, None): "with nearly the text of a row of {path}: a leak",
}


class NearRow(NamedTuple):
    """A row, and the first earlier one that has nearly its text."""

    own: ReadSet
    example: Example
    other: ReadSet
    like: Example

    @property
    def same_label(self) -> bool | None:
        """None where it cannot be said: a label is missing, or has places in a text."""
        labels = self.example.label, self.like.label
        if not all(isinstance(label, (str, float, tuple)) for label in labels):
            return None
        return bool(labels[0] == labels[1])


def find(sets: Sequence[ReadSet]) -> list[NearRow]:
    """The rows of a set, or of another set and train, that are near but not the same.

    sets: train first, if there is one.
    """
    rows = [(read, example) for read in sets for example in read.examples]
    near = near_duplicates.first_near(
        [(example.text_a, example.text_b or "") for _, example in rows]
    )
    found = []
    for (own, example), number in zip(rows, near.tolist(), strict=True):
        if number < 0:
            continue
        other, like = rows[number]
        same = _key(example) == _key(like)  # which `data_checks` says
        if not same and (other is own or other.split == "train"):
            found.append(NearRow(own, example, other=other, like=like))
    return found


def _key(example: Example) -> int:
    return hashing.text_key(example.text_a, example.text_b)


def warnings(rows: Sequence[NearRow]) -> Iterator[str]:
    """A line for each set, kind of pair and label: the same or another."""
    kinds: dict[tuple[str, str, bool | None], list[NearRow]] = {}
    for row in rows:
        kind = str(row.own.path), str(row.other.path), row.same_label
        kinds.setdefault(kind, []).append(row)
    for (path, other, same), some in kinds.items():
        pairs = [f"{one.example.line} like {one.like.line}" for one in some]
        rest = len(pairs) - _MAX_PAIRS
        more = f" and {rest} more" if rest > 0 else ""
        count = f"{len(some)} row{'s' * (len(some) > 1)}"
        if path != other:
            count += f" ({len(some) / len(some[0].own.examples):.1%})"
        said = _SAID[path == other, same].format(path=other)
        yield f"{path}:{', '.join(pairs[:_MAX_PAIRS])}{more}: {count} {said}"
