"""The keys of task.json of the type "tags"."""

import dataclasses
import json
import pathlib
import re

import pytest

from bert_mgpu.checkpoints.run_folder import TrainedTask
from bert_mgpu.config import parsing, tagging
from bert_mgpu.config.finetuning import FinetuneConfig
from bert_mgpu.core.errors import UserError
from bert_mgpu.tasks import reader, registry, task_json, task_keys
from bert_mgpu.tasks.tagging import files


def find(folder, values, **flags):
    if values is not None:
        (folder / "task.json").write_text(json.dumps(values))
    flags = {"task_name": "mine", "data_dir": folder, **flags}
    config, _ = parsing.parse(["", *parsing.arguments(flags)], "", FinetuneConfig)
    return registry.find_task_files(config)


@pytest.mark.parametrize(
    ("values", "form", "columns"),
    [
        ({"train": "train.txt"}, "conll", (0, -1)),
        ({"train": "a.conll"}, "conll", (0, -1)),
        ({"train": "weibo.train"}, "conll", (0, -1)),
        ({"train": "train.json"}, "jsonl", ("text", "label")),
        ({"train": "train.jsonl.gz", "label": "spans"}, "jsonl", ("text", "spans")),
        ({"train": "train.parquet", "text_a": "tokens", "label": "ner_tags"},
         "parquet", ("tokens", "ner_tags")),
        ({"train": "train.txt", "text_a": 1, "label": 3}, "conll", (1, 3)),
        ({"train": "train.txt", "format": "jsonl"}, "jsonl", ("text", "label")),
    ],
)  # fmt: skip
def test_formats_and_columns(tmp_path, values, form, columns):
    task = find(tmp_path, {**values, "type": "tags"})
    assert task.columns.table == ((form, *task.columns.table.form[1:]), columns)
    assert task.columns.nested and task.task_type == files.TYPE
    again = task_json.values_of(task)
    assert again["format"] == form and again["type"] == "tags"


@pytest.mark.parametrize("test", ["test.jsonl", "test.parquet"])
def test_files_of_several_formats_are_refused(tmp_path, test):
    """One would be read as the other, without a word."""
    values = {"train": "train.txt", "dev": "dev.conll", "type": "tags"}
    assert find(tmp_path, values).columns.table.form.format == "conll"
    with pytest.raises(
        UserError, match=rf"task\.json: .*{test} is .*: all files of the type tags"
    ):
        find(tmp_path, {**values, "test": test})


def test_a_task_comes_back_from_what_run_json_keeps(tmp_path):
    values = {"train": "a.txt", "type": "tags", "scheme": "iob1", "units": "words",
              "token_pattern": "(.)[0-9]", "repair_bio": "begin"}  # fmt: skip
    task = find(tmp_path, values)
    assert task.options == {key: values[key] for key in files.KEYS}
    kept = task_json.values_of(task)
    again = find(tmp_path, {key: v for key, v in kept.items() if key != "name"})
    assert again.options == task.options
    assert again.columns.clean("字0") == "字"


def test_built_in_tasks_take_the_flags_of_their_type(tmp_path):
    for name in files.BUILTIN:
        task = find(tmp_path, None, task_name=name, repair_bio="outside")
        assert task.built_in and task.options == {"repair_bio": "outside"}
        assert task_json.values_of(task) == {"name": name, "repair_bio": "outside"}
        with pytest.raises(UserError, match=f"--train_file: {name} is a built-in"):
            find(tmp_path, None, task_name=name, train_file="x")
    with pytest.raises(UserError, match="--repair_bio: mrpc is a built-in task"):
        find(tmp_path, None, task_name="mrpc", repair_bio="outside")


MISTAKES = [
    ({"token_pattern": "(a"}, r"token_pattern: '\(a' is not a regular expression"),
    ({"token_pattern": "ab"}, "token_pattern: 'ab' has 0 groups: put the word in"),
    ({"token_pattern": "(a)(b)"}, r"token_pattern: '\(a\)\(b\)' has 2 groups"),
    ({"scheme": "iob"}, "'scheme' is 'iob': pass one of bio, bioes, iob1"),
    ({"repair_bio": "yes"}, "'repair_bio' is 'yes': pass one of begin, outside"),
    ({"units": "chars"}, "'units' is 'chars': pass one of words, pieces"),
    ({"type": "single", "scheme": "bio"}, "'scheme' is only for the type 'tags'"),
    ({"labels": "LOC"}, "'labels' is 'LOC', but must be of type list"),
]


