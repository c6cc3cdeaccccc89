"""What the doctor finds: printed as it comes, and kept for a page."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence

from bert_mgpu.core import files
from bert_mgpu.evaluation import html


class Findings:
    """Tables and lists of a check, in their order."""

    def __init__(self) -> None:
        self._sections: list[tuple[str, str]] = []
        self._problems: list[str] = []

    def show(self, title: str, text: str) -> None:
        """Prints a text of aligned lines; the page has it below the title."""
        print(f"\n{text}" if self._sections else text)
        self._sections.append((title, html.lines(text)))

    def list_problems(self, lines: Sequence[str]) -> None:
        """Prints what is wrong with the rows, or that nothing is."""
        print("\nproblems:" if lines else "\nno problems found")
        for line in lines:
            print(f"- {line}")
        self._problems = [*lines]

    def write(self, path: pathlib.Path, title: str) -> None:
        """Writes the page."""
        count = len(self._problems)
        said = (
            f"{count} problem{'s' * (count > 1)} found"
            if count
            else "no problems found"
        )
        top = html.verdict(said, self._problems, good=not count)
        files.write_text(path, html.page(title, top=top, sections=self._sections))
        print(f"\nwrote {path}")
