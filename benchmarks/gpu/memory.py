"""The peak memory of steps, beside --plan's, and what attention costs at 512 tokens."""

from __future__ import annotations

from typing import Any

from benchmarks.gpu.process import is_dry, part

_PART = "speed:trains"


def _parts(settings: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Runs each part in a process of its own, as peaks are counted per process."""
    some = dict(list(settings.items())[:1]) if is_dry() else settings
    return {name: part(_PART, options) for name, options in some.items()}


def plan(settings: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """A row: planned peaks divided by measured ones."""
    found = _parts(settings)
    words = [
        f"{name}: planned {one['planned_gb']:g} GB, held {one['peak_gb']:g}"
        f" ({one['planned_over_peak']:.2f})"
        for name, one in found.items()
    ]
    return {"told": "; ".join(words), "figures": found}


def attention(settings: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """A row: time and peak with and without --recompute."""
    found = _parts(settings)
    words = [
        f"{name}: {one['step_ms']:g} ms for {one['rows_of_a_tower']} rows,"
        f" {one['peak_gb']:g} GB"
        for name, one in found.items()
    ]
    return {"told": "; ".join(words), "figures": found}
