"""The plots of a report, drawn by matplotlib as PNG files."""

from __future__ import annotations

import pathlib
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from bert_mgpu.core import files
from bert_mgpu.core.report import ScoreCurves

# Fonts of Linux, Windows and macOS that have Chinese characters.
_CHINESE = (
    *("Noto Sans CJK SC", "Noto Sans SC", "Source Han Sans SC", "WenQuanYi Micro Hei"),
    "Noto Sans CJK JP",  # matplotlib knows only the first font of a collection
    *("WenQuanYi Zen Hei", "Microsoft YaHei", "PingFang SC", "SimHei", "SimSun"),
)
_WIDTH, _DPI = 6.4, 144  # inches; twice a page's pixels, for high-resolution screens


class Line(NamedTuple):
    """A line of a plot."""

    name: str
    steps: Sequence[int]
    values: Sequence[float] | np.ndarray
    colour: str
    level: float | None = None  # the height of a dashed line in the same colour
    level_name: str = ""


def curves(
    path: pathlib.Path,
    panels: Mapping[str, Sequence[Line]],
    from_zero: Collection[str] = (),
) -> None:
    """Draws a panel for each unit, one below the other, over the same steps.

    from_zero: units whose axis begins at 0.
    """
    figure = _figure(2.6 * len(panels) + 0.4)
    every = figure.subplots(len(panels), sharex=True, squeeze=False)[:, 0]
    for axes, (unit, lines) in zip(every, panels.items(), strict=True):
        for number, line in enumerate(lines):
            marker = "." if len(line.steps) <= 50 else None
            name = _drawable(line.name, f"set {number + 1}")
            axes.plot(line.steps, line.values, line.colour, marker=marker, label=name)
            if line.level is not None:
                name = _drawable(line.level_name, f"level {number + 1}")
                axes.axhline(line.level, color=line.colour, ls="--", lw=1, label=name)
        axes.set_ylabel(unit)
        axes.grid(alpha=0.3)
        axes.legend(fontsize="small")
        if unit in from_zero:
            axes.set_ylim(bottom=0)
    every[-1].set_xlabel("step")
    _save(figure, path)


def scores(path: pathlib.Path, curves: ScoreCurves) -> None:
    """Draws scores over a setting as steps, and marks their best values.

    A line marks the chosen value, or the border if the value lies beyond it.
    """
    figure = _figure(3.6)
    axes, values = figure.subplots(), curves.values
    for number, (name, own) in enumerate(curves.scores.items()):
        colour, best = f"C{number}", int(own.argmax())
        # Each line is thinner than the one before, with which it may coincide.
        size = 1.2 + 2 * (len(curves.scores) - 1 - number)
        axes.plot(values, own, colour, lw=size, drawstyle="steps-post", label=name)
        place = f"at {values[best]:.3f}" if best else f"by {curves.lowest}"
        label = f"best {name}: {own[best]:.1f} {place}"
        axes.plot(values[best], own[best], "o", color=colour, ms=4 + size, label=label)
    chosen = min(max(curves.chosen, values[0]), values[-1])
    axes.axvline(chosen, color="0.3", ls="--", lw=1, label=f"chosen: {curves.chosen:g}")
    axes.set_xlabel(curves.setting)
    axes.set_ylabel("score")
    axes.grid(alpha=0.3)
    axes.legend(fontsize="small")
    _save(figure, path)


def lengths(
    path: pathlib.Path, sets: Mapping[str, Sequence[int]], longest: int
) -> None:
    """Draws the share of a set's rows that have at most so many tokens.

    sets: the quantiles of each set's lengths before truncation, for 0, 1, ... 100 per
    cent; longest: how many tokens of a row are read.
    """
    figure = _figure(3.0)
    axes = figure.subplots()
    axes.set_xscale("log", base=2)
    for number, (name, quantiles) in enumerate(sets.items()):
        label = _drawable(name, f"set {number + 1}")
        axes.plot(np.maximum(quantiles, 1), range(len(quantiles)), label=label)
    axes.axvline(longest, color="0.3", ls="--", lw=1, label=f"read: {longest}")
    axes.xaxis.set_major_formatter("{x:.0f}")
    axes.set_ylim(0, 101)
    axes.set_xlabel("tokens before truncation")
    axes.set_ylabel("% of the rows have at most")
    axes.grid(alpha=0.3)
    axes.legend(fontsize="small")
    _save(figure, path)


def _figure(height: float) -> Any:
    """A figure made without pyplot, whose state is global."""
    import matplotlib
    from matplotlib.figure import Figure

    matplotlib.rcParams["font.sans-serif"] = [*_chinese_fonts(), "DejaVu Sans"]
    return Figure(figsize=(_WIDTH, height), layout="constrained")


def _save(figure: Any, path: pathlib.Path) -> None:
    with files.replacing(path) as temporary:
        figure.savefig(temporary, dpi=_DPI, format="png")


def _chinese_fonts() -> list[str]:
    from matplotlib import font_manager

    installed = {font.name for font in font_manager.fontManager.ttflist}
    return [name for name in _CHINESE if name in installed]


def _drawable(text: str, instead: str) -> str:
    """The text, or `instead` where no font has its characters; $ is escaped."""
    if text.isascii() or _chinese_fonts():
        return text.replace("$", r"\$")
    return instead
