"""report.html: one file, whatever the texts and the type of task."""

import html.parser
import json
import re
import shutil
import types

import numpy as np
import PIL.Image
import pytest

from bert_mgpu.config.finetuning import FinetuneConfig
from bert_mgpu.evaluation import report
from tests.support.evaluations import LOOKS, TRAINED, history, scores
from tests.support.tiny import rows


class Page(html.parser.HTMLParser):
    """What stands in a page: its tags with attributes, its text."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.text, self._open = [], "", []
        self.feed(text)
        assert not self._open

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "img"):
            self._open.append(tag)

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_data(self, data):
        self.text += data


def test_the_report_stands_alone(looked):
    page = Page((looked / "report.html").read_text(encoding="utf-8"))
    sources = [attrs["src"] for tag, attrs in page.tags if tag == "img"]
    names = {"curves", "lengths"}
    assert len(sources) == len(names)
    assert all(one.startswith("data:image/png;base64,") for one in sources)
    links = [attrs["href"] for tag, attrs in page.tags if tag == "a"]
    targets = {attrs.get("id") for _, attrs in page.tags}
    assert links and all(link[1:] in targets for link in links)
    assert not {tag for tag, _ in page.tags} & {"script", "link", "iframe"}
    for name in names:
        with PIL.Image.open(looked / "report" / f"{name}.png") as picture:
            assert picture.size[0] > 800
            greys = np.unique(np.asarray(picture.convert("L")))
            assert len(greys) > 10  # something is drawn
    accuracy = scores(looked / "eval_results.txt")["eval_accuracy"]
    for words in (f"dev eval_accuracy {accuracy:.4f} (95 %: ", "naive Bayes (0.",
                  "--eval_steps", "tensorflow", "macro mean", "truncated",
                  "best during training"):  # fmt: skip
        assert words in page.text, words


def test_every_wrong_row_is_kept(looked):
    """As many as the accuracy says."""
    facts = [json.loads(line) for line in (looked / "errors.jsonl").open()]
    page = Page((looked / "report.html").read_text(encoding="utf-8"))
    totals = re.findall(r"^([0-9,]+) examples of ", page.text, re.MULTILINE)
    files = {"dev": "eval_results.txt", "later": "eval_results_later.txt"}
    for (name, file), total in zip(files.items(), totals, strict=True):
        own = [fact for fact in facts if fact["set"] == name]
        accuracy = scores(looked / file)["eval_accuracy"]
        assert own and len(own) == round((1 - accuracy) * int(total))
        for fact in own:
            assert fact["predicted"]["label"] != fact["truth"]
            assert {"id", "line", "text_a"} <= fact.keys()


def test_without_the_package_that_draws_only_the_report_is_missing(
    tiny, trained, inside, tmp_path, monkeypatch
):
    monkeypatch.setattr(report, "is_possible", lambda: False)
    out = tmp_path / "out"
    shutil.copytree(trained("own"), out)
    flags = {"do_eval": True, "report": True, "init_checkpoint": None}
    code, _, err = inside(tiny.flags(out, "own", **flags))
    assert code == 0, err
    assert "no report: the package matplotlib is not installed" in err
    assert (out / "eval_results.txt").exists() and not (out / "report.html").exists()


def test_hostile_text_is_only_text_in_a_report(tiny, inside, tmp_path):
    """All rows are wrong, so that they are shown."""
    data = tmp_path / "data"
    data.mkdir()
    evil = "<script>alert(1)</script><img src=x onerror=y> \u202e &amp;"
    (data / "train.tsv").write_text(f"<b>\tsun {evil}\n$x$\train {evil}\n" * 8)
    (data / "dev.tsv").write_text(f"<b>\train {evil}\n$x$\tsun {evil}\n" * 3)
    task = {"train": "train.tsv", "dev": "dev.tsv", "text_a": 1, "label": 0}
    (data / "task.json").write_text(json.dumps(task))
    flags = {"data_dir": data, "do_train": True, "do_eval": True, "report": True}
    out = tmp_path / "out"
    flags |= {"num_train_epochs": 8, "max_seq_length": 40}
    code, _, err = inside(tiny.flags(out, "<own>", **flags))
    assert code == 0, err
    page = Page((out / "report.html").read_text(encoding="utf-8"))
    assert "<script>alert(1)</script>" in page.text and "\\u202e &amp;" in page.text
    assert not {tag for tag, _ in page.tags} & {"script", "b"}
    assert sum(tag == "img" for tag, _ in page.tags) == 2


@pytest.mark.parametrize("kind", ["multi", "regression"])
def test_other_types_are_looked_at_and_reported(tiny, inside, tmp_path, kind):
    data, out = tmp_path / "data", tmp_path / "out"
    data.mkdir()
    labels = {"multi": ("", "a,b"), "regression": ("-1", "0.5")}[kind]
    for seed, split in enumerate(("train", "dev")):
        lines = (f"{labels[label]}\t{a}\n" for label, a, _ in rows(24, seed))
        (data / f"{split}.tsv").write_text("".join(lines))
    task = {"train": "train.tsv", "dev": "dev.tsv", "label": 0, "text_a": 1}
    (data / "task.json").write_text(json.dumps({**task, "type": kind}))
    flags = {**TRAINED, **LOOKS, "data_dir": data, "do_eval": True, "report": True}
    code, _, err = inside(tiny.flags(out, "mine", **flags))
    assert code == 0, err
    metric = {"multi": "micro_f1", "regression": "eval_loss"}[kind]
    best = json.loads((out / "best/best.json").read_text())
    choose = min if kind == "regression" else max
    assert best["metric"] == metric
    assert best["value"] == choose(row[metric] for row in history(out))
    assert ("naive Bayes" in err) == (kind == "multi")
    page = Page((out / "report.html").read_text(encoding="utf-8"))
    assert sum(tag == "img" for tag, _ in page.tags) == 2
    assert "columns: predicted" not in page.text  # no confusion matrix
    value = scores(out / "eval_results.txt")[metric]
    assert f"dev {metric} {value:.4f}" in page.text
    words = {"multi": "hamming_loss", "regression": "off by"}[kind]
    assert words in page.text


@pytest.mark.parametrize(("begun_from", "shown"), [("model", 0), ("other", 1)])
def test_a_path_is_another_one_only_if_it_leads_elsewhere(
    tmp_path, monkeypatch, begun_from, shown
):
    monkeypatch.chdir(tmp_path)
    flags = {"init_checkpoint": str(tmp_path / begun_from)}
    (tmp_path / "run.json").write_text(json.dumps({"flags": flags}))
    given = frozenset(["init_checkpoint"])
    facts = types.SimpleNamespace(
        config=FinetuneConfig(init_checkpoint="model", given=given),
        output_dir=tmp_path,
        devices=["CPU"],
        batch="1 example",
    )
    ((_, page),) = report._settings(facts)
    assert str(tmp_path / begun_from) in page
    assert page.count(f"{tmp_path / 'model'} (of this command)") == shown


def test_settings_are_shown_whole(tmp_path):
    trained, own = "a" * 300, "b" * 300
    content = {"flags": {"eval_files": trained}}
    (tmp_path / "run.json").write_text(json.dumps(content))
    facts = types.SimpleNamespace(
        config=FinetuneConfig(predict_file=own, given=frozenset(["predict_file"])),
        output_dir=tmp_path,
        devices=["CPU"],
        batch="1 example",
    )
    ((_, page),) = report._settings(facts)
    assert trained in page and f"{own} (of this command)" in page
