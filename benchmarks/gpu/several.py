"""How training scales over several cards."""

from __future__ import annotations

from typing import Any

from benchmarks.gpu import cards as cards_lib
from benchmarks.gpu.process import is_dry, part

WANTED = 0.95  # of the number of cards times the speed of one


def scaling(cards: int, batch: int, length: int, *, judged: bool) -> dict[str, Any]:
    """A row: BERT-base's examples per second in bfloat16, beside those of one card."""
    settings = {"batch": batch, "length": length, "precision": "bfloat16"}
    one = part("speed:trains", settings)
    all_ = part("speed:trains", settings | {"cards": cards})
    share = all_["examples_per_s"] / (cards * one["examples_per_s"])
    return {
        "told": f"{all_['examples_per_s']:g} examples/s, one card"
        f" {one['examples_per_s']:g}: {share:.1%} of {cards} times one; first step"
        f" {all_['first_step_s']:g} s, one card {one['first_step_s']:g}",
        "figures": {
            "share": share,
            "one": one,
            "all": all_,
            "links": cards_lib.links(),
        },
    } | ({"met": share >= WANTED} if judged and not is_dry() else {})
