"""The format of a file to predict, by its name or by its first line."""

import dataclasses
import gzip
import json

import pytest

from bert_mgpu.core.errors import UserError
from bert_mgpu.tasks import predict_format, reader
from tests.support.predict_formats import found, task_of

OBJECT = '{"text_a": "sun, joy", "text_b": "rain"}'
NAMED = '{"body": "sun, joy"}'
TABS, BARE = "0\tsun\train", "sun, joy"
# The names of the task's files tell their format.
CSV, PARQUET = {"train_file": "a.csv"}, {"train_file": "a.parquet"}
# Flags of the task, the first line, the format that it is taken for; None: rows.
FIRST_LINES = [
    ({"text_a_column": "1"}, TABS, None),
    ({"text_a_column": "1"}, BARE, "text"),
    ({"text_a_column": "1"}, OBJECT, "jsonl"),
    ({"text_a_column": "1"}, "{not JSON", "text"),
    ({"text_a_column": "1"}, "[1, 2]", "text"),
    ({"text_a_column": "1"}, "", None),  # a row without a text
    ({"text_a_column": "0"}, BARE, None),  # the same either way
    ({"text_a_column": "-1"}, BARE, None),
    ({"text_a_column": "0"}, OBJECT, "jsonl"),
    ({"text_a_column": "-1"}, OBJECT, "jsonl"),
    ({"text_a_column": "0", "text_b_column": "1"}, BARE, "text"),
    ({"text_a_column": "1", "file_format": "csv"}, BARE, None),
    ({"text_a_column": "2", "file_format": "csv"}, BARE, "text"),
    ({"text_a_column": "0", "file_format": "csv"}, '"sun, joy"', None),
    ({"text_a_column": "0", "file_format": "csv"}, '"sun", "joy', None),
    ({"text_a_column": "0", "file_format": "csv"}, "sun", "text"),
    ({"text_a_column": "1", "file_format": "csv"}, '"open,sun', None),
    ({"text_a_column": "-1", "label_column": "2", "file_format": "csv"}, BARE, None),
    ({"text_a_column": "0", "id_column": "2", "file_format": "csv"}, BARE, "text"),
    ({"text_a_column": "body", "file_format": "csv"}, "id,body", None),
    ({"text_a_column": "body", "file_format": "csv"}, "Arsenal won, again", "text"),
    ({"text_a_column": "a", "text_b_column": "b", "file_format": "csv"}, "a,c", "text"),
    (
        {"text_a_column": "body", "id_column": "id", "file_format": "csv"},
        "y,body",
        None,
    ),  # whose header is then refused
    ({"text_a_column": "1", "file_format": "csv"}, "sun", "text"),
    ({"text_a_column": "1", "file_format": "csv"}, OBJECT, "jsonl"),
    ({"text_a_column": "body", **CSV}, "id,body", None),
    ({"text_a_column": "body", **CSV}, "Arsenal won, again", "text"),
    ({"text_a_column": "1", **CSV}, BARE, None),
    ({"text_a_column": "1", "text_b_column": "0", **CSV}, "sun\tjoy", "text"),
    ({"text_a_column": "a", "text_b_column": "b", **CSV}, "sun\tjoy", "text"),
    ({"text_a_column": "body", "train_file": "a.jsonl"}, NAMED, None),
    ({"text_a_column": "body", "train_file": "a.jsonl"}, '{"text": "sun"}', "jsonl"),
    ({"text_a_column": "a", "text_b_column": "b", **PARQUET}, "sun\tjoy", "text"),
    ({"text_a_column": "body"}, "body", None),
    ({"text_a_column": "body"}, "bodies", "text"),
    ({"text_a_column": "body"}, "y\tbodies", None),  # whose header is then refused
    ({"text_a_column": "body", "file_format": "jsonl"}, NAMED, None),
    ({"text_a_column": "body", "file_format": "jsonl"}, BARE, "text"),
    ({"text_a_column": "body", "file_format": "jsonl"}, OBJECT, "jsonl"),
    ({"text_a_column": "body", "file_format": "parquet"}, NAMED, "jsonl"),
    ({"text_a_column": "body", "file_format": "parquet"}, BARE, "text"),
    ({"task_name": "mrpc"}, BARE, "text"),
    ({"task_name": "mrpc"}, "0\t1\t2\tsun\train", None),
    ({"task_name": "high_level"}, "sun joy", "text"),
    ({"task_name": "sentiment"}, '{"comment": "sun joy"}', None),
    ({"task_name": "sentiment"}, "sun joy", "text"),
    ({"task_name": "title_audit"}, "sun joy", None),  # its last cell is the text
    ({"task_name": "title_audit"}, OBJECT, "jsonl"),
]


