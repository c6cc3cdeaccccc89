"""The plots of a report, drawn by matplotlib as PNG files."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping, Sequence
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
_WIDTH, _DPI = 6.4, 144  # inches; twice the pixels of a page, for sharp screens
_MAX_NUMBERED = 20  # classes whose cells have room for a number
_NAME_CLASSES = 12  # whose names have room beside the matrix


class Line(NamedTuple):
    """A line of a plot."""

    name: str
    steps: Sequence[int]
    values: Sequence[float] | np.ndarray
    colour: str
    level: float | None = None  # a dashed line of the same colour
    level_name: str = ""


def curves(path: pathlib.Path, panels: Mapping[str, Sequence[Line]]) -> None:
    """Draws a panel for each unit, one below the other, over the same steps."""
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
        if len(lines) > 1:
            axes.legend(fontsize="small")
    every[-1].set_xlabel("step")
    _save(figure, path)


def scores(path: pathlib.Path, curves: ScoreCurves) -> None:
    """Draws scores over a setting as steps, and marks their best values.

    A line marks the chosen value, at the border where the value lies beyond it.
    """
    figure = _figure(3.6)
    axes, values = figure.subplots(), curves.values
    for number, (name, own) in enumerate(curves.scores.items()):
        colour, best = f"C{number}", int(own.argmax())
        # Each line is thinner than the one before, which may have the same places.
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


def confusion(path: pathlib.Path, matrix: np.ndarray, names: Sequence[str]) -> None:
    """Draws a confusion matrix: colours are fractions of a true label's examples.

    matrix: int [C, C], numbers of examples by (true, predicted) label.
    """
    count = len(matrix)
    figure = _figure(5.6, "compressed")  # which leaves space beside a square
    axes = figure.subplots()
    fractions = matrix / np.maximum(matrix.sum(1, keepdims=True), 1)
    axes.imshow(fractions, cmap="Blues", vmin=0, vmax=1)
    if count <= _MAX_NUMBERED:
        size = 9 if count <= 10 else 6
        for (row, column), value in np.ndenumerate(matrix):
            if value:
                colour = "white" if fractions[row, column] > 0.5 else "black"
                cell = {"ha": "center", "va": "center", "color": colour}
                axes.text(column, row, str(value), fontsize=size, **cell)
    ticks = range(0, count, max(1, count // _MAX_NUMBERED))
    axes.set_xticks(ticks, map(str, ticks))
    named = count <= _NAME_CLASSES
    ylabels = [
        _drawable(f"{i} {names[i][:14]}", str(i)) if named else str(i) for i in ticks
    ]
    axes.set_yticks(ticks, ylabels)
    axes.set_xlabel("predicted")
    axes.set_ylabel("true")
    _save(figure, path)


def lengths(path: pathlib.Path, sets: Mapping[str, np.ndarray], longest: int) -> None:
    """Draws histograms: tokens of rows after truncation, in per cent of the set."""
    figure = _figure(3.0)
    axes = figure.subplots()
    edges = np.linspace(0, longest, 33)
    for number, (name, values) in enumerate(sets.items()):
        weights = np.full(len(values), 100 / len(values))
        label = _drawable(name, f"set {number + 1}")
        axes.hist(values, edges, weights=weights, histtype="step", label=label)
    axes.set_xlabel("tokens per row")
    axes.set_ylabel("% of the rows")
    axes.grid(alpha=0.3)
    axes.legend(fontsize="small")
    _save(figure, path)


def _figure(height: float, layout: Any = "constrained") -> Any:
    """A figure made without pyplot, whose state is global."""
    import matplotlib
    from matplotlib.figure import Figure

    matplotlib.rcParams["font.sans-serif"] = [*_chinese_fonts(), "DejaVu Sans"]
    return Figure(figsize=(_WIDTH, height), layout=layout)


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
