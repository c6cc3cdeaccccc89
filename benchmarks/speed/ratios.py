"""The ratios by which contestants are compared, and their bounds."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from benchmarks.harness import Measured

Results = dict[str, Measured]
Ratio = Callable[[Results], list[float]]  # one value per round, or a single one


class Claim(NamedTuple):
    """A ratio and its bound; no bound where it is only reported.

    With ">=" and "<=" the ratio is compared with the target; with "1 +-" the target is
    the largest distance from 1.
    """

    ratio: Ratio
    bound: str = ""
    target: float = math.nan


def at_least(target: float, ratio: Ratio) -> Claim:
    return Claim(ratio, ">=", target)


def at_most(target: float, ratio: Ratio) -> Claim:
    return Claim(ratio, "<=", target)


def near_one(distance: float, ratio: Ratio) -> Claim:
    return Claim(ratio, "1 +-", distance)


def speed(one: str, other: str) -> Ratio:
    """Work per second of one over that of the other."""
    return lambda found: [
        a / b for a, b in zip(found[one].rates, found[other].rates, strict=True)
    ]


def duration(one: str, other: str) -> Ratio:
    """Seconds of one over those of the other for the same work."""
    return speed(other, one)


def seconds(name: str) -> Ratio:
    """Seconds of one step."""
    return lambda found: [found[name].work / rate for rate in found[name].rates]


def rate(name: str) -> Ratio:
    """Work per second."""
    return lambda found: found[name].rates


def per_pass(one: str, single: str) -> Ratio:
    """Passes per second of one, which makes a pass and its rounds, over those of
    `single`, which makes one pass.
    """

    def ratio(found: Results) -> list[float]:
        passes = 1 + found[one].report["mean_rounds"]
        return [passes * value for value in speed(one, single)(found)]

    return ratio


def share_of_matmul(name: str) -> Ratio:
    """The speed of the products that a step needs over that of one large product."""

    def ratio(found: Results) -> list[float]:
        each = 1e9 * found[name].report["needed_gflop_per_step"] / found[name].work
        return [each * value for value in speed(name, "matmul")(found)]

    return ratio


def _over(one: float, other: float) -> list[float]:
    return [one / other if other > 0 else math.nan]


def memory(one: str, other: str) -> Ratio:
    """Peak memory of one over that of the other, each above its start."""
    return lambda found: _over(found[one].peak_mb, found[other].peak_mb)


def memory_with(one: str, other: str, key: str) -> Ratio:
    """Like `memory`, with the MB that one reports under `key` added to the other's."""
    return lambda found: _over(
        found[one].peak_mb, found[other].peak_mb + found[one].report[key]
    )


def whole_memory(one: str, other: str) -> Ratio:
    """Peak memory of the whole processes."""

    def ratio(found: Results) -> list[float]:
        both = (found[one], found[other])
        return _over(*(each.start_mb + each.peak_mb for each in both))

    return ratio


def growth(one: tuple[str, str], other: tuple[str, str]) -> Ratio:
    """The memory that additional rows take, of one over the other: pairs (few, more).

    What does not depend on the number of rows cancels out. But XLA's compiler must need
    less than the few rows do, or else the peak would be the compiler's.
    """

    def ratio(found: Results) -> list[float]:
        grown = [found[more].peak_mb - found[few].peak_mb for few, more in (one, other)]
        return _over(*grown)

    return ratio


def planned(name: str) -> Ratio:
    """The memory of steps according to --plan over their measured peak."""
    return lambda found: _over(found[name].report["planned_mb"], found[name].peak_mb)


def reported(key: str, one: str, other_key: str, other: str) -> Ratio:
    """A value that one reports at its end over a value that the other reports."""
    return lambda found: _over(found[one].report[key], found[other].report[other_key])