def texts(task, path, columns):
    read = reader.stream(
        task, path, "test", label=None, with_label=False, columns=columns
    )
    return [(example.text_a, example.text_b) for example in read]


@pytest.mark.parametrize(("flags", "line", "kind"), FIRST_LINES)
def test_the_first_line_decides_of_txt(tmp_path, flags, line, kind):
    path = tmp_path / "new.txt"
    path.write_text(f"{line}\n")
    task, chosen = found(path, flags)
    own = task.columns_of("test")
    if name := flags.get("train_file"):
        form = own.table.form._replace(format=own.table.form.format_of(name))
        own = dataclasses.replace(own, table=own.table._replace(form=form))
    if kind is None:
        assert chosen.columns == own
        said = f"{path}: rows as the task's own files have them"
        assert (chosen.note or "").startswith(said if line else "")
    else:
        assert chosen.note.endswith(f"(--predict_format={kind})")
    if kind == "text":
        assert chosen.columns == predict_format.with_format(
            task, task.columns_of("test"), kind
        )


@pytest.mark.parametrize(
    ("line", "kind"),
    [("no,sun", None), ("sun", "text"), ("no,sun,1", None), ("a, b, c, d", "text")],
)
def test_a_row_of_csv_is_no_wider_than_the_own_ones(tmp_path, line, kind):
    (tmp_path / "train.csv").write_text('no,"sun,\njoy",1\n')
    flags = {"text_a_column": "1", "file_format": "csv", "train_file": "train.csv"}
    path = tmp_path / "new.txt"
    path.write_text(f"{line}\n")
    _, chosen = found(path, flags, data_dir=tmp_path)
    assert (f"(--predict_format={kind})" in chosen.note) == (kind is not None)
    assert "(--predict_format=" not in found(path, flags)[1].note or line == "sun"
    for unreadable in (b"\xff", b'"open', b"", b"no\tsun"):  # then nothing is known
        (tmp_path / "train.csv").write_bytes(unreadable)
        chosen = found(path, flags, data_dir=tmp_path)[1]
        assert "(--predict_format=" not in chosen.note or line == "sun"


@pytest.mark.parametrize(
    ("flags", "content", "wanted"),
    [
        ({"text_a_column": "1"}, "\n \nsun joy\n", ["", "", "sun joy"]),
        ({"text_a_column": "1"}, "\n0\tsun\n", ["", "sun"]),
        ({"text_a_column": "1"}, f"\n{OBJECT}\n", ["", "sun, joy"]),
        ({"text_a_column": "1"}, "\n\n", ["", ""]),
    ],
)
def test_blank_lines_before_the_first_decide_nothing(tmp_path, flags, content, wanted):
    path = tmp_path / "new.txt"
    path.write_text(content)
    task, chosen = found(path, flags)
    lines = chosen.lines
    for given in (lines, None):  # those that were read, and the file from its start
        read = reader.stream(
            task, path, "test", label=None, with_label=False,
            columns=chosen.columns, lines=given,
        )  # fmt: skip
        assert [(e.line, e.text_a) for e in read] == [*enumerate(wanted, 1)]


