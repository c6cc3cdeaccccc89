"""Reports of each family and of the doctor in Chromium: nothing is cut off unseen."""

import json

import matplotlib.image
import numpy as np
import pytest

from bert_mgpu.cli.doctor import task_data
from tests.support import browser, entities, questions, ranked, rewriting
from tests.support.tiny import TASK_JSON

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.skipif(
        browser.program() is None,
        reason="the page is looked at in Chromium, which is not here",
    ),
]
WIDTHS = (360, 500, 1200)
ROOT = "document.documentElement"
# What reaches over the right edge. Tables that scroll have a sign at their edge.
CUT_OFF = """
[...document.querySelectorAll('body *')].filter(each =>
  !each.parentElement.closest('.wide') &&
  (each.getBoundingClientRect().right > ROOT.clientWidth + 1 ||
   each.getBoundingClientRect().left < -1)
).map(each => each.tagName + ' ' + each.textContent.slice(0, 60))
""".replace("ROOT", ROOT)
# How far a table scrolls, its right edge, its top and its height.
TABLES = """
[...document.querySelectorAll('.wide')].map(each => {
  const place = each.getBoundingClientRect();
  return [each.scrollWidth - each.clientWidth, place.right, place.top, place.height];
})
"""
PADDING = 10  # of the last column: if no more is hidden, no text is
LONG = [
    "x" * 80,
    "一个没有空格的很长的标签名" * 5,
    "a name of many words, " * 4 + "the end",
]
LABELS = {"multi": ("any", "any,good"), "regression": ("-1.5", "1.5")}


def own(tiny, folder, kind):
    """The tiny set with several labels, or numbers."""
    folder.mkdir()
    for path in tiny.data("own").glob("*.tsv"):
        rows = [line.split("\t") for line in path.read_text().splitlines()]
        lines = [f"{LABELS[kind][label == 'yes']}\t{text}\n" for label, text in rows]
        (folder / path.name).write_text("".join(lines))
    (folder / "task.json").write_text(json.dumps(TASK_JSON | {"type": kind}))


def long_names(tiny, folder, kind):
    """The tiny set with three labels, all longer than a narrow page."""
    folder.mkdir()
    for path in tiny.data("own").glob("*.tsv"):
        texts = [line.split("\t")[1] for line in path.read_text().splitlines()]
        lines = (f"{LONG[n % 3]}\t{' '.join([t] * 9)}\n" for n, t in enumerate(texts))
        (folder / path.name).write_text("".join(lines))
    (folder / "task.json").write_text(json.dumps(TASK_JSON))


def answers(tiny, folder, kind):
    parts = {"train": questions.small(64, 1, 0.4), "dev": questions.small(21, 2, 0.4)}
    questions.write(folder, "squad2", parts)


def groups(tiny, folder, kind):
    ranked.write(folder, {"train": ranked.small(12, 1), "dev": ranked.small(9, 2)})


SHORT = {"max_seq_length": 24, "doc_stride": 8, "max_query_length": 4}
# Family -> (its task, a function that writes its files, more flags)
FAMILIES = {
    "classes": ("mrpc", None, {}),
    "multi": ("mine", own, {}),
    "regression": ("mine", own, {}),
    "entities": ("ner", lambda _, folder, __: entities.write_task(folder, "ner"), {}),
    "answers": ("squad2", answers, SHORT),
    "rewriting": ("mine", lambda _, folder, __: rewriting.write_task(folder), {}),
    "groups": ("mine", groups, {}),
    "long names": ("mine", long_names, {}),
}


@pytest.mark.parametrize("family", FAMILIES)
def test_nothing_is_cut_off(tiny, inside, tmp_path, family):
    task, write, changed = FAMILIES[family]
    flags = {"do_train": True, "do_eval": True, "report": True, **changed}
    if write:
        write(tiny, tmp_path / "data", family)
        flags["data_dir"] = tmp_path / "data"
    code, _, err = inside(tiny.flags(tmp_path / "out", task, **flags))
    assert code == 0, err
    look_at(tmp_path / "out" / "report.html", tmp_path)


def test_the_doctors_page(tiny, tmp_path, capsys):
    long_names(tiny, tmp_path / "data", "")
    page = tmp_path / "page.html"
    flags = [
        "--task_name=mine",
        f"--data_dir={tmp_path / 'data'}",
        "--check_labels=true",
    ]
    flags += [f"--html={page}", f"--vocab_file={tiny.model / 'vocab.txt'}"]
    assert task_data.main(flags) in (0, 1), capsys.readouterr()
    look_at(page, tmp_path, tables=1)


def look_at(path, tmp_path, tables=4):
    """At three widths, by day and by night."""
    colours = set()
    for width in WIDTHS:
        for dark in (False, True):
            profile = tmp_path / f"{width}-{dark}"
            with browser.Page(profile, width, dark=dark) as page:
                page.open(f"file://{path}")
                assert page.evaluate(CUT_OFF) == [], width
                assert page.evaluate(f"{ROOT}.scrollWidth <= {ROOT}.clientWidth"), width
                assert page.errors == []
                assert (
                    page.evaluate("document.querySelectorAll('.wide').length") >= tables
                )
                assert "dev" in page.evaluate("document.body.innerText")
                shown = "getComputedStyle(document.body)"
                colours.add(page.evaluate(f"{shown}.backgroundColor + {shown}.color"))
                check_edges(page, tmp_path / "page.png")
    assert len(colours) == 2  # by day and by night


def check_edges(page, path):
    """A table that scrolls has a shadow at its edge, and no other one has."""
    tables = page.evaluate(TABLES)
    page.screenshot(path)
    image = matplotlib.image.imread(path)[..., :3]
    background = image[2, 2]
    for hidden, right, top, height in tables:
        if 0 < hidden < PADDING:
            continue
        shades = [
            most_common(image[round(top) : round(top + height), round(right) - near])
            for near in range(2, 15)
        ]
        shaded = np.abs(shades - background).max() > 0.05
        assert shaded == (hidden > 0), (hidden, right, top)


def most_common(pixels):
    colours, counts = np.unique(pixels, axis=0, return_counts=True)
    return colours[counts.argmax()]
