"""The doctor's findings: printed as they come, and kept for an HTML page."""

from __future__ import annotations

import os
import pathlib
import sys
from collections.abc import Callable, Sequence

from bert_mgpu.core import files, terminal
from bert_mgpu.core.errors import UserError
from bert_mgpu.evaluation import html

_PAGE = 120  # columns of a text that a terminal may have to cut
# A page begins with this, by which a later check knows that it may replace it.
_MARK = f"{html.DOCTYPE}\n<!-- bert_mgpu doctor data -->"


def check_page(path: pathlib.Path) -> None:
    """Raises UserError where there is anything but an earlier page of the doctor."""
    if os.path.isdir(path):
        raise UserError(f"--html={path}: a folder: pass the name of a file")
    if os.path.lexists(path) and (path.is_symlink() or not path.is_file()):
        raise UserError(
            f"--html={path}: a link, a pipe or a device: pass the name of a file"
        )
    if path.is_file() and path.stat().st_size:
        with path.open("rb") as file:
            if file.read(len(_MARK)).decode("latin-1") != _MARK:
                raise UserError(
                    f"--html={path}: exists and is no page of bert_mgpu doctor data:"
                    " pass another name"
                )


class Findings:
    """The tables and problems that a check found, in order."""

    def __init__(self) -> None:
        self._sections: list[tuple[str, str]] = []
        self._problems: list[str] = []
        self._looked_for = ""

    def show(self, title: str, text: str, page: str | None = None) -> None:
        """Prints a text of aligned lines; the page shows it, or `page`, which is HTML,
        under the title.
        """
        print(f"\n{text}" if self._sections else text)
        self._sections.append((title, html.lines(text) if page is None else page))

    def draw(self, title: str, text: Callable[[int], str], columns: int) -> None:
        """`show` of a text for so many columns; on the page it may be wider."""
        self.show(title, text(columns), html.lines(text(_PAGE)))

    def on_page(self, title: str, page: str) -> None:
        """Shows HTML under the title, on the page alone; "" shows nothing."""
        self._sections += [(title, page)] if page else []

    def list_problems(self, lines: Sequence[str], looked_for: Sequence[str]) -> None:
        """Prints what is wrong with the rows, or that nothing is."""
        self._looked_for = f"looked for: {', '.join(looked_for)}"
        columns = terminal.columns_of(sys.stdout)
        print("\n" + "\n".join(terminal.hanging(self._looked_for, columns, 2)))
        print("problems:" if lines else "no problems found")
        # Wrapped only on a terminal: elsewhere, programs may read the lines.
        for line in map(terminal.visible, lines):
            wide = columns if sys.stdout.isatty() else terminal.width(line) + 2
            print("\n".join(terminal.hanging(f"- {line}", wide, 2)))
        self._problems = [*lines]

    def write(self, path: pathlib.Path, title: str) -> None:
        """Writes the HTML page."""
        count = len(self._problems)
        said = (
            f"{count} problem{'s' * (count > 1)} found"
            if count
            else "no problems found"
        )
        told = [*self._problems, self._looked_for]
        top = html.verdict(said, told, good=not count)
        page = html.page(title, top=top, sections=self._sections)
        files.write_text(path, page.replace(html.DOCTYPE, _MARK, 1))
        print(f"\nwrote {path}")
