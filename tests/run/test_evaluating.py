"""Evaluation while a run trains: history, best weights, an early end, the report."""

import html.parser
import json
import shutil
import signal

import numpy as np
import PIL.Image
import pytest
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.naive_bayes import MultinomialNB

from bert_mgpu.interop import google_ckpt
from bert_mgpu.text.tokenization import Tokenizer
from bert_mgpu.train.towers import Towers
from tests.conftest import rows
from tests.run.conftest import assert_refused, assert_same_run, keep_only, tree

STEPS, EVERY = 18, 4
TRAINED = {"do_train": True, "num_train_epochs": 3, "save_checkpoints_steps": 6}
LOOKS = {"eval_steps": EVERY, "eval_batch_size": 4}
STEPS_SEEN = [4, 8, 12, 16, 18]


def history(out):
    found = [json.loads(line) for line in (out / "evaluations.jsonl").open()]
    for row in found:
        assert row.pop("seconds") > 0
    return found


def scores(path):
    lines = (line.split(" = ") for line in path.read_text().splitlines())
    return {name: float(value) for name, value in lines}


@pytest.fixture(scope="module")
def later(tmp_path_factory):
    """A second set to evaluate, of task own."""
    path = tmp_path_factory.mktemp("sets") / "later.tsv"
    lines = (f"{('no', 'yes')[label]}\t{a}\n" for label, a, _ in rows(17, 7))
    path.write_text("".join(lines))
    return path


@pytest.fixture(scope="module")
def looked(tiny, later, tmp_path_factory):
    """The output_dir of a run that was evaluated every 4 steps, and its log."""
    import contextlib
    import io

    from bert_mgpu import run

    out = tmp_path_factory.mktemp("looked") / "out"
    flags = {**TRAINED, **LOOKS, "eval_files": f"later={later}", "do_eval": True}
    flags |= {"keep_checkpoint_max": 0, "save_checkpoints_steps": 2}
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        args = tiny.flags(out, "own", **flags, n_gpus=1, report=True)
        assert run.finetune(["", *args], "") == 0, said.getvalue()
    return out


def test_both_sets_are_evaluated_as_at_the_end(tiny, looked, later, inside, tmp_path):
    found = history(looked)
    assert [(row["step"], row["set"]) for row in found] == [
        (step, name) for step in STEPS_SEEN for name in ("dev", "later")
    ]
    files = {"dev": "eval_results.txt", "later": "eval_results_later.txt"}
    for row in found[-2:]:
        final = scores(looked / files[row.pop("set")])
        assert final.pop("global_step") == row.pop("step") == STEPS
        assert final.pop("loss") == final["eval_loss"]
        assert final == row
    # The other file as the dev file of a run of its own.
    shutil.copytree(tiny.data("own"), tmp_path / "data")
    shutil.copy(later, tmp_path / "data" / "dev.tsv")
    out = tmp_path / "out"
    shutil.copytree(looked, out)
    flags = {"data_dir": tmp_path / "data", "do_eval": True, "eval_batch_size": 4}
    code, _, err = inside(tiny.flags(out, "own", **flags))
    assert code == 0, err
    assert scores(out / "eval_results.txt") == scores(looked / files["later"])


def test_looking_changes_no_bit_of_the_training(tiny, looked, inside, tmp_path):
    code, _, err = inside(tiny.flags(tmp_path / "out", "own", **TRAINED))
    assert code == 0, err
    assert_same_run(looked, tmp_path / "out")


@pytest.mark.parametrize("metric", ["eval_accuracy", "eval_loss"])
def test_best_holds_the_weights_of_the_best_evaluation(
    tiny, looked, inside, tmp_path, metric
):
    out = tmp_path / "out"
    flags = {**TRAINED, **LOOKS, "keep_checkpoint_max": 0, "save_checkpoints_steps": 2}
    flags |= {"best_metric": metric}
    # The last is not the best: the rate rises to the end.
    flags |= {"learning_rate": 3e-2, "warmup_proportion": 1.0}
    code, _, err = inside(tiny.flags(out, "own", **flags))
    assert code == 0, err
    found = {row["step"]: row[metric] for row in history(out)}
    wanted = (min if metric == "eval_loss" else max)(found.values())
    step = next(step for step, value in found.items() if value == wanted)  # the first
    said = json.loads((out / "best" / "best.json").read_text())
    assert said.pop("of")
    assert said == {"step": step, "value": wanted, "metric": metric, "set": "dev"}
    best = google_ckpt.read(out / "best")
    then = google_ckpt.read(out / f"model.ckpt-{step}")
    assert best["global_step"] == step < STEPS
    for name in best:
        if not name.startswith("bert_mgpu/"):
            assert np.array_equal(best[name], then[name]), name
    assert not any("adam" in name for name in best)
    # It is used where that is asked for alone, and is a start like any other.
    args = {"do_eval": True, "eval_batch_size": 4}
    assert inside(tiny.flags(out, "own", **args, use_best=True))[0] == 0
    assert scores(out / "eval_results.txt")[metric] == wanted
    assert scores(out / "eval_results.txt")["global_step"] == step
    assert inside(tiny.flags(out, "own", **args))[0] == 0
    assert scores(out / "eval_results.txt")["global_step"] == STEPS
    alone = {"init_checkpoint": out / "best", "vocab_file": None}
    alone |= {"bert_config_file": None}
    code, _, err = inside(tiny.flags(tmp_path / "new", "own", **args, **alone))
    assert code == 0, err
    assert scores(tmp_path / "new" / "eval_results.txt")[metric] == wanted


