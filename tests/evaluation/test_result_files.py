"""Result files: an entry for each example, under the names that Google's code gave."""

import json

import numpy as np
import pytest

from bert_mgpu.core.rows import Features, Ragged
from bert_mgpu.core.task import Predictions
from bert_mgpu.evaluation import result_files

# Two examples, the first of two rows, from lines 2 and 5 of a file.
FEATURES = Features(
    {"input_ids": Ragged.from_rows([[1], [2, 3], [4]])},
    {},
    np.array([2, 2, 5]),
    owners=np.array([0, 0, 1]),
)
PREDICTIONS = Predictions(
    ["yes", "no"],
    np.array([[0.25, 0.75], [1.0, 0.0]]),
    [{"label": "yes"}, {"label": "no"}],
)


def test_each_example_has_an_entry_in_every_file(tmp_path):
    folder = tmp_path / "new"
    names = result_files.write_predictions(folder, PREDICTIONS, FEATURES)
    assert sorted(names) == sorted(path.name for path in folder.iterdir())
    assert (folder / "predict.txt").read_text() == "yes\nno\n"
    assert (folder / "test_results.tsv").read_text() == "0.25\t0.75\n1.0\t0.0\n"
    lines = [json.loads(line) for line in (folder / "predictions.jsonl").open()]
    assert lines == [
        {"id": "test-1", "line": 2, "label": "yes"},
        {"id": "test-4", "line": 5, "label": "no"},
    ]


def test_files_of_an_earlier_prediction_go(tmp_path):
    odds = PREDICTIONS._replace(files={"null_odds.json": "{}"})
    result_files.write_predictions(tmp_path, odds, FEATURES)
    assert (tmp_path / "null_odds.json").exists()
    result_files.write_predictions(tmp_path, PREDICTIONS, FEATURES)
    assert not (tmp_path / "null_odds.json").exists()


def test_ids_of_the_file_are_kept():
    lines = result_files.json_lines(PREDICTIONS, FEATURES, ["x", "y"])
    assert [json.loads(line)["id"] for line in lines] == ["x", "y"]


def test_a_lost_prediction_is_an_error(tmp_path):
    short = PREDICTIONS._replace(records=PREDICTIONS.records[:1])
    with pytest.raises(ValueError, match="predictions of 2 examples"):
        result_files.write_predictions(tmp_path / "new", short, FEATURES)
    assert not (tmp_path / "new").exists()


def test_each_record_is_written_before_the_next_is_made(tmp_path, monkeypatch):
    """All lines of 5,000 rows with 5,000 labels would take 520 MB of memory."""
    written, before = [], []

    class Records(list):
        def __iter__(self):
            for record in super().__iter__():
                before.append(len(written))
                yield record

    monkeypatch.setattr(
        result_files, "write_text", lambda path, lines: written.extend(lines)
    )
    own = PREDICTIONS._replace(records=Records(PREDICTIONS.records))
    result_files.write_predictions(tmp_path, own, FEATURES)
    assert before == [4, 5]  # after two lines each of the other two files


def test_scores_come_back_as_they_were_written(tmp_path):
    scores = {"eval_accuracy": 1 / 3, "eval_loss": 1e-7, "global_step": 9}
    result_files.write_evaluation(tmp_path, scores, "other")
    path = tmp_path / result_files.evaluation_file("other")
    assert path.name == "eval_results_other.txt"
    assert result_files.read_evaluation(path) == scores
    assert path.read_text().startswith("eval_accuracy = 0.3333333333333333\n")


@pytest.mark.parametrize("began", [None, "a model"])
def test_where_a_run_began_is_not_what_a_command_names(tmp_path, began):
    assert result_files.first_weights(tmp_path, "x") == "x"  # there is no run
    flags = {"flags": {"init_checkpoint": began}}
    (tmp_path / "run.json").write_text(json.dumps(flags))
    assert result_files.first_weights(tmp_path, "x") == began


def test_seeds_have_the_deviation_of_a_sample():
    """R: sd(c(1, 2, 4)) is 1.527525; scores that one run lacks are left out."""
    runs = [{"eval_loss": 1.0}, {"eval_loss": 2.0, "f1": 1.0}, {"eval_loss": 4.0}]
    (summary,) = result_files.over_seeds(runs).values()
    assert summary["mean"] == pytest.approx(7 / 3)
    assert summary["deviation"] == pytest.approx(1.527525, abs=1e-6)
