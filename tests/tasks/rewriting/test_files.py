"""The keys of task.json of the type "rewrite"."""

import json

import pytest

from bert_mgpu.config import parsing
from bert_mgpu.config.finetuning import FinetuneConfig
from bert_mgpu.core.errors import UserError
from bert_mgpu.tasks import registry, task_json
from bert_mgpu.tasks.rewriting import files

VALUES = {"type": "rewrite", "train": "a.tsv", "text_a": 0, "target": 2}


def find(folder, values, **flags):
    if values is not None:
        (folder / "task.json").write_text(json.dumps(values))
    flags = {"task_name": "mine", "data_dir": folder, **flags}
    config, _ = parsing.parse(["", *parsing.arguments(flags)], "", FinetuneConfig)
    return registry.find_task_files(config)


def test_the_target_is_the_column_of_the_label(tmp_path):
    for values in (VALUES, {**VALUES, "label": 2}):
        task = find(tmp_path, values)
        table = task.columns.table
        assert table.columns[task.columns.label] == 2
        assert task.task_type == files.TYPE and not task.columns.nested
    by_flags = {"task_type": "rewrite", "text_a_column": 0, "target_column": 2}
    (tmp_path / "task.json").unlink()
    again = find(tmp_path, None, **by_flags, train_file="a.tsv")
    assert again.columns == task.columns
    assert find(tmp_path, {"type": "rewrite", "text_a": 0}).columns.label is None


def test_markers(tmp_path):
    assert files.marker_of(find(tmp_path, VALUES)) == "[SLOT]"
    own = {**VALUES, "slot_marker": "“"}
    assert files.marker_of(find(tmp_path, own)) == "“"
    assert files.marker_of(find(tmp_path, own, slot_marker=" _ ")) == " _ "


def test_a_task_comes_back_from_what_run_json_keeps(tmp_path):
    task = find(tmp_path, {**VALUES, "text_b": 1, "slot_marker": "_"})
    kept = task_json.values_of(task)
    assert kept["slot_marker"] == "_" and kept["label"] == 2
    again = find(tmp_path, {key: v for key, v in kept.items() if key != "name"})
    assert again == task


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"target": 0}, "'target' is the column 0, which is also an input text"),
        ({"target": 1, "text_b": 1}, "'target' is the column 1, which is also"),
        ({"target": None, "label": 0}, "'target' is the column 0"),
        ({"label": 1}, "'target' is 2, but 'label' is 1"),
        ({"slot_marker": "\u3000"}, "'slot_marker' is blank"),
    ],
)
def test_mistakes_name_the_file(tmp_path, changed, message):
    with pytest.raises(UserError) as found:
        find(tmp_path, {**VALUES, **changed})
    assert str(found.value).startswith(f"{tmp_path / 'task.json'}: {message}")
