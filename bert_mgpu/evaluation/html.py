"""A self-contained page of HTML: no script, no link, nothing to load.

All text from outside is escaped: a row of the data may say <script>.
"""

from __future__ import annotations

import base64
import html
import pathlib
import unicodedata
from collections.abc import Iterable, Sequence

_STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, "Noto Sans CJK SC", "Microsoft YaHei", sans-serif;
  max-width: 60rem; margin: 0 auto; padding: 1rem; color: #1a1a1a; background: #fff; }
h1 { font-size: 1.5rem; margin: 0; } h2 { font-size: 1.2rem; margin: 2rem 0 .5rem; }
nav a { margin-right: .8rem; white-space: nowrap; }
p.note { color: #555; margin: .3rem 0; overflow-wrap: anywhere; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .9rem; margin: .5rem 0; }
th, td { text-align: left; padding: .25rem .6rem; border-bottom: 1px solid #ddd;
  vertical-align: top; }
th { border-bottom: 2px solid #999; white-space: nowrap; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums;
  white-space: nowrap; }
td.text { min-width: 14rem; overflow-wrap: anywhere; }
img { max-width: 100%; height: auto; background: #fff; }
@media (prefers-color-scheme: dark) {
  body { color: #e6e6e6; background: #16181c; } p.note { color: #aaa; }
  th, td { border-color: #444; } a { color: #8ab4f8; }
}
"""


_HIDDEN = ("Cc", "Cs", "Co", "Cn")
# Characters that change the direction of the text around them.
_TURNING = frozenset(
    "\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
)


def escaped(value: object) -> str:
    """Text for HTML. Characters that would change its direction appear as \\uXXXX."""
    text = html.escape(str(value))
    return "".join(
        f"\\u{ord(char):04x}"
        if char in _TURNING or unicodedata.category(char) in _HIDDEN
        else char
        for char in text
    )


def table(rows: Sequence[Sequence[object]], columns: str = "") -> str:
    """A table whose first row is the header.

    columns: a letter a column: n for numbers, t for long text, w for words, which
    further columns have too.
    """
    classes = {"n": ' class="n"', "t": ' class="text"'}

    def row(cells: Iterable[object], tag: str) -> str:
        shown = (
            f"<{tag}{classes.get(columns[i : i + 1], '')}>{escaped(cell)}</{tag}>"
            for i, cell in enumerate(cells)
        )
        return f"<tr>{''.join(shown)}</tr>"

    header, *rest = rows
    body = "\n".join(row(cells, "td") for cells in rest)
    head = row(header, "th")
    return f'<div class="wide"><table>\n{head}\n{body}\n</table></div>'


def image(path: pathlib.Path, words: str) -> str:
    """A PNG file inside the page. words: the text for those who do not see it."""
    data = base64.b64encode(path.read_bytes()).decode()
    return f'<img alt="{escaped(words)}" src="data:image/png;base64,{data}">'


def note(text: str) -> str:
    return f'<p class="note">{escaped(text)}</p>'


def page(title: str, lines: Sequence[str], sections: Sequence[tuple[str, str]]) -> str:
    """The whole page. lines: below the title; sections: (heading, HTML)."""
    links = " ".join(
        f'<a href="#s{i}">{escaped(name)}</a>' for i, (name, _) in enumerate(sections)
    )
    body = "\n".join(
        f'<h2 id="s{i}">{escaped(name)}</h2>\n{content}'
        for i, (name, content) in enumerate(sections)
    )
    return f"""<!doctype html>
<html><head><meta charset="utf-8"><title>{escaped(title)}</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; img-src data:; style-src 'unsafe-inline'">
<style>{_STYLE}</style></head><body>
<h1>{escaped(title)}</h1>
{"".join(note(line) for line in lines)}
<nav>{links}</nav>
{body}
</body></html>
"""
