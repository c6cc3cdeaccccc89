"""Scores of rewritten texts."""

from __future__ import annotations

from collections.abc import Sequence

NAMES = ("exact_match",)


def scores(
    sources: Sequence[str], said: Sequence[str], truth: Sequence[str]
) -> dict[str, float]:
    """The share of texts that are as they were to become."""
    hits = sum(map(str.__eq__, said, truth))
    return {"exact_match": hits / max(1, len(sources))}
