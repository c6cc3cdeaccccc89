"""A task of one's own, by task.json, by flags, or by both."""

import json

import pytest

from bert_mgpu.config.finetuning import FinetuneConfig
from bert_mgpu.core.errors import UserError
from bert_mgpu.tasks import task_json
from bert_mgpu.tasks.registry import BUILTIN, TYPES


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
        ({"text_a": 0, "type": "other"}, "pass one of single, multi, regression"),
        ({"text_a": 0, "labels": ["1", "2"], "type": "regression"}, "are numbers"),
        ({"text_a": 0, "label_separator": ";"}, "only for the type 'multi'"),
        ({"text_a": 0, "train": "../x"}, "name a file inside data_dir"),
        ({"label": 0}, "'text_a' is missing"),
    ],
    ids=str,
)
def test_mistakes(read, values, fragment):
    with pytest.raises(UserError, match=fragment):
        read(values)