def test_averages_are_what_is_looked_at_and_kept(tiny, inside, tmp_path):
    out = tmp_path / "out"
    flags = {**TRAINED, **LOOKS, "ema_decay": 0.9, "do_eval": True, "use_best": True}
    code, _, err = inside(tiny.flags(out, "own", **flags))
    assert code == 0, err
    best = json.loads((out / "best" / "best.json").read_text())["step"]
    (loss,) = {row["eval_loss"] for row in history(out) if row["step"] == best}
    assert scores(out / "eval_results.txt")["eval_loss"] == loss


@pytest.mark.parametrize("step", [6, 12])
def test_a_resumed_run_leaves_what_the_straight_one_does(
    tiny, looked, later, inside, tmp_path, step
):
    """Killed after a save, with evaluations that lie beyond it."""
    out = tmp_path / "out"
    shutil.copytree(looked, out)
    keep_only(out, step)
    flags = {**TRAINED, **LOOKS, "eval_files": f"later={later}"}
    code, _, err = inside(tiny.flags(out, "own", **flags, n_gpus=1))
    assert code == 0, err
    assert history(out) == history(looked)
    assert_same_run(looked, out)
    assert_same_run(looked / "best", out / "best")
    assert (out / "best/best.json").read_text() == (
        looked / "best/best.json"
    ).read_text()


@pytest.mark.parametrize("calls", [1, 9, 41])
def test_stopped_in_an_evaluation_it_is_done_later(
    tiny, looked, later, inside, tmp_path, monkeypatch, calls
):
    """SIGTERM in the first, the third and the last one: the step is saved at once."""
    out, outputs, seen = tmp_path / "out", Towers.outputs, []

    def stopped(towers, batch):
        seen.append(batch)
        if len(seen) == calls:
            signal.raise_signal(signal.SIGTERM)
        return outputs(towers, batch)

    monkeypatch.setattr(Towers, "outputs", stopped)
    flags = {**TRAINED, **LOOKS, "eval_files": f"later={later}"}
    code, _, err = inside(tiny.flags(out, "own", **flags, n_gpus=1))
    assert code == 75, err
    assert len(seen) == calls
    monkeypatch.undo()
    code, _, err = inside(tiny.flags(out, "own", **flags, n_gpus=1))
    assert code == 0, err
    assert history(out) == history(looked)
    assert_same_run(looked, out)
    assert_same_run(looked / "best", out / "best")


def test_best_of_another_run_or_set_is_not_the_bar(tiny, work, inside, tmp_path):
    out = tmp_path / "out"
    flags = {**TRAINED, **LOOKS, "save_checkpoints_steps": 100}
    assert inside(work.flags(out, "own", **flags))[0] == 0
    first = json.loads((out / "best/best.json").read_text())
    for path in out.glob("model.ckpt-*"):  # as if it had been killed before a save
        path.unlink()
    flags["learning_rate"] = 1e-9
    assert inside(work.flags(out, "own", **flags))[0] == 0
    second = json.loads((out / "best/best.json").read_text())
    assert second["value"] < first["value"] and second["of"] != first["of"]
    (work.data("own") / "dev.tsv").write_text("no\tsun\nyes\train\n" * 3)
    flags["num_train_epochs"] = 4
    assert inside(work.flags(out, "own", **flags))[0] == 0
    third = json.loads((out / "best/best.json").read_text())
    assert third["of"] != second["of"] and third["step"] > STEPS


