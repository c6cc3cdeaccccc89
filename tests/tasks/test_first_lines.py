"""The first lines of files to predict, where the task's own have words on lines."""

import contextlib
import gzip
import json

import pytest

from bert_mgpu.data.tables import TableFormat
from bert_mgpu.tasks import first_lines, predict_format
from bert_mgpu.tasks.files import Columns, TableColumns
from tests.support.standard_input import typed
from tests.tasks.test_predict_format import found, texts

OF_WORDS = {"task_type": "tags", "train_file": "train.txt", "label_column": "1",
            "labels": "LOC"}  # fmt: skip
INDENTED = '[\n {\n  "text": "sun, joy"\n }\n]\n'


@pytest.fixture
def standard_input():
    """standard_input(file): it comes from there, as long as the test runs."""
    with contextlib.ExitStack() as stack:
        yield lambda path: stack.enter_context(typed(path))


@pytest.mark.parametrize(
    ("name", "content", "kind"),
    [
        *((name, "a text\nsun\n", "text") for name in ("news", "a.tsv", "a.raw.gz")),
        ("news", "EU B-LOC NNP\nis O VBZ\n", None),
        ("news", INDENTED, "jsonl"),
        ("new.txt", INDENTED, "jsonl"),
        ("-", INDENTED, "jsonl"),
        ("-", '{\n{"text": "sun"}\n', "jsonl"),
        ("-", "{ is a brace\n", "text"),
    ],
)
def test_a_task_of_words_looks_at_the_lines_of_all_files(
    tmp_path, standard_input, name, content, kind
):
    path = tmp_path / ("piped" if name == "-" else name)
    data = content.encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    if name == "-":
        standard_input(path)
        path = name
    _, chosen = found(path, OF_WORDS)
    assert (f"(--predict_format={kind})" in chosen.note) == (kind is not None)
    lines = [line for _, line in chosen.lines]
    assert lines == content.splitlines()
    if kind == "jsonl" and name != "-":
        assert chosen.columns.table.columns == ("text",)


@pytest.mark.parametrize("line", ["{", "["])
def test_a_bracket_begins_the_objects_of_a_stream(line):
    columns = {
        kind: Columns(0, table=TableColumns(TableFormat(kind), ("a",)))
        for kind in ("jsonl", "tsv")
    }
    assert first_lines.kind_of(columns["jsonl"], line, 0) is None
    assert first_lines.kind_of(columns["tsv"], line, 0) == "jsonl"
    assert first_lines.kind_of(Columns(0), line, 0) == "jsonl"


def test_of_a_stream_one_line_is_read(tmp_path, standard_input, monkeypatch):
    """The next one may come much later."""
    path = tmp_path / "piped"
    path.write_text('{\n"text": "sun"\n')
    standard_input(path)
    asked = []

    def lines(*_):
        for number in (1, 2):
            asked.append(number)
            yield number, "{"

    monkeypatch.setattr(predict_format, "read_lines", lines)
    found("-", OF_WORDS)
    assert asked == [1]


def test_an_object_is_read_to_its_end():
    """The lines that this takes are not lost."""
    text = json.dumps({"text": "sun", "tags": [*range(200)]}, indent=1)
    lines = [*enumerate([*text.split("\n"), "{}"], 1)]
    read, rest = lines[:50], iter(lines[50:])
    assert first_lines.first_object(read, rest) == text
    assert [*read, *rest] == lines and len(read) == len(lines) - 1
    assert first_lines.first_object([(1, ""), (2, "sun")], iter([])) is None


@pytest.mark.parametrize("name", ["new.json", "new.jsonl"])
def test_an_object_on_several_lines_has_the_names_of_one_line(tmp_path, name):
    path = tmp_path / name
    path.write_text(INDENTED)
    task, chosen = found(path, OF_WORDS)
    assert texts(task, path, chosen.columns) == [("sun, joy", None)]


def test_the_file_of_words_is_not_looked_into(tmp_path):
    assert found(tmp_path / "new.conll", OF_WORDS)[1].lines is None
