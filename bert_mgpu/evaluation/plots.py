"""The pictures of a report, drawn by matplotlib as PNG files."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from bert_mgpu.core import files

# Those of Linux, Windows and macOS that have Chinese characters.
_CHINESE = (
    *("Noto Sans CJK SC", "Noto Sans SC", "Source Han Sans SC", "WenQuanYi Micro Hei"),
    "Noto Sans CJK JP",  # of a collection of fonts matplotlib knows the first alone
    *("WenQuanYi Zen Hei", "Microsoft YaHei", "PingFang SC", "SimHei", "SimSun"),
)
_WIDTH, _DPI = 6.4, 144  # inches; twice as many pixels as a page has
_MAX_NUMBERED = 20  # classes whose cells have room for a number
_NAME_CLASSES = 12  # whose names have room beside the matrix


class Line(NamedTuple):
    """A line of a picture."""

    name: str
    steps: Sequence[int]
    values: Sequence[float] | np.ndarray
    colour: str
    level: float | None = None  # a dashed line of the same colour
    level_name: str = ""


def curves(path: pathlib.Path, panels: Mapping[str, Sequence[Line]]) -> None:
    """A panel for each unit, one below the other, over the same steps."""
    figure = _figure(2.6 * len(panels) + 0.4)
    every = figure.subplots(len(panels), sharex=True, squeeze=False)[:, 0]
    for axes, (unit, lines) in zip(every, panels.items(), strict=True):
        for number, line in enumerate(lines):
            marker = "." if len(line.steps) <= 50 else None
            name = _drawable(line.name, f"set {number + 1}")
            axes.plot(line.steps, line.values, line.colour, marker=marker, label=name)
            if line.level is not None:
                what = _drawable(line.level_name, f"level {number + 1}")
                axes.axhline(line.level, color=line.colour, ls="--", lw=1, label=what)
        axes.set_ylabel(unit)
        axes.grid(alpha=0.3)
        if len(lines) > 1:
            axes.legend(fontsize="small")
    every[-1].set_xlabel("step")
    _save(figure, path)


def confusion(path: pathlib.Path, matrix: np.ndarray, names: Sequence[str]) -> None:
    """Colours are shares of the true class, numbers are rows.

    matrix: int [C, C], true classes down.
    """
    count = len(matrix)
    figure = _figure(5.6, "compressed")  # which leaves room beside a square
    axes = figure.subplots()
    shares = matrix / np.maximum(matrix.sum(1, keepdims=True), 1)
    axes.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    if count <= _MAX_NUMBERED:
        size = 9 if count <= 10 else 6
        for (row, column), value in np.ndenumerate(matrix):
            if value:
                colour = "white" if shares[row, column] > 0.5 else "black"
                cell = {"ha": "center", "va": "center", "color": colour}
                axes.text(column, row, str(value), fontsize=size, **cell)
    ticks = range(0, count, max(1, count // _MAX_NUMBERED))
    axes.set_xticks(ticks, map(str, ticks))
    named = count <= _NAME_CLASSES
    shown = [
        _drawable(f"{i} {names[i][:14]}", str(i)) if named else str(i) for i in ticks
    ]
    axes.set_yticks(ticks, shown)
    axes.set_xlabel("predicted")
    axes.set_ylabel("true")
    _save(figure, path)


def lengths(path: pathlib.Path, sets: Mapping[str, np.ndarray], longest: int) -> None:
    """Shares of the rows of each set by their tokens, truncated ones as they are."""
    figure = _figure(3.0)
    axes = figure.subplots()
    edges = np.linspace(0, longest, 33)
    for number, (name, values) in enumerate(sets.items()):
        weights = np.full(len(values), 100 / len(values))
        label = _drawable(name, f"set {number + 1}")
        axes.hist(values, edges, weights=weights, histtype="step", label=label)
    axes.set_xlabel("tokens of a row")
    axes.set_ylabel("% of the rows")
    axes.grid(alpha=0.3)
    axes.legend(fontsize="small")
    _save(figure, path)


def _figure(height: float, layout: Any = "constrained") -> Any:
    """Without pyplot, whose state is global."""
    import matplotlib
    from matplotlib.figure import Figure

    matplotlib.rcParams["font.sans-serif"] = [*_chinese_fonts(), "DejaVu Sans"]
    return Figure(figsize=(_WIDTH, height), layout=layout)


def _save(figure: Any, path: pathlib.Path) -> None:
    with files.replacing(path) as temporary:
        figure.savefig(temporary, dpi=_DPI, format="png")


def _chinese_fonts() -> list[str]:
    from matplotlib import font_manager

    there = {font.name for font in font_manager.fontManager.ttflist}
    return [name for name in _CHINESE if name in there]


def _drawable(text: str, instead: str) -> str:
    """What there is a font for; $ would be mathematics."""
    if text.isascii() or _chinese_fonts():
        return text.replace("$", r"\$")
    return instead