def test_early_stopping_ends_and_stays_ended(tiny, inside, tmp_path):
    out = tmp_path / "out"
    flags = {**TRAINED, "eval_steps": 1, "eval_batch_size": 4, "learning_rate": 0}
    flags |= {"early_stopping_patience": 3, "do_predict": True}
    code, _, err = inside(tiny.flags(out, "own", **flags))
    assert code == 0, err
    assert [row["step"] for row in history(out)] == [1, 2, 3, 4]
    assert "3 evaluations without a better eval_accuracy" in err
    assert google_ckpt.read(out)["global_step"] == 4  # saved, though no save was due
    assert len((out / "predict.txt").read_text().splitlines()) == 11
    before = tree(out)
    code, _, err = inside(tiny.flags(out, "own", **flags))
    assert code == 0 and "nothing left to train: step 4" in err
    assert tree(out) == before
    flags |= {"early_stopping_patience": 5}
    code, _, err = inside(tiny.flags(out, "own", **flags))
    assert code == 0, err
    assert [row["step"] for row in history(out)] == [1, 2, 3, 4, 5, 6]


def test_naive_bayes_is_scikit_learns(tiny, looked, later):
    """Over the same tokens, counted by scikit-learn from text."""
    tokenizer = Tokenizer(tiny.model / "vocab.txt", True)

    def read(path):
        cells = [line.split("\t") for line in path.read_text().splitlines()]
        words = [tokenizer.tokenize(text)[:14] for _, text in cells]  # of 16
        texts = [" ".join(["[CLS]", *one, "[SEP]"]) for one in words]
        return texts, [label for label, _ in cells]

    count = CountVectorizer(token_pattern=r"\S+", lowercase=False)
    folder = tiny.data("own")
    texts, labels = read(folder / "train.tsv")
    model = MultinomialNB().fit(count.fit_transform(texts), labels)
    found = json.loads((looked / "baseline.json").read_text())
    for name, path in (("dev", folder / "dev.tsv"), ("later", later)):
        texts, labels = read(path)
        wanted = model.score(count.transform(texts), labels)
        assert found[name]["eval_accuracy"] == pytest.approx(wanted)


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
    names = {"curves", "confusion_dev", "confusion_later", "lengths"}
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
    for words in (f"dev eval_accuracy {accuracy:.4f}", "naive Bayes", "--eval_steps",
                  "tensorflow", "macro mean", "truncated"):  # fmt: skip
        assert words in page.text, words


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
    assert sum(tag == "img" for tag, _ in page.tags) == 3


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
    assert sum(tag == "img" for tag, _ in page.tags) == 2  # no confusion matrix
    value = scores(out / "eval_results.txt")[metric]
    assert f"dev {metric} {value:.4f}" in page.text
    words = {"multi": "hamming_loss", "regression": "off by"}[kind]
    assert words in page.text


@pytest.mark.parametrize(
    ("flags", "fragments"),
    [
        ({"eval_files": "later"}, ["--eval_files: 'later': write NAME=FILE"]),
        ({"eval_files": "a/b=x"}, ["--eval_files: 'a/b=x': write NAME=FILE"]),
        ({"eval_files": "dev=x"}, ["--eval_files: the name 'dev' is taken"]),
        ({"eval_files": "a=x,a=y"}, ["--eval_files: the name 'a' is taken"]),
        ({"eval_files": "a=none.tsv"}, ["none.tsv: no such file"]),
        ({"best_metric": "bleu"}, ["--best_metric=bleu", "eval_accuracy", "auc"]),
        ({"eval_steps": 0}, ["--eval_steps=0: pass at least 1"]),
        ({"eval_steps": None, "eval_files": "a=x"}, ["pass --do_eval=true or"]),
        ({"eval_steps": None, "use_best": True}, ["--use_best of a training needs"]),
        (
            {"eval_steps": None, "early_stopping_patience": 1},
            ["--early_stopping_patience does nothing without --eval_steps"],
        ),
    ],
)
def test_mistakes(work, expect_refused, flags, fragments):
    expect_refused(work, *fragments, **{"task": "own", **LOOKS, **flags})


def test_there_is_no_best_without_evaluations(tiny, inside, tmp_path):
    out = tmp_path / "out"
    assert inside(tiny.flags(out, "own", do_train=True))[0] == 0
    result = inside(tiny.flags(out, "own", do_eval=True, use_best=True))
    assert_refused(result, "--use_best", "best holds no weights", "--eval_steps")
    result = inside(tiny.flags(out, "own", do_eval=True, eval_steps=2))
    assert_refused(result, "--eval_steps is of a training")