@pytest.mark.parametrize("asked", [None, "jsonl"])
@pytest.mark.parametrize(
    ("flags", "line", "wanted"),
    [
        ({"text_a_column": "body"}, NAMED, ("sun, joy", None)),
        ({"text_a_column": "body"}, OBJECT, ("sun, joy", None)),
        ({"text_a_column": "a", "text_b_column": "b"}, OBJECT, ("sun, joy", "rain")),
        ({"text_a_column": "a", "text_b_column": "b"}, '{"b": "x", "a": "y"}',
         ("y", "x")),
        ({"text_a_column": "a", "file_format": "jsonl"}, OBJECT, ("sun, joy", None)),
        ({"text_a_column": "a", "file_format": "csv"}, OBJECT, ("sun, joy", None)),
    ],
)  # fmt: skip
def test_objects_have_the_names_of_the_task_or_ours(
    tmp_path, flags, line, wanted, asked
):
    path = tmp_path / "new.txt"
    path.write_text(f"{line}\n")
    task, chosen = found(path, flags, asked)
    assert texts(task, path, chosen.columns) == [wanted]
    with_id = {**flags, "id_column": "id"}
    numbered = line.replace("{", '{"id": 7, ', 1)
    for lines, ids in (([line], [""]), ([line, numbered], ["", 7]), ([numbered], [7])):
        path.write_text("".join(f"{one}\n" for one in lines))
        task, chosen = found(path, with_id, asked)
        read = reader.stream(
            task, path, "test", label=None, with_label=False, columns=chosen.columns
        )
        rows = [(e.guid, e.text_a, e.text_b) for e in read]
        assert rows == [(own, *wanted) for own in ids]


def test_a_pair_on_one_line_has_a_tab(tmp_path):
    path = tmp_path / "new.any"
    path.write_text("sun\train\nsun\n\nsun\t\n")
    for flags in (PAIR, {"task_name": "mrpc"}):
        task, chosen = found(path, flags, "text")
        with pytest.raises(UserError, match=":2: 'sun' is one text, .* by a tab$"):
            texts(task, path, chosen.columns)


@pytest.mark.parametrize("name", ["new.tsv", "new.csv.gz", "new"])
def test_other_names_decide_by_themselves(tmp_path, name):
    """The file is not even opened."""
    task, chosen = found(tmp_path / name, {"text_a_column": "1"})
    assert chosen.columns == task.columns_of("test") and chosen.lines is None


@pytest.mark.parametrize(
    "flags",
    [
        {"text_a_column": "0"},
        {"text_a_column": "1", "file_format": "csv"},
        {"text_a_column": "body", "file_format": "csv"},
        {"text_a_column": "body", "file_format": "jsonl"},
        {"text_a_column": "body", "file_format": "parquet"},
        {"task_name": "high_level"},
        {"task_name": "title_audit"},
    ],
)
def test_the_names_of_records_go_before_the_format_of_the_task(tmp_path, flags):
    pyarrow = pytest.importorskip("pyarrow", reason="an optional package")
    from pyarrow import parquet

    named = flags.get("text_a_column") == "body"
    key = "body" if named else "text_a"
    for name in ("new.jsonl", "new.json", "new.jsonl.gz", "new.parquet"):
        path = tmp_path / name
        row = {key: "sun, joy"}
        if name.endswith("parquet"):
            parquet.write_table(pyarrow.Table.from_pylist([row]), path)
        else:
            opened = gzip.open if name.endswith("gz") else open
            with opened(path, "wt") as file:
                file.write(json.dumps(row) + "\n")
        task, chosen = found(path, flags)
        assert texts(task, path, chosen.columns) == [("sun, joy", None)], name
    (tmp_path / "new.jsonl").write_text('{"comment": "abcd"}\n')  # rows of its own
    task, chosen = found(tmp_path / "new.jsonl", {"task_name": "sentiment"})
    assert texts(task, tmp_path / "new.jsonl", chosen.columns) == [("ab", "cd")]


