"""report.html of each family in Chromium: nothing is cut off, by day and by night."""

import json

import pytest

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
LABELS = {"multi": ("any", "any,good"), "regression": ("-1.5", "1.5")}


def own(tiny, folder, kind):
    """The tiny set with several labels, or numbers."""
    folder.mkdir()
    for path in tiny.data("own").glob("*.tsv"):
        rows = [line.split("\t") for line in path.read_text().splitlines()]
        lines = [f"{LABELS[kind][label == 'yes']}\t{text}\n" for label, text in rows]
        (folder / path.name).write_text("".join(lines))
    (folder / "task.json").write_text(json.dumps(TASK_JSON | {"type": kind}))


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
    colours = set()
    for width in WIDTHS:
        for dark in (False, True):
            profile = tmp_path / f"{width}-{dark}"
            with browser.Page(profile, width, dark=dark) as page:
                page.open(f"file://{tmp_path / 'out' / 'report.html'}")
                assert page.evaluate(CUT_OFF) == [], width
                assert page.evaluate(f"{ROOT}.scrollWidth <= {ROOT}.clientWidth"), width
                assert page.errors == []
                assert page.evaluate("document.querySelectorAll('.wide').length") > 3
                assert "dev" in page.evaluate("document.body.innerText")
                shown = "getComputedStyle(document.body)"
                colours.add(page.evaluate(f"{shown}.backgroundColor + {shown}.color"))
    assert len(colours) == 2  # by day and by night