@pytest.mark.parametrize(("values", "message"), MISTAKES)
def test_mistakes(tmp_path, values, message):
    with pytest.raises(UserError, match=message):
        find(tmp_path, {"train": "a.txt", "text_a": 0, "type": "tags", **values})


def test_one_type_is_enough(tmp_path):
    values = {"train": "a.txt", "type": "tags", "labels": ["LOC"]}
    assert find(tmp_path, values).labels == ("LOC",)


def test_words_that_are_not_as_the_pattern_says(tmp_path):
    find_word = files.columns(
        find(tmp_path, {"train": "a.txt", "type": "tags"}).columns,
        {"token_pattern": "(.*)[0-9]"},
    ).clean
    assert find_word("字0") == "字" and find_word("120") == "12"
    for token in ("字", "0", ""):
        with pytest.raises(ValueError, match=re.escape(repr(token))):
            find_word(token)


def test_a_second_text_is_refused(tmp_path):
    values = {"train": "a.json", "type": "tags", "text_b": "b"}
    with pytest.raises(UserError, match="text_b: entities are found in one text"):
        find(tmp_path, values)


def test_the_pattern_is_for_words_not_for_texts(tmp_path):
    values = {"train": "a.txt", "type": "tags", "token_pattern": "(.)[0-9]"}
    columns = find(tmp_path, values).columns
    assert reader.clean(columns, "a bare text") == ("a bare text", None)


def test_flags_and_keys_have_the_same_choices():
    flags = {
        field.name: field.metadata
        for field in tagging.TaggingFlags.__dataclass_fields__.values()
    }
    for key in files.KEYS:
        row = task_keys.KEYS[key]
        assert tuple(row.choices or ()) == flags[row.flag]["choices"]


def test_a_task_json_beside_a_trained_model(tmp_path):
    """What the file leaves out is as the model was trained; what it says goes first."""
    values = {"type": "tags", "train": "a.txt", "token_pattern": "(.)1"}
    (tmp_path / "task.json").write_text(json.dumps(values))
    model_values = {**values, "name": "mine", "units": "words", "repair_bio": "begin"}
    model_values |= {"scheme": "bioes"}  # of the files of its training alone
    config = FinetuneConfig(task_name="mine", data_dir=str(tmp_path))
    for known, wanted in (
        ({}, {"units": "words", "repair_bio": "begin", "token_pattern": "(.)1"}),
        ({"token_pattern": "(.)2"}, {"token_pattern": "(.)1", "units": "words"}),
        ({"name": "other"}, {"token_pattern": "(.)1"}),
        ({"type": "single"}, {"token_pattern": "(.)1"}),
    ):
        trained = TrainedTask(pathlib.Path("run.json"), {**model_values, **known}, {})
        asked = dataclasses.replace(config, trained_task=trained)
        options = registry.find_task_files(asked).options
        assert {**options, **wanted} == options
        assert ("units" in options) == ("units" in wanted)
        assert "scheme" not in options
    bad = TrainedTask(pathlib.Path("run.json"), {**model_values, "units": 7}, {})
    with pytest.raises(UserError, match=r"run.json: 'units' is 7"):
        registry.find_task_files(dataclasses.replace(config, trained_task=bad))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"scheme": "x"}, "'scheme' is 'x': pass one of bio, bioes, iob1"),
        ({"units": 7}, "'units' is 7, but must be of type str"),
        ({"token_pattern": ["(a)"]}, "'token_pattern' is .*, but must be of type str"),
    ],
)
def test_what_run_json_says_of_a_built_in_task_is_checked(values, message):
    values = {"name": "ner", **values}
    trained = TrainedTask(pathlib.Path("model/run.json"), values, {})
    with pytest.raises(UserError, match=message):
        registry.find_task_files(FinetuneConfig(trained_task=trained))
