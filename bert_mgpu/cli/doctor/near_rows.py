"""Rows with nearly the same text as another row: lines and a table for the doctor."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from bert_mgpu.cli.doctor.task_sets import ReadSet
from bert_mgpu.core import hashing
from bert_mgpu.core.log import fact
from bert_mgpu.core.rows import Example
from bert_mgpu.evaluation import html
from bert_mgpu.text import near_duplicates

_MANY = 20_000  # rows: 4 ms each where most texts are alike
_MAX_PAIRS = 3  # that a line names
_HEAD = ("place", "label", "text", "like", "its label", "its text")
_LETTERS = "wwtwwt"  # of `html.table`
# (in the same file; same label, None: unknown) -> what a line says of such rows.
_SAID = {
    (True, True): "nearly repeating an earlier row, with the same label",
    (True, False): "nearly repeating an earlier row, with another label",
    (True, None): "nearly repeating an earlier row",
    (False, True): "nearly repeating a row of {path}, with the same label: a leak",
    (False, False): "nearly repeating a row of {path}, with another label",
    (False, None): "nearly repeating a row of {path}: a leak",
}


class NearRow(NamedTuple):
    """A row, and the first earlier row with nearly the same text."""

    own: ReadSet
    example: Example
    other: ReadSet
    like: Example

    @property
    def same_label(self) -> bool | None:
        return same_label(self.example, self.like)


def classes_of(example: Example) -> tuple[str, ...]:
    """The classes of a row: one, several of type multi, the types of its entities.

    () for labels of other types.
    """
    label = example.label
    if isinstance(label, str):
        return (label,)
    return label if type(label) is tuple else getattr(label, "types", ())


def same_label(one: Example, other: Example) -> bool | None:
    """None if unknown: a label is missing, or has the same classes, but at places in
    the text, which differ.
    """
    labels = one.label, other.label
    if None not in labels and classes_of(one) != classes_of(other):
        return False
    # Labels of type multi are plain tuples; those with places are tuples with names.
    if not all(type(label) in (str, float, tuple) for label in labels):
        return None
    return bool(labels[0] == labels[1])


def find(sets: Sequence[ReadSet]) -> list[NearRow]:
    """The rows whose text is near, but not equal, to one in their set or in train.

    sets: train first, if there is one.
    """
    rows = [(read, example) for read in sets for example in read.examples]
    if len(rows) >= _MANY:
        fact("texts", f"comparing {len(rows):,}, which can take minutes")
    near = near_duplicates.first_near(
        [(example.text_a, example.text_b or "") for _, example in rows]
    )
    found = []
    for (own, example), number in zip(rows, near.tolist(), strict=True):
        if number < 0:
            continue
        other, like = rows[number]
        same = _key(example) == _key(like)  # which `data_checks` reports
        if not same and (other is own or other.split == "train"):
            found.append(NearRow(own, example, other=other, like=like))
    return found


def _key(example: Example) -> int:
    return hashing.text_key(example.text_a, example.text_b)


def warnings(rows: Sequence[NearRow]) -> Iterator[str]:
    """One line for each pair of files and for each value of `same_label`."""
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


def page(rows: Sequence[NearRow]) -> str:
    """All pairs as HTML; "" without any."""
    cells = [
        (*_cells(row.own, row.example), *_cells(row.other, row.like)) for row in rows
    ]
    return html.table([_HEAD, *cells], _LETTERS) if cells else ""


def _cells(own: ReadSet, example: Example) -> tuple[str, str, str]:
    """Place, label and text of a row."""
    label = example.label
    if isinstance(label, tuple) and all(isinstance(name, str) for name in label):
        label = ", ".join(label)
    text = " | ".join(filter(None, (example.text_a, example.text_b)))
    shown = str(label) if isinstance(label, str | float) else ""
    return f"{own.path}:{example.line}", shown, text
