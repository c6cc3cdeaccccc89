"""A task of one's own, by task.json, by flags, or by both."""

import dataclasses
import json
import pathlib
import re

import pytest

from bert_mgpu.checkpoints.run_folder import TrainedTask
from bert_mgpu.config.finetuning import FinetuneConfig
from bert_mgpu.core.errors import UserError
from bert_mgpu.tasks import registry, task_json
from bert_mgpu.tasks.registry import BUILTIN, TYPES
from bert_mgpu.tasks.task_keys import COLUMNS


@pytest.fixture
def read(tmp_path):
    """read(values of task.json or None, **flags) -> the files of the task."""

    def call(values, **flags):
        if values is not None:
            (tmp_path / "task.json").write_text(json.dumps(values))
        config = FinetuneConfig(task_name="mine", data_dir=str(tmp_path), **flags)
        return task_json.read_task_json(config, BUILTIN, TYPES)

    return call


def test_a_flag_wins_over_its_key(read):
    values = {"train": "a.tsv", "text_a": 1, "label": 0, "labels": ["no", "yes"]}
    task = read(values, train_file="b.tsv", labels="x,y")
    assert (task.train, task.labels) == ("b.tsv", ("x", "y"))
    assert task.columns.table.columns == (1, 0)


def test_flags_alone_are_enough(read):
    task = read(None, text_a_column="title", label_column="-1")
    assert task.columns.table.columns == ("title", -1)
    assert task.columns.text_b is None and task.columns.id is None


def test_named_columns_have_a_header_unless_it_is_said(read):
    assert read({"text_a": "title"}).columns.table.form.header
    assert not read({"text_a": 0}).columns.table.form.header
    assert read({"text_a": 0, "header": True}).columns.table.form.header
    with pytest.raises(UserError, match="without a header columns have numbers"):
        read({"text_a": "title", "header": False})


@pytest.mark.parametrize(
    ("values", "fragment"),
    [
        ({"text_a": 0, "lable": 1}, "unknown key 'lable': did you mean 'label'"),
        ({"text_a": True}, "but must be of type int or str"),
        ({"text_a": -2}, "columns count from 0, -1 is the last"),
        ({"text_a": 0, "labels": ["a", "a"]}, "names a label twice"),
        ({"text_a": 0, "labels": ["a", " b"]}, "' b' has blanks around it"),
        ({"text_a": 0, "labels": ["a", "b\0"]}, "a label contains a NUL character"),
        ({"text_a": 0, "type": "other"}, "pass one of single, multi, regression"),
        ({"text_a": 0, "labels": ["1", "2"], "type": "regression"}, "no names of"),
        ({"text_a": 0, "label_separator": ";"}, "only for the type 'multi'"),
        ({"text_a": 0, "train": "../x"}, "name a file inside data_dir"),
        ({"label": 0}, "'text_a' is missing"),
        ({"text_a": 0, "group": 1, "type": "multi"}, "only for the type 'single'"),
        ({"text_a": 0, "qid": 1}, "unknown key 'qid': did you mean 'group'"),
    ],
    ids=str,
)
def test_mistakes(read, values, fragment):
    with pytest.raises(UserError, match=fragment):
        read(values)


FULL = {
    "name": "mine",
    "train": "a.csv",
    "dev": "b/c.csv",
    "text_a": "t",
    "text_b": 3,
    "label": -1,
    "id": "i",
    "format": "csv",
    "header": True,
    "encoding": "gb18030",
    "type": "multi",
    "label_separator": "|",
}
RUN = pathlib.Path("model/run.json")
DEFAULTS = {"header": False, "encoding": "utf-8", "type": "single"}


def of_trained(values, **flags):
    trained = TrainedTask(RUN, values, {})
    return registry.find_task_files(FinetuneConfig(trained_task=trained, **flags))


NAMED = {"name": "mine", "text_a": "t", "label": "l", "header": True}
NUMBERED = {"name": "mine", "text_a": 0, "label": 1, "header": False}
WORDS = NUMBERED | {"type": "tags", "format": "conll"}
BY_NUMBER = {"text_a_column": "0"}


