"""Facts about pairs of texts, and errors for sets that teach no rewriting."""

from __future__ import annotations

import pathlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from bert_mgpu.config.rewriting import MOST_INSERTED
from bert_mgpu.core import terminal
from bert_mgpu.core.errors import UserError
from bert_mgpu.tasks.data_checks import CheckedSet
from bert_mgpu.tasks.rewriting.pair_facts import COPIED, IN_COMMON

_NUMBER_WIDTH = 16  # characters of a column
# Shares of pairs above which a set is refused.
_EQUAL, _MOST_UNLIKE, _LEFT_OUT = 0.95, 0.5, 0.2
_MOST_LEFT_OUT = 0.5  # of pairs, also for unknown words, which only the model lacks
# Why pairs are not learnt, by the key of the facts that counts them.
_OBSTACLES = {
    "too_long": "have more tokens at one place than --max_insert",
    "misplaced": "differ from their target outside of the slots",
    "unwritable": "have words to write that the vocabulary lacks",
}
_ENOUGH = 0.9  # the share of places for which a --max_insert is advised
_MOST_SLOTS, _LENGTHS = 5, (1, 2, 4, 8, 12)  # groups of the tables


def check(notes: Mapping[str, Any], path: pathlib.Path) -> None:
    """Raises UserError if a training file teaches no rewriting."""
    for problem in _problems(notes["rewriting"]):
        raise UserError(f"{path}: {problem}")


def only_slots(notes: Mapping[str, Any]) -> bool:
    """Whether all pairs that are learnt have slots."""
    facts = notes["rewriting"]
    return bool(facts["learnt"] and not facts["free"])


def left_out(notes: Mapping[str, Any]) -> int:
    """The number of pairs that are not learnt."""
    return _sum(notes["rewriting"])


def _sum(facts: Mapping[str, Any]) -> int:
    return sum(facts[name] for name in _OBSTACLES)


def _problems(facts: Mapping[str, Any]) -> Iterator[str]:
    pairs, left_out = facts["pairs"], _sum(facts)
    if facts["equal"] > _EQUAL * pairs:
        yield (
            f"{facts['equal']} of {pairs} targets are equal to their texts: there is"
            " nothing to learn: pass the column of the rewritten texts as"
            " --target_column"
        )
    elif facts["equal"] + facts["alike"] > _EQUAL * pairs:
        yield (
            f"{facts['alike']} of {pairs} targets differ from their texts only in what"
            " the vocabulary does not tell apart, such as case, accents, blanks or"
            " unknown characters: there is nothing to learn: for case and accents, pass"
            " a model with a cased vocabulary and --do_lower_case=false"
        )
    if facts["unlike"] > _MOST_UNLIKE * pairs:
        yield (
            f"{facts['unlike']} of {pairs} targets have less than {IN_COMMON:.0%} of"
            " their tokens in common with their texts: these are not edits: pass the"
            " column of the rewritten texts as --target_column"
        )
    of_the_data = left_out - facts["unwritable"]
    if of_the_data > _LEFT_OUT * pairs:
        yield f"{_left_out(facts)}: {_advice(facts, ['too_long', 'misplaced'])}"
    elif left_out > _MOST_LEFT_OUT * pairs:
        yield f"{_left_out(facts)}: {_advice(facts, _OBSTACLES)}"
    if not facts["learnt"] and left_out < pairs:
        yield "no row has room for a token or slot of its text: raise --max_seq_length"


def _left_out(facts: Mapping[str, Any]) -> str:
    """Says which pairs cannot be learnt, and why."""
    lines = ", ".join(map(str, facts["lines"][:3]))
    count = _sum(facts)
    more = f" and {count - 3} more" if count > 3 else ""
    parts = [f"{facts[name]} {why}" for name, why in _OBSTACLES.items() if facts[name]]
    return f"of {facts['pairs']} pairs {' and '.join(parts)} (lines {lines}{more})"


def _advice(facts: Mapping[str, Any], obstacles: Iterable[str]) -> str:
    """What to do about the most frequent one of some obstacles."""
    if (obstacle := max(obstacles, key=facts.__getitem__)) == "too_long":
        return f"raise --max_insert to {_enough(facts)}, or pass other pairs"
    advice = {
        "misplaced": "write the same text in both, except in the slots, which"
        " stand for whole words",
        "unwritable": "add them to the vocabulary (docs/pretraining.md), or pass other"
        " pairs",
    }
    return advice[obstacle]


