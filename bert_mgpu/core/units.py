"""Sizes of memory, durations and counts as text."""

from __future__ import annotations

_UNITS = ((86400, "days"), (3600, "hours"), (60, "minutes"))


def size_text(count: float) -> str:
    """A number of bytes, as "16.4 GB", "120 MB", "1.5 MB", "20 kB": powers of ten."""
    if count >= 1e9:
        return f"{count / 1e9:.1f} GB"
    if count < 1e5:
        return f"{count / 1e3:.0f} kB"
    return f"{count / 1e6:.0f} MB" if count >= 1e7 else f"{count / 1e6:.1f} MB"


def duration_text(seconds: float) -> str:
    """A rough duration, as "3.5 hours" or "40 seconds"."""
    for unit, name in _UNITS:
        if seconds >= 2 * unit:
            return f"{seconds / unit:.1f} {name}"
    whole = round(seconds)
    return f"{whole} second{'s' * (whole != 1)}"


def clock_text(seconds: float) -> str:
    """A duration to the second, as "1:02:03" or "2:03"."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def counted(count: int, noun: str) -> str:
    """A number of things, as "1 row" or "20 rows"."""
    return f"{count} {noun}{'s' * (count != 1)}"
