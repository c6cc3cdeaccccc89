"""Files to predict that lack the id column of training."""

import gzip
import json

import pytest

from bert_mgpu.core.errors import UserError
from bert_mgpu.tasks import reader
from tests.support.predict_formats import found

IDS = [
    ("jsonl", '{"body": "sun, joy"}\n', '{"body": "sun, joy", "key": "k7"}\n'),
    ("tsv", "other\tbody\nx\tsun, joy\n", "key\tbody\nk7\tsun, joy\n"),
    ("csv", 'other,body\nx,"sun, joy"\n', 'body,"key"\n"sun, joy",k7\n'),
]


@pytest.mark.parametrize(("form", "without", "with_id"), IDS)
@pytest.mark.parametrize("packed", [False, True])
def test_a_file_to_predict_may_lack_the_ids(tmp_path, form, without, with_id, packed):
    """They are only repeated in predictions.jsonl; the log says so."""
    flags = {"id_column": "key", "label_column": "class", "text_a_column": "body"}
    for content, guid in ((without, None), (with_id, "k7")):
        path = tmp_path / f"new.{form}{'.gz' * packed}"
        data = content.encode()
        path.write_bytes(gzip.compress(data) if packed else data)
        for asked in (None, form):
            task, chosen = found(path, flags | {"file_format": form}, asked=asked)
            (row,) = reader.stream(
                task, path, "test", label=None, with_label=False, columns=chosen.columns
            )
            assert row.text_a == "sun, joy"
            assert row.guid == (guid or "")
            # Of JSON objects each may lack it.
            assert (chosen.columns.id is None) == (guid is None and form != "jsonl")
            if guid is None and asked is None:
                note = f"{path}: no column 'key': rows have no id"
                if form == "jsonl":
                    note = f"{path}: rows without 'key' are named by line"
                assert chosen.note == note


@pytest.mark.parametrize("lines", [(1, 0), (0, 1), (1, 0, 1)])
@pytest.mark.parametrize("asked", [None, "jsonl"])
@pytest.mark.parametrize("task_type", ["single", "qa"])
def test_any_object_may_lack_its_id(tmp_path, lines, asked, task_type):
    """The first one decides nothing, neither for its own format nor for another."""
    path = tmp_path / "new.jsonl"
    rows = [{"body": "sun"}, {"body": "sun", "key": "k7"}]
    flags = {"id_column": "key", "text_a_column": "body", "file_format": "jsonl"}
    if task_type == "qa":
        flags = {"task_type": "qa"}
        rows = [{"question": "a", "context": "b"}]
        rows.append({**rows[0], "id": "k7"})
    path.write_text("".join(json.dumps(rows[one]) + "\n" for one in lines))
    for own in (flags, {**flags, "file_format": "tsv"}):
        if task_type == "qa" and own is not flags:
            continue
        task, chosen = found(path, own, asked=asked)
        read = reader.read_examples(
            task, path, "test", label=None, with_label=False, columns=chosen.columns
        )
        names = ["k7" if one else f"test-{line}" for line, one in enumerate(lines)]
        assert [row.guid for row in read] == names


@pytest.mark.parametrize(
    ("form", "content"),
    [("jsonl", '{"body": "sun", "set": "q"}\n'), ("csv", "body,set\nsun,q\n")],
)
def test_without_ids_other_columns_stay_where_they_are(tmp_path, form, content):
    path = tmp_path / f"new.{form}"
    path.write_text(content)
    flags = {"id_column": "key", "text_a_column": "body", "group_column": "set"}
    task, chosen = found(path, flags | {"file_format": form})
    (row,) = reader.stream(
        task, path, "test", label=None, with_label=False, columns=chosen.columns
    )
    assert (row.text_a, row.group) == ("sun", "q")


def test_an_absent_id_is_not_named_among_the_columns_there_are(tmp_path):
    path = tmp_path / "new.jsonl"
    path.write_text('{"set": "q"}\n')
    flags = {"id_column": "key", "text_a_column": "body", "file_format": "jsonl"}
    task, chosen = found(path, flags)
    with pytest.raises(UserError, match=r"no column 'body' \(there are 'set'\)"):
        reader.read_examples(
            task, path, "test", label=None, with_label=False, columns=chosen.columns
        )


def test_a_parquet_file_may_lack_the_ids(tmp_path):
    import pyarrow
    from pyarrow import parquet

    path = tmp_path / "new.parquet"
    flags = {"id_column": "key", "text_a_column": "body", "file_format": "parquet"}
    for columns, has in (
        ({"body": ["sun"]}, False),
        ({"body": [""], "key": [7]}, True),
    ):
        parquet.write_table(pyarrow.table(columns), path)
        _, chosen = found(path, flags)
        assert (chosen.columns.id is not None) == has


def test_ids_are_not_waived_where_the_file_cannot_be_read(tmp_path):
    """Whoever reads its rows says what is wrong."""
    flags = {"id_column": "key", "text_a_column": "body"}
    for form, content in (("jsonl", b"{"), ("csv", b"\xff\n"), ("parquet", b"PAR")):
        path = tmp_path / f"new.{form}"
        path.write_bytes(content)
        _, chosen = found(path, flags | {"file_format": form})
        assert chosen.columns.id is not None
