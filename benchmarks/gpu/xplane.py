"""What a card did while it was traced: kernels, copies, and the gaps between them.

Reads TensorFlow's XSpace: a plane for each device, a line for each stream, and events
with the key of their name in the plane's table. Times are in picoseconds.
"""

from __future__ import annotations

import collections
import pathlib
import re
from collections.abc import Iterable
from typing import Any, NamedTuple

_GPU = re.compile(r"/device:GPU:\d+")
_COPY = re.compile(r"memcpy|memset", re.IGNORECASE)
TOP = 15
_MS = 1e9  # picoseconds of a millisecond


class Event(NamedTuple):
    """A kernel or copy in a stream."""

    name: str
    start: int
    end: int


def _events(plane: Any) -> list[Event]:
    """The events of the streams; a plane's other lines repeat them by operation."""
    names = {key: value.name for key, value in plane.event_metadata.items()}
    found = []
    for line in plane.lines:
        if not line.name.startswith("Stream"):
            continue
        for event in line.events:
            start = line.timestamp_ns * 1000 + event.offset_ps
            name = names.get(event.metadata_id, "?")
            found.append(Event(name, start, start + event.duration_ps))
    return sorted(found, key=lambda event: event.start)


def gaps(events: Iterable[Event]) -> list[int]:
    """The lengths of the times when all streams were idle. events: sorted by start."""
    found, reached = [], None
    for event in events:
        if reached is not None and event.start > reached:
            found.append(event.start - reached)
        reached = max(reached or 0, event.end)
    return found


def _table(events: list[Event], steps: int) -> list[dict[str, Any]]:
    """Milliseconds and count of each name per step, the longest first."""
    times: collections.Counter[str] = collections.Counter()
    counts: collections.Counter[str] = collections.Counter()
    for event in events:
        times[event.name] += event.end - event.start
        counts[event.name] += 1
    return [
        {
            "name": name[:160],
            "ms_a_step": round(time / _MS / steps, 4),
            "times_a_step": round(counts[name] / steps, 2),
        }
        for name, time in times.most_common()
    ]


def summary(plane: Any, steps: int) -> dict[str, Any]:
    """The summary of one card over the traced steps; {} if it did nothing."""
    events = _events(plane)
    if not events:
        return {}
    copies = [event for event in events if _COPY.search(event.name)]
    kernels = [event for event in events if not _COPY.search(event.name)]
    window = max(event.end for event in events) - events[0].start
    idle = gaps(events)
    table = _table(kernels, steps)
    return {
        "device": plane.name,
        "traced_ms": round(window / _MS, 3),
        "idle_share": round(sum(idle) / window, 4),
        "idle_ms_a_step": round(sum(idle) / _MS / steps, 4),
        "gaps_a_step": round(len(idle) / steps, 1),
        "longest_gaps_ms": [
            round(gap / _MS, 4) for gap in sorted(idle)[: -TOP - 1 : -1]
        ],
        "kernels_a_step": round(len(kernels) / steps, 1),
        "kernel_ms_a_step": round(sum(row["ms_a_step"] for row in table), 4),
        "kernels": table[:TOP],
        "copies": _table(copies, steps),
    }


def cards_of(space: Any, steps: int) -> list[dict[str, Any]]:
    """The summary of each card that did something."""
    planes = [plane for plane in space.planes if _GPU.match(plane.name)]
    found = (summary(plane, steps) for plane in planes)
    return [one for one in found if one]


def read(folder: pathlib.Path) -> Any:
    """The XSpace that the profiler wrote. Raises FileNotFoundError if there is none."""
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    files = sorted(folder.rglob("*.xplane.pb"))
    if not files:
        raise FileNotFoundError("the profiler wrote nothing")
    space = xplane_pb2.XSpace()
    space.ParseFromString(files[-1].read_bytes())
    return space
