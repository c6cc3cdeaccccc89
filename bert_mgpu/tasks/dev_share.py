"""A dev set that is split off from the training file, for a task without a dev file.

It has the given share of all rows, and of each label as nearly as whole texts allow:
rows with the same text, and others that the family keeps together, stay on one side.
Hashes of the texts decide, not a seed that may differ when the model is evaluated
later: the same rows, in any order, are always split in the same way. Adding or removing
rows may move a text to the other side, since the share of its label is rounded together
with those of all labels.
"""

from __future__ import annotations

import collections
import hashlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Protocol

from bert_mgpu.config.finetuning import FinetuneConfig
from bert_mgpu.core.errors import UserError
from bert_mgpu.core.rows import Example
from bert_mgpu.tasks.files import TaskFiles


def of_run(config: FinetuneConfig, task: TaskFiles) -> float | None:
    """The value of --dev_share; None if the task now has a dev file.

    A run that only uses a trained model takes the value from its training. A value from
    the command line is returned even with a dev file, for `sources.source` to refuse.
    """
    return config.dev_share if "dev_share" in config.given or not task.dev else None


Keys = Callable[[Example], Sequence[Sequence[str]]]


def both(example: Example) -> Sequence[Sequence[str]]:
    """One key: the two texts."""
    return [(example.text_a, example.text_b or "")]


class Splittable(Protocol):
    """The part of a `base.Family` that determines how its rows are split."""

    labels_are_texts: bool

    def kept_together(self, example: Example) -> Sequence[Sequence[str]]: ...


def of_family(
    family: Splittable, examples: list[Example], share: float, *, dev: bool
) -> list[Example]:
    """The examples of the dev set, or those to train on: see `part`."""
    keys, by_label = family.kept_together, not family.labels_are_texts
    return part(examples, share, dev=dev, keys=keys, by_label=by_label)


def part(
    examples: Sequence[Example],
    share: float,
    *,
    dev: bool,
    keys: Keys = both,
    by_label: bool = True,
) -> list[Example]:
    """The examples of the dev set, or those to train on, in their order.

    keys: gives one or more for an example; examples that share any stay together.

    At least one text of every label stays in training; the dev set has those labels
    whose share of the rows is rounded up to one or more. Rows are not stratified by
    numbers or by sets of labels, nor, unless by_label, by single labels.

    Raises:
      UserError: one of the two parts would have no row.
    """
    labels = _labels if by_label else _no_labels
    texts = _kept_together(examples, keys)
    chosen = _chosen(examples, share, texts, labels_of=labels)
    parts: dict[bool, list[Example]] = {True: [], False: []}
    for example, text in zip(examples, texts, strict=True):
        parts[text in chosen].append(example)
    if not (parts[True] and parts[False]):
        raise UserError(
            f"--dev_share={share:g}: {len(examples)} rows have too few different"
            " texts to split, since training keeps one of every label: pass --dev_file,"
            " or more rows"
        )
    return parts[dev]


def _kept_together(examples: Sequence[Example], keys: Keys) -> list[bytes]:
    """A hash for each example, equal where keys are, also by way of other examples."""
    lower: dict[bytes, bytes] = {}  # a hash -> one of the same examples, or itself

    def lowest(own: bytes) -> bytes:
        while (other := lower.setdefault(own, own)) != own:
            lower[own] = own = lower[other]
        return own

    hashes = [[_hash(key) for key in keys(example)] for example in examples]
    for first, *others in hashes:
        for other in others:
            low, high = sorted((lowest(first), lowest(other)))
            lower[high] = low
    return [lowest(first) for first, *_ in hashes]


def _hash(key: Sequence[str]) -> bytes:
    own = "\0".join(text.strip() for text in key)
    return hashlib.blake2b(own.encode(), digest_size=16).digest()


def _chosen(
    examples: Sequence[Example],
    share: float,
    texts: Sequence[bytes],
    *,
    labels_of: Callable[[Any], Sequence[str]],
) -> set[bytes]:
    """The texts of the dev set, as hashes; texts: those of the examples."""
    rows: collections.Counter[bytes] = collections.Counter()
    labels = collections.defaultdict[bytes, set[str]](set)
    groups = collections.defaultdict[str, set[bytes]](set)
    for example, text in zip(examples, texts, strict=True):
        rows[text] += 1
        labels[text].update(labels_of(example.label))
    one = isinstance(examples[0].label, str)
    for text, own in labels.items():
        groups[min(own) if one and own else ""].add(text)
    in_training = collections.Counter(label for own in labels.values() for label in own)
    missing = max(1, round(share * len(examples)))
    chosen: set[bytes] = set()
    for text in _by_need(groups.values(), rows, share):
        is_last = any(in_training[label] == 1 for label in labels[text])
        if is_last or rows[text] > 2 * missing:  # closer to the share without it
            continue
        chosen.add(text)
        missing -= rows[text]
        in_training.subtract(labels[text])
    return chosen


def _labels(label: Any) -> Sequence[str]:
    """The labels of a row: one, several, or none for a number or for entities."""
    if isinstance(label, str):
        return [label]
    several = isinstance(label, tuple) and all(isinstance(one, str) for one in label)
    return label if several else []


def _no_labels(label: Any) -> Sequence[str]:
    return []


def _by_need(
    groups: Iterable[Collection[bytes]], rows: Mapping[bytes, int], share: float
) -> list[bytes]:
    """All texts, sorted by how much of its share their group lacks after taking them.

    The greatest lack comes first, and within a group the lowest hash. So numbers of
    rows are rounded by the largest remainder method. A text of so many rows that its
    group would get far too many comes late.
    """
    needs: list[tuple[float, bytes]] = []
    for group in groups:
        lacking = share * sum(rows[text] for text in group)
        for text in sorted(group):
            after = lacking - rows[text]
            needs.append((-after, text))
            if after > -1:
                lacking = after
    return [text for _, text in sorted(needs)]
