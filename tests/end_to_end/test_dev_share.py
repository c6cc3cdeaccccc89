"""--dev_share and --max_train_steps, in a run from its files to its scores."""

import json
import re

import pytest

from tests.support.runs import assert_refused
from tests.support.tiny import LINES, rows


@pytest.fixture
def without_dev(tiny, tmp_path):
    """without_dev(...) -> the arguments of a run whose folder has train.tsv alone."""
    data = tmp_path / "data"
    data.mkdir()
    lines = [LINES["own"](*row) for row in rows(96, 0)]
    (data / "train.tsv").write_text("\n".join(lines) + "\n")
    flags = {"data_dir": data, "train_file": "train.tsv"}
    flags |= {"label_column": 0, "text_a_column": 1, "do_eval": True}

    def call(name, **more):
        return tiny.flags(tmp_path / name, "mine", **{**flags, **more})

    return call


def test_a_training_file_alone_is_enough(tiny, without_dev, tmp_path, inside):
    flags = {"do_train": True, "dev_share": 0.25, "max_train_steps": 5}
    code, _, err = inside(without_dev("out", **flags))
    assert code == 0, err
    out = tmp_path / "out"
    counts = {
        name: int(count)
        for name, count in re.findall(
            r"(train|dev)  (\d+) examples of \S+, its part by --dev_share=0.25", err
        )
    }
    assert counts["train"] + counts["dev"] == 96 and 22 <= counts["dev"] <= 32
    assert "with the text of a row of" not in err  # no text is on both sides
    steps = [json.loads(line)["step"] for line in (out / "metrics.jsonl").open()]
    assert max(steps) == 5
    scores = (out / "eval_results.txt").read_text()
    assert "global_step = 5" in scores
    # Later the same rows are left out, and no others can be: run.json has the share.
    code, _, err = inside(without_dev("out"))
    assert code == 0, err
    assert (out / "eval_results.txt").read_text() == scores
    assert f"dev  {counts['dev']} examples" in err
    refused = inside(without_dev("out", do_train=True, dev_share=0.5))
    assert_refused(refused, "dev_share (was 0.25, is 0.5)")


def test_a_dev_file_that_comes_later_takes_its_place(
    tiny, without_dev, tmp_path, inside
):
    """A share that only the model remembers is ignored; a given one is refused."""
    flags = {"do_train": True, "do_eval": False, "dev_share": 0.25}
    code, _, err = inside(without_dev("out", **flags, max_train_steps=2))
    assert code == 0, err
    lines = [LINES["own"](*row) for row in rows(7, 1)]
    (tmp_path / "data" / "dev.tsv").write_text("\n".join(lines) + "\n")
    added = {"dev_file": "dev.tsv"}
    for asked, said in (({}, "dev  7 examples"), ({"do_predict": True}, "predicted 7")):
        code, _, err = inside(without_dev("out", **added, **asked))
        assert code == 0, err
        ignored = "--dev_share=0.25, which the model was trained with, is ignored: the"
        assert f"{ignored} task now has a dev file, " in err
        assert said in err and "its part by" not in err
    given = without_dev("out", **added, dev_share=0.25)
    assert_refused(inside(given), "--dev_share=0.25: the task has a dev file")
    # To a training that goes on, its part of the file is another set than all of it.
    resumed = without_dev("out", **added, do_train=True, max_train_steps=9)
    assert_refused(inside(resumed), "dev_share (was 0.25, is not given)")


def test_a_text_for_each_label_is_too_few(without_dev, tmp_path, inside):
    args = without_dev("out", do_train=True, dev_share=0.25)
    (tmp_path / "data" / "train.tsv").write_text("a\tx\nb\ty\nc\tz\nd\tw\n")
    assert_refused(inside(args), "--dev_share=0.25: 4 rows have too few different")


def test_without_a_dev_file_the_share_is_named(without_dev, inside):
    assert_refused(inside(without_dev("out", do_train=True)), "--dev_share=0.1")


@pytest.mark.parametrize(
    ("flags", "last"),
    [({"num_train_epochs": 1}, 24), ({"num_train_epochs": 9}, 30), ({}, 30)],
)
def test_whichever_ends_first(without_dev, inside, flags, last):
    """96 rows by 4 are 24 steps an epoch."""
    flags = {"max_train_steps": 30, "num_train_epochs": None, **flags}
    flags |= {"do_train": True, "do_eval": False, "plan": True}
    code, _, err = inside(without_dev("out", **flags))
    assert code == 0, err
    assert re.search(rf"steps +{last}: 96 rows", err), err