def _enough(facts: Mapping[str, Any]) -> str:
    """The --max_insert with which most of the places can be written, or all."""
    lengths = sorted(int(size) for size in facts["slot_lengths"])
    every = min(lengths[-1], MOST_INSERTED)
    wanted, seen = _ENOUGH * sum(facts["slot_lengths"].values()), 0
    for size in lengths:
        seen += facts["slot_lengths"][str(size)]
        if seen >= wanted and size < every:
            return f"{size} (for {_ENOUGH:.0%} of the places) or {every}"
    return str(every)


def remarks(notes: Mapping[str, Any]) -> Iterator[str]:
    """Yields lines for the log about a set."""
    facts = notes["rewriting"]
    if facts["pairs"]:
        yield (
            f"{facts['written']} tokens to write,"
            f" {_share(facts['in_row'], facts['written'])} of them in the input, too"
        )
    yield from _not_learnt(facts)


def _not_learnt(facts: Mapping[str, Any]) -> Iterator[str]:
    """Says which pairs, and how many slots, cannot be learnt."""
    if _sum(facts):
        yield f"not learnt, but evaluated: {_left_out(facts)}"
    if count := facts["lost_slots"]:
        yield (
            f"WARNING: --max_seq_length has no room for {count}"
            f" slot{'s' * (count > 1)}: nothing is written there"
        )


def warnings(checked: CheckedSet) -> Iterator[str]:
    """Yields a line for each likely mistake in a set.

    In its training file, a run does not warn of them, but fails: see `check`.
    """
    facts = checked.features.notes["rewriting"]
    if checked.labelled and facts["pairs"]:
        for problem in _problems(facts):
            yield f"{checked.path}: {problem}"


def tables(sets: Sequence[CheckedSet]) -> list[str]:
    """A table of facts about pairs, a column for each set; [] without any set."""
    if not sets:
        return []
    facts = [checked.features.notes["rewriting"] for checked in sets]
    rows: list[tuple[str, list[Any]]] = [
        ("targets equal to their text", [each["equal"] for each in facts]),
        ("targets of the same tokens", [each["alike"] for each in facts]),
        (
            "tokens in common",
            [_share(each["kept"], each["longest"]) for each in facts],
        ),
        (
            f"SARI of copying (of {COPIED} pairs at most)",
            [f"{each['copying'] / _copied(each):.1f}" for each in facts],
        ),
        ("tokens to write", [each["written"] for each in facts]),
        (
            "  of them in the input, too",
            [_share(each["in_row"], each["written"]) for each in facts],
        ),
        ("pairs with a place too long", [each["too_long"] for each in facts]),
        ("pairs that differ outside slots", [each["misplaced"] for each in facts]),
        ("pairs with unknown words to write", [each["unwritable"] for each in facts]),
    ]
    rows += _counted(
        "places to write at", facts, "slot_counts", ends=range(_MOST_SLOTS)
    )
    rows += _counted("tokens at a place", facts, "slot_lengths", ends=_LENGTHS)
    lines = [["", *(checked.split for checked in sets)]]
    lines += [[name, *map(str, values)] for name, values in rows]
    notes = [
        f"{checked.path}: {remark}"
        for checked in sets
        for remark in _not_learnt(checked.features.notes["rewriting"])
    ]
    return [terminal.align(lines, [_NUMBER_WIDTH] * len(sets)), *notes]


def _copied(facts: Mapping[str, Any]) -> int:
    return max(1, min(COPIED, facts["pairs"]))


def _counted(
    name: str, facts: Sequence[Mapping[str, Any]], key: str, *, ends: Sequence[int]
) -> Iterator[tuple[str, list[Any]]]:
    """Yields the counts of numbers up to each end, and above the last one."""
    low = ends[0]
    for high in (*ends, None):
        label = f"{low} and more" if high is None else f"{low} to {high}"
        label = str(high) if low == high else label
        counts = [
            sum(
                count
                for number, count in each[key].items()
                if low <= int(number) and (high is None or int(number) <= high)
            )
            for each in facts
        ]
        yield f"{name}: {label}", counts
        low = (high or 0) + 1


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if whole else "-"