@pytest.mark.parametrize(
    ("values", "flags", "header", "columns"),
    [
        (NAMED, BY_NUMBER, False, {"text_a": 0}),
        (NAMED, {**BY_NUMBER, "header": False}, False, {"text_a": 0}),
        (NAMED, {**BY_NUMBER, "header": True}, True, {"text_a": 0, "label": "l"}),
        # Their labels have a name, so there is a header.
        (NAMED, {**BY_NUMBER, "do_eval": True}, True, {"text_a": 0, "label": "l"}),
        (NAMED, {"text_a_column": "u"}, True, {"text_a": "u", "label": "l"}),
        (NAMED, {"label_column": "1"}, True, {"text_a": "t", "label": 1}),
        # The second texts have one, too.
        (NAMED | {"text_b": "b"}, BY_NUMBER, True, {"text_a": 0, "text_b": "b"}),
        (
            NAMED | {"text_b": "b"},
            {**BY_NUMBER, "text_b_column": "1"},
            False,
            {"text_a": 0, "text_b": 1},
        ),
        # Numbers as before say nothing else of the header.
        (NUMBERED | {"header": True}, {"text_a_column": "2"}, True, {"text_a": 2}),
        (NUMBERED, {"text_a_column": "u"}, True, {"text_a": "u", "label": 1}),
        (NUMBERED, {"id_column": "2"}, False, {"text_a": 0, "label": 1}),
        (
            WORDS,
            {"file_format": "jsonl", "text_a_column": "w", "label_column": "t"},
            True,
            {"text_a": "w", "label": "t"},
        ),
    ],
)
def test_flags_describe_another_file_than_the_trained_one(
    values, flags, header, columns
):
    """What run.json says of its own files' header does not contradict them."""
    files = of_trained(values, **flags)
    form, names = files.columns.table
    assert form.header == header
    cells = {key: getattr(files.columns, key) for key in COLUMNS}
    own = {key: names[cell] for key, cell in cells.items() if cell is not None}
    assert columns.items() <= own.items()
    assert header or all(isinstance(name, int) for name in own.values())
    config = FinetuneConfig(trained_task=TrainedTask(RUN, values, {}), **flags)
    told = [line for line in registry.remarks(config, files) if "first line" in line]
    is_changed = values["header"] and not header and "header" not in flags
    assert len(told) == is_changed


def test_a_header_that_is_denied_is_missed():
    with pytest.raises(UserError, match="'text_a' is 't': without a header columns"):
        of_trained(NAMED, header=False)


def test_a_trained_rewriting_takes_another_target():
    values = {"name": "mine", "type": "rewrite", "text_a": "t", "label": "better"}
    files = of_trained(values, target_column="best")
    assert files.columns.table.columns[files.columns.label] == "best"


PLAIN = {"name": "mine", "text_a": 0, **DEFAULTS}


@pytest.mark.parametrize("values", [FULL, PLAIN, PLAIN | {"group": 2}])
def test_what_run_json_keeps_gives_the_same_task(values):
    assert task_json.values_of(of_trained(values)) == values


def test_a_built_in_task_is_kept_by_its_name():
    for name, task in BUILTIN.items():
        assert task_json.values_of(task) == {"name": name, **task.options}
        assert of_trained({"name": name}) is task


@pytest.mark.parametrize("name", ["/data/of/me/a.csv", "../a.csv"])
def test_run_json_keeps_no_path_of_this_machine(name):
    files = dataclasses.replace(of_trained(FULL), train=name)
    assert task_json.values_of(files)["train"] == "a.csv"


def test_another_name_than_the_trained_one():
    trained = TrainedTask(RUN, FULL, {})
    asked = FinetuneConfig(task_name="yours", trained_task=trained)
    with pytest.raises(UserError, match="the model was trained for 'mine'"):
        registry.find_task_files(asked)


@pytest.mark.parametrize(
    ("key", "meant"),
    [("text", "text_a"), ("sentence2", "text_b"), ("class", "label"), ("val", "dev")],
)
def test_names_of_other_programs_are_answered_with_ours(read, key, meant):
    with pytest.raises(UserError, match=f"unknown key '{key}': did you mean '{meant}'"):
        read({"text_a": 0, key: 1})


def test_a_key_of_another_type_may_be_meant_for_ours(read):
    message = "'target' is only for the type 'rewrite': did you mean 'label'?"
    with pytest.raises(UserError, match=re.escape(message)):
        read({"text_a": 0, "target": 1})


@pytest.mark.parametrize(("name", "near"), [("add", False), ("mrcp", True)])
def test_short_names_are_no_hint(name, near):
    with pytest.raises(UserError) as raised:
        registry.find_task_files(FinetuneConfig(task_name=name))
    assert ("did you mean" in str(raised.value)) == near
