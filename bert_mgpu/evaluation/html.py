"""A self-contained page of HTML: no script, nothing to load.

All text from outside is escaped: a row of the data may contain <script>.
"""

from __future__ import annotations

import base64
import html
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from bert_mgpu.core import terminal

_STYLE = pathlib.Path(__file__).with_name("page.css")
_SHOWN = "\n\t"  # control characters that stay

DOCTYPE = "<!doctype html>"


class Link(NamedTuple):
    """A text that links to an `anchor` of the page."""

    text: str
    anchor: str


def escaped(value: object) -> str:
    """Text for HTML. Characters that would change its direction appear as \\uXXXX."""
    if isinstance(value, Link):
        return f'<a href="#{escaped(value.anchor)}">{escaped(value.text)}</a>'
    text = html.escape(str(value).replace("\r\n", "\n"))
    return terminal.visible(text, _SHOWN)


def table(rows: Sequence[Sequence[object]], columns: str = "") -> str:
    """A table whose first row is the header.

    columns: a letter for each column: n for numbers, t for long text, w for words,
    which is the default for further columns.
    """
    header, *rest = rows
    body = "\n".join(_row(cells, "td", columns) for cells in rest)
    head = _row(header, "th", columns)
    return f'<div class="wide"><table>\n{head}\n{body}\n</table></div>'


def facts(rows: Sequence[tuple[str, object]]) -> str:
    """A table without a header: names and their values."""
    body = "\n".join(_row(cells, "td", "kt") for cells in rows)
    return f'<div class="wide"><table>\n{body}\n</table></div>'


def _row(cells: Iterable[object], tag: str, columns: str) -> str:
    classes = {"n": ' class="n"', "t": ' class="text"', "k": ' class="name"'}
    shown = (
        f"<{tag}{classes.get(columns[i : i + 1], '')}>{escaped(cell)}</{tag}>"
        for i, cell in enumerate(cells)
    )
    return f"<tr>{''.join(shown)}</tr>"


def matrix(
    counts: np.ndarray, labels: Sequence[str], anchors: Mapping[tuple[int, int], str]
) -> str:
    """Counts [L, L] by true label (down) and predicted one, as a coloured table.

    anchors: (row, column) -> what the cell links to.
    """
    heads = "".join(f'<th class="across">{escaped(label)}</th>' for label in labels)
    lines = [f"<tr><th>rows: true; columns: predicted</th>{heads}</tr>"]
    shares = 100 * counts / np.maximum(counts.sum(1, keepdims=True), 1)
    for row, label in enumerate(labels):
        cells = []
        for column in range(len(labels)):
            count, share = int(counts[row, column]), float(shares[row, column])
            text: object = f"{count:,}" if count else ""
            if anchor := anchors.get((row, column)):
                text = Link(str(text), anchor)
            kind = "n" + " right" * (row == column)
            style = f'style="--share: {share:.0f}"'
            cells.append(f'<td class="{kind}" {style}>{escaped(text)}</td>')
        lines.append(f"<tr><th>{escaped(label)}</th>{''.join(cells)}</tr>")
    body = "\n".join(lines)
    return f'<div class="wide"><table class="matrix">\n{body}\n</table></div>'


def image(path: pathlib.Path, words: str) -> str:
    """A PNG file embedded in the page. words: the alternative text."""
    data = base64.b64encode(path.read_bytes()).decode()
    return f'<img alt="{escaped(words)}" src="data:image/png;base64,{data}">'


def note(text: str) -> str:
    return f'<p class="note">{escaped(text)}</p>'


def lines(text: str) -> str:
    """Lines whose columns are aligned by spaces."""
    return f'<div class="wide"><pre>{escaped(text)}</pre></div>'


def heading(text: str, anchor: str) -> str:
    """A small heading, to which links can lead."""
    return f'<h3 id="{escaped(anchor)}">{escaped(text)}</h3>'


def verdict(first: str, lines: Sequence[str], good: bool) -> str:
    """The main sentence of a page, and the lines below it."""
    rest = "".join(f"<p>{escaped(line)}</p>" for line in lines)
    kind = "verdict" + " bad" * (not good)
    return f'<div class="{kind}"><p class="main">{escaped(first)}</p>{rest}</div>'


def page(title: str, *, top: str, sections: Sequence[tuple[str, str]]) -> str:
    """The whole page. top: HTML below the title; sections: (heading, HTML)."""
    links = " ".join(
        f'<a href="#s{i}">{escaped(name)}</a>' for i, (name, _) in enumerate(sections)
    )
    body = "\n".join(
        f'<h2 id="s{i}">{escaped(name)}</h2>\n{content}'
        for i, (name, content) in enumerate(sections)
    )
    return f"""{DOCTYPE}
<html><head><meta charset="utf-8"><title>{escaped(title)}</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; img-src data:; style-src 'unsafe-inline'">
<style>
{_STYLE.read_text("utf-8")}</style></head><body>
<h1>{escaped(title)}</h1>
{top}
<nav>{links}</nav>
{body}
</body></html>
"""
