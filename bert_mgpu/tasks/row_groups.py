"""The groups of rows that a task ranks against each other, and samples of rows."""

from __future__ import annotations

from collections.abc import Sequence

from bert_mgpu.core.rng.shuffles import sample_rows
from bert_mgpu.core.rows import Example
from bert_mgpu.tasks.files import TaskFiles
from bert_mgpu.text import ad_slots


def keys(files: TaskFiles, examples: Sequence[Example]) -> list[str | None] | None:
    """A text for each row, equal within a group; None for a row in no group.

    Returns None if the task does not rank rows.
    """
    if files.has_slots:
        return [ad_slots.slot_key(example.text_b) for example in examples]
    if files.columns.group is not None:
        return [example.group for example in examples]
    return None


def sample(
    examples: list[Example],
    keep: int | None,
    seed: int,
    *,
    groups: Sequence[str | None] | None = None,
    random_numbers: str = "counters",
) -> list[Example]:
    """A random sample of `keep` examples, in order; None: all. See `sample_rows`.

    groups: what `keys` returns. They stay whole, as a right row is found too easily
    among a few others, so the sample has about `keep` examples.
    """
    if keep is None or keep >= len(examples):
        return examples
    units: dict[str | int, int] = {}  # a group, or a row of its own -> its number
    unit_of = [
        units.setdefault(row if key is None else key, len(units))
        for row, key in enumerate(groups or [None] * len(examples))
    ]
    count = max(1, round(keep * len(units) / len(examples)))
    kept = {*sample_rows(len(units), count, seed, random_numbers=random_numbers)}
    return [
        example for example, unit in zip(examples, unit_of, strict=True) if unit in kept
    ]
