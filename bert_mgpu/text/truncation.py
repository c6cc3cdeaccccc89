"""Truncation of token sequences; budgets are numbers of tokens, from 0."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from bert_mgpu.core.errors import UserError


def _head_beside_tail(budget: int, head_tokens: int) -> int:
    """head_tokens, or half where they would leave nothing for the tail."""
    return head_tokens if head_tokens < budget else budget // 2


# (budget, head_tokens) -> tokens kept from the head; the tail gets the rest.
# Sun et al. 2019, "How to Fine-Tune BERT for Text Classification?", 5.3.1.
HEADS: dict[str, Callable[[int, int], int]] = {
    "head": lambda budget, head_tokens: budget,
    "tail": lambda budget, head_tokens: 0,
    "head_tail": _head_beside_tail,
}
TRUNCATIONS = tuple(HEADS)


def truncate(
    ids: Sequence[int], budget: int, how: str = "head", *, head_tokens: int = 128
) -> list[int]:
    """At most `budget` ids: the head, the tail or both, as `how` says."""
    if how not in HEADS:
        raise UserError(
            f"truncation {how!r} is not known: pass one of {', '.join(TRUNCATIONS)}"
        )
    kept = list(ids)
    head = HEADS[how](budget, head_tokens)
    del kept[head : max(head, len(kept) - (budget - head))]
    return kept


def truncate_pair_lengths(len_a: int, len_b: int, budget: int) -> tuple[int, int]:
    """The lengths that are left when the longer text loses tokens until both fit.

    Google's _truncate_seq_pair removes one token at a time, from b if the two are
    equally long. So each text may fill its half of the budget, a the larger one, and
    what the other text leaves free.
    """
    if len_a + len_b <= budget:
        return len_a, len_b
    kept_a = min(len_a, max((budget + 1) // 2, budget - len_b))
    return kept_a, budget - kept_a


def fit_row(
    ids_a: Sequence[int],
    ids_b: Sequence[int],
    length: int,
    *,
    how: str,
    head_tokens: int,
) -> tuple[list[int], list[int]]:
    """The ids of a row [CLS] a [SEP] or [CLS] a [SEP] b [SEP] of at most `length`.

    Without ids_b it is the former. In a pair, the longer text loses its end, whatever
    `how` says.
    """
    budget = length - (3 if ids_b else 2)
    if not ids_b:
        if len(ids_a) <= budget:
            return [*ids_a], []
        return truncate(ids_a, budget, how, head_tokens=head_tokens), []
    keep_a, keep_b = truncate_pair_lengths(len(ids_a), len(ids_b), budget)
    return [*ids_a[:keep_a]], [*ids_b[:keep_b]]
