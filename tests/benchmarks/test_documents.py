"""What the documents say was measured is what the files of results say."""

import importlib
import json
import re

import pytest

from benchmarks.harness import RESULTS
from benchmarks.speed import train
from benchmarks.studies import learning_quality
from tests.support.paths import ROOT

PAGE = (ROOT / "docs" / "performance.md").read_text("utf-8")
SPREAD = re.compile(r"\d+\.\d\d \(\d+\.\d\d-\d+\.\d\d\)")  # of ratios


def section(title):
    return PAGE.split(f"## {title}\n")[1].split("\n## ")[0]


def test_the_table_of_speeds_is_made_from_its_results():
    figures = json.loads((RESULTS / "speed.json").read_text("utf-8"))
    assert train.markdown(figures) == (RESULTS / "speed.md").read_text("utf-8")


def test_the_speeds_on_the_page_are_those_of_the_table():
    known = {*SPREAD.findall((RESULTS / "speed.md").read_text("utf-8"))}
    lines = [line for line in section("Training speed").splitlines() if line[:1] == "|"]
    shown = [one for line in lines for one in SPREAD.findall(line)]
    assert len(shown) > 40 and not {*shown} - known


def test_rows_that_are_left_are_counted():
    text = (ROOT / "benchmarks" / "README.md").read_text("utf-8")
    for name, file in re.findall(r"benchmarks\.studies\.(\w+) run`.*\| (.*) \|", text):
        table = importlib.import_module(f"benchmarks.studies.{name}").TABLE
        done, planned = len(table.results()), len(table.planned)
        missing = f": {done} of {planned} rows so far" * (done < planned)
        assert file == f"`{table.path.name}`{missing}", name


@pytest.mark.parametrize("row", [*learning_quality.table()][2:-2])
def test_accuracies_of_the_two_optimizers(row):
    """Those of afqmc, all alike, are one line of the page."""
    name, rate, *cells = row.split(" | ")
    line = next(
        line
        for line in PAGE.splitlines()
        if line.startswith(f"{name} | {float(rate):.0e}".replace("e-0", "e-"))
    )
    for cell in cells[:-1]:
        assert cell.strip() in {*map(str.strip, re.split(r"[|(]", line)), "-"}