PAIR = {"text_a_column": "2", "text_b_column": "1", "id_column": "0"}
READ = [
    ({"text_a_column": "1"}, "text", "sun\tjoy\n", [("sun\tjoy", None)]),
    (PAIR, "text", "sun\tjoy\train\n\nsun\t\n",
     [("sun", "joy\train"), ("", None), ("sun", "")]),
    (PAIR, "jsonl", f"{OBJECT}\n", [("sun, joy", "rain")]),
    (PAIR, "tsv", "7\tsun\tjoy\n", [("joy", "sun")]),
    (PAIR, "csv", '7,sun,"a,b"\n', [("a,b", "sun")]),
    ({"text_a_column": "body", "id_column": "1"}, "jsonl", f"{NAMED}\n",
     [("sun, joy", None)]),
    ({"task_type": "qa"}, "csv", 'id,context,question\n7,"a,b",sun\n',
     [("sun", "a,b")]),  # the first line has the names
    ({"task_type": "qa"}, "tsv", "question\tcontext\nsun\tjoy\n", [("sun", "joy")]),
    ({"task_name": "squad"}, "tsv", "question\tcontext\nsun\tjoy\n", [("sun", "joy")]),
    ({"text_a_column": "body", "file_format": "jsonl"}, "csv", "key,body\n7,sun\n",
     [("sun", None)]),
    ({"task_name": "mrpc"}, "jsonl", f"{OBJECT}\n", [("sun, joy", "rain")]),
    ({"task_name": "mrpc"}, "text", "sun\train\n", [("sun", "rain")]),
    ({"task_name": "high_level"}, "text", "Sun JOY\n", [("sun joy", None)]),
    ({"task_name": "high_level"}, "jsonl", '{"text_a": "Sun"}\n', [("sun", None)]),
    ({"task_name": "sentiment"}, "text", "abcd\n", [("ab", "cd")]),
    ({"task_name": "xnli"}, "text", "sun\train\n", [("sun", "rain")]),
]  # fmt: skip


@pytest.mark.parametrize(("flags", "kind", "content", "wanted"), READ)
def test_texts_of_each_format(tmp_path, flags, kind, content, wanted):
    path = tmp_path / "new.any"
    path.write_text(content)
    task, chosen = found(path, flags, kind)
    assert texts(task, path, chosen.columns) == wanted


def test_the_encoding_is_that_of_the_task(tmp_path):
    path = tmp_path / "new.txt"
    path.write_bytes("好 日子\n".encode("gbk"))
    task, chosen = found(path, {"text_a_column": "1", "encoding": "gbk"})
    assert texts(task, path, chosen.columns) == [("好 日子", None)]


@pytest.mark.parametrize("kind", ["csv"])
def test_a_built_in_task_has_no_csv(tmp_path, kind):
    with pytest.raises(UserError, match="mrpc is a built-in task, whose rows"):
        found(tmp_path / "new", {"task_name": "mrpc"}, kind)


def test_a_header_with_tabs_is_of_tsv(tmp_path):
    path = tmp_path / "new.txt"
    path.write_text("id\tbody\n1\tsun, joy\n")
    task, chosen = found(path, {"text_a_column": "body", **CSV})
    assert texts(task, path, chosen.columns) == [("sun, joy", None)]


def test_an_empty_file_is_no_table(tmp_path):
    path = tmp_path / "new.txt"
    path.write_text("\n")
    _, chosen = found(path, {"text_a_column": "body", **PARQUET})
    assert chosen.columns.table.form.format is None


def test_an_empty_file_has_no_rows(tmp_path):
    path = tmp_path / "new.txt"
    path.write_text("")
    task, chosen = found(path, {"text_a_column": "1"})
    assert texts(task, path, chosen.columns) == []


@pytest.mark.parametrize("form", ["tsv", "jsonl"])
def test_a_stream_has_no_groups(tmp_path, form):
    task = task_of({"text_a_column": "a", "group_column": "g", "file_format": form})
    path = str(tmp_path / f"x.{form}")
    found = predict_format.find_format(task, path, task.columns, asked=None)
    assert found.columns.group == 1 and found.columns.table.columns == ("a", "g")
    streams = predict_format.find_format(task, "-", task.columns, asked="jsonl")
    assert streams.columns.group is None
    assert streams.columns.table.columns == ("a",)


def test_objects_may_have_a_group(tmp_path):
    flags = {"text_a_column": "a", "group_column": "g", "file_format": "tsv"}
    objects = {
        '{"a": "sun", "g": 7}': ("sun", "7"),  # the names of the task
        '{"text_a": "sun", "g": "q"}': ("sun", "q"),
        '{"text_a": "sun", "group": "q"}': ("sun", None),  # another column
        '{"a": "sun", "g": ""}': ("sun", None),
    }
    for number, (line, wanted) in enumerate(objects.items()):
        path = tmp_path / f"{number}.jsonl"
        path.write_text(f"{line}\n")
        task, chosen = found(path, flags, asked="jsonl")
        (row,) = reader.stream(
            task, path, "test", label=None, with_label=False, columns=chosen.columns
        )
        assert (row.text_a, row.group) == wanted, line
