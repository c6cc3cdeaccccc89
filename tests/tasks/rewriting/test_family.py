"""What the type "rewrite" reads, refuses, and is compared with."""

import dataclasses
import json
import types

import pytest

from bert_mgpu.config.finetuning import FinetuneConfig
from bert_mgpu.config.rewriting import RewriteChoice
from bert_mgpu.core.errors import UserError
from bert_mgpu.core.rows import Example
from bert_mgpu.tasks import reader, registry
from bert_mgpu.tasks.data_checks import CheckedSet
from bert_mgpu.tasks.rewriting.family import FAMILY
from tests.support import rewriting


@pytest.fixture
def config(tmp_path):
    rewriting.write_task(tmp_path / "data", (1, 1, 1))
    data = str(tmp_path / "data")
    return FinetuneConfig(task_name="mine", data_dir=data, do_train=True)


def read(config, folder, *rows, **flags):
    file = folder / "new.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    files = registry.find_task_files(config)
    return reader.read_examples(
        files, file, "train", label=FAMILY.read_label, with_label=True, **flags
    )


def test_a_number_is_a_text(config, tmp_path):
    row = {"source": 1, "context": "", "target": 2.5}
    (found,) = read(config, tmp_path, row)
    assert (found.text_a, found.text_b, found.label) == ("1", "", "2.5")


def test_blanks_of_a_target_stay(config, tmp_path):
    row = {"source": "a", "context": "", "target": " a\n\tb "}
    assert read(config, tmp_path, row)[0].label == " a\n\tb "


def test_all_faults_of_a_file_are_found(config, tmp_path):
    faults = []
    rows = [
        {"source": "sun", "context": "", "target": target}
        for target in ("joy", "\t", "a [SLOT]", ["joy"])
    ]
    found = read(config, tmp_path, *rows, faults=lambda *fault: faults.append(fault))
    assert [example.label for example in found] == ["joy"]
    assert [line for line, _ in faults] == [2, 3, 4]


def test_a_target_is_needed_to_learn_and_to_evaluate(config, tmp_path):
    rewriting.write_task(tmp_path / "without", (1, 1, 1), target=None)
    for asked in ({"do_train": True}, {"do_eval": True}, {}):
        own = FinetuneConfig(
            task_name="mine", data_dir=str(tmp_path / "without"), **asked
        )
        files = registry.find_task_files(own)
        if not asked:
            assert FAMILY.resolve_labels(own, files, None, output_dir=tmp_path) == files
            continue
        with pytest.raises(UserError, match="task.json: 'target' is missing"):
            FAMILY.resolve_labels(own, files, None, output_dir=tmp_path)


def test_the_doctor_says_what_a_training_misses(tmp_path, config):
    """A set to learn from without a target; not a file to predict."""
    files = registry.find_task_files(config)
    columns = dataclasses.replace(files.columns, label=None)
    files = dataclasses.replace(files, columns=columns)
    said = {
        split: [*FAMILY.warnings(CheckedSet(split, "x", None, unknown=1), files)]
        for split in ("train", "dev")
    }
    assert said["train"] == said["dev"] and "'target' is missing" in said["dev"][0]


def test_predictions_later_are_made_as_in_training(config):
    files = registry.find_task_files(config)
    assert FAMILY.prediction_flags(config, files, None) == {
        "fill_rounds": 4,
        "insert_from": "vocabulary",
        "keep_bias": 0.0,
    }
    own = FinetuneConfig(num_candidates=3, insert_from="input", max_insert=7)
    kept = FAMILY.prediction_flags(own, files, None)
    names = {*RewriteChoice._fields} - {"without_slots"}
    assert {*kept} == names and kept["num_candidates"] == 3
    assert FAMILY.feature_settings(own) == {"max_insert": 7}


@pytest.mark.parametrize(
    ("free", "given", "kept"),
    [(0, None, "keep"), (1, None, None), (0, "edit", "edit"), (1, "keep", "keep")],
)
def test_a_model_of_slots_alone_keeps_texts_without_any(config, free, given, kept):
    files = registry.find_task_files(config)
    own = dataclasses.replace(config, without_slots=given)
    notes = {"rewriting": {"learnt": 5, "free": free}}
    trained = types.SimpleNamespace(notes=notes)
    flags = FAMILY.prediction_flags(own, files, trained)
    assert flags.get("without_slots") == kept


def _unread():
    raise AssertionError("copying needs no training set")


def test_copying_is_the_baseline(tokenizer):
    sets = {
        "dev": [Example("", "sun", label="sun"), Example("", "sun", label="joy")],
        "other": [Example("", "sun", "joy", label="joy")],
    }
    task = rewriting.rewriting(tokenizer)
    found = FAMILY.baseline(
        _unread, dict.fromkeys(sets), task, examples=sets.__getitem__
    )
    assert {name: own["exact_match"] for name, own in found.items()} == {
        "dev": 50.0,
        "other": 0.0,
    }
