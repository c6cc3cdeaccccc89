"""Rows without ids: each gets a name of its own."""

import json

import pytest

from bert_mgpu.core.rows import Example
from bert_mgpu.tasks import reader, row_names
from bert_mgpu.tasks.span_qa import files


def names(rows, split=None):
    """rows: pairs (guid, line)."""
    examples = [Example(guid, "sun", line=line) for guid, line in rows]
    return [one.guid for one in row_names.named(examples, split)]


@pytest.mark.parametrize(
    ("rows", "wanted"),
    [
        ([("", 2), ("", 3), ("", 7)], ["test-1", "test-2", "test-6"]),
        ([("", 1), ("", 1), ("", 1)], ["test-0", "test-1", "test-2"]),
        ([("a", 5), ("", 5), (7, 9), ("", 9)], ["a", "test-1", 7, "test-3"]),
        ([("test-0", 3), ("", 1), ("", 2)], ["test-0", "test-0_", "test-1"]),
        ([("test-1", 1), ("test-1_", 1), ("", 1)], ["test-1", "test-1_", "test-2"]),
        ([("test-2", 1), ("test-2_", 1), ("", 1)], ["test-2", "test-2_", "test-2__"]),
        ([("a", 1), ("", 2)], ["a", "test-1"]),
    ],
)
def test_each_row_has_a_name_of_its_own(rows, wanted):
    """By its line, or by its number where rows share a line; ids stay as they are."""
    assert names(rows) == wanted


def test_rows_with_labels_are_named_after_their_set():
    assert names([("", 3)], "dev") == ["dev-2"]


@pytest.mark.parametrize("indent", [None, 1])
def test_questions_of_nested_json(tmp_path, indent):
    """Of which none has an id, or one that is made up for another one."""
    own = [{"question": "who?"}, {"question": "who?", "id": "test-2"}]
    own += [{"question": "who?"}] * 48
    path = tmp_path / "new.json"
    value = {"data": [{"paragraphs": [{"context": "sun joy", "qas": own}]}]}
    path.write_text(json.dumps(value, indent=indent))
    found = reader.read_examples(
        files.BUILTIN["squad"], path, "dev", label=None, with_label=False
    )
    guids = [one.guid for one in found]
    assert len({*guids}) == 50
    assert guids[:4] == ["test-0", "test-2", "test-2_", "test-3"]
