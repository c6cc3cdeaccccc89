"""Rows of a file become examples: which ones count, and what is said of the others."""

import pytest

from bert_mgpu.core.errors import UserError
from bert_mgpu.data import tables
from bert_mgpu.tasks import reader, row_groups
from bert_mgpu.tasks.files import LAST, Columns, TableColumns, TaskFiles

TEXT = "yes\tsun\nno\train\n\nyes\tjoy\n"


def files_of(**columns):
    """A task whose files have a label and a text."""
    values = {"label": 0, "text_a": 1, **columns}
    return TaskFiles(
        "mine", ("no", "yes"), "t", dev="d", test="p", columns=Columns(**values)
    )


def label_of(task, columns, cells):
    """None leaves a row out."""
    if cells[columns.label] not in (*task.labels, "skip"):
        raise ValueError(f"label {cells[columns.label]!r} is unknown")
    return cells[columns.label] if cells[columns.label] != "skip" else None


@pytest.fixture
def read(tmp_path):
    """read(text, ...) -> (guid, text_a, text_b, label, line) of each example."""

    def call(text, split="train", with_label=True, how=reader.read_examples, **rest):
        path = tmp_path / "rows.tsv"
        path.write_text(text)
        values = {"label": label_of, "with_label": with_label}
        columns = {k: v for k, v in rest.items() if k in Columns.__dataclass_fields__}
        values |= {k: v for k, v in rest.items() if k not in columns}
        actual = how(files_of(**columns), str(path), split, **values)
        return [(e.guid, e.text_a, e.text_b, e.label, e.line) for e in actual]

    return call


def test_a_row_is_an_example_with_its_line(read):
    actual = read("yes\tsun\nno\train\n")
    assert actual == [
        ("train-0", "sun", None, "yes", 1),
        ("train-1", "rain", None, "no", 2),
    ]


@pytest.mark.parametrize("how", [reader.read_examples, reader.stream])
def test_a_blank_line_is_a_mistake_with_labels_and_an_empty_text_without(read, how):
    with pytest.raises(UserError, match=r"rows\.tsv:3: blank line: delete it"):
        read(TEXT, how=how)
    actual = read(TEXT, "test", with_label=False, how=how)
    assert [text for _, text, *_ in actual] == ["sun", "rain", "", "joy"]
    assert [line for *_, line in actual] == [1, 2, 3, 4]
    assert {row[3] for row in actual} == {None}


def test_a_header_is_no_row(read):
    actual = read("y\ttext\nyes\tsun\n", header=True)
    assert actual == [("train-1", "sun", None, "yes", 2)]


def test_a_label_may_leave_a_row_out_but_not_of_a_prediction(read):
    text = "skip\tsun\nno\train\n"
    assert [row[1] for row in read(text)] == ["rain"]
    assert [row[1] for row in read(text, "test", False)] == ["sun", "rain"]


def test_labels_are_not_looked_at_in_a_prediction(read):
    assert len(read("nonsense\tsun\n", "test", False)) == 1
    with pytest.raises(UserError, match=r"rows\.tsv:1: label 'nonsense' is unknown"):
        read("nonsense\tsun\n")


def test_all_faults_of_a_file_are_told(read, capfd):
    """The first ends the run; the next ones are in the log, up to twenty in all."""
    with pytest.raises(UserError) as caught:
        read("no\tsun\n" + "bad\train\n" * 30)
    first, shown = str(caught.value), capfd.readouterr().err.splitlines()
    assert first.endswith("rows.tsv:2: label 'bad' is unknown (the first of 30 faults,"
                          " see above)")  # fmt: skip
    assert [line.split(":")[1] for line in shown[:-1]] == [*map(str, range(3, 22))]
    assert shown[-1] == "and 10 more"
    with pytest.raises(UserError, match="unknown$"):
        read("no\tsun\nbad\train\n")
    assert capfd.readouterr().err == ""


def test_the_last_column_is_the_text_with_or_without_a_label_before_it(read):
    assert read("yes\tmore\tsun\n", text_a=LAST)[0][1] == "sun"
    assert read("sun\n", "test", False, text_a=LAST)[0][1] == "sun"
    with pytest.raises(
        UserError, match=r":1: 1 column, but the task mine needs column"
    ):
        read("sun\n", text_a=LAST)


def test_too_few_columns_are_told(read):
    with pytest.raises(UserError, match=r"rows\.tsv:2: 2 columns, .* needs column 2"):
        read("yes\tsun\tsea\nno\train\n", text_b=2)


def test_texts_are_cleaned_cut_in_two_or_left_out_by_language(read):
    assert read("yes\tSUN\tSea\n", text_b=2, clean=str.lower)[0][1:3] == ("sun", "sea")
    pair = lambda text: tuple(text.split(","))  # noqa: E731
    assert read("yes\tsun,sea\n", pair=pair)[0][1:3] == ("sun", "sea")
    text = "zh\tyes\tsun\nen\tno\train\n"
    columns = {"label": 1, "text_a": 2, "language": "zh"}
    for with_label in (True, False):
        actual = read(text, with_label=with_label, **columns)
        assert [row[1] for row in actual] == ["sun"]


def test_a_column_may_name_the_rows(read):
    assert read("yes\tsun\tn7\n", id=2)[0][0] == "n7"


def test_no_rows_are_a_mistake_but_of_a_stream(read):
    with pytest.raises(UserError, match="no rows for the task mine"):
        read("")
    assert read("", how=reader.stream) == []


def test_a_file_without_labels_cannot_be_evaluated_with(read):
    with pytest.raises(UserError, match="have no labels to evaluate with: .* of d"):
        read("sun\n", label=None, text_a=0)


def test_faults_are_gathered_where_they_are_asked_for(read):
    faults = []
    actual = read(
        "yes\tsun\nmaybe\train\nno\nno\tjoy\n",
        faults=lambda line, fault: faults.append(fault),
    )
    assert [row[1] for row in actual] == ["sun", "joy"]
    assert [fault.rpartition("rows.tsv:")[2].partition(":")[0] for fault in faults] == [
        "2",
        "3",
    ]


def test_a_sample_is_of_the_rows_that_count_in_their_order(read):
    text = "".join(f"{('skip', 'yes')[n % 2]}\tt{n}\n" for n in range(60))
    rows = read(text)
    actual = [row[4] for row in row_groups.sample(rows, 10, 3)]
    assert len(actual) == 10 and actual == sorted(actual)
    assert all(line % 2 == 0 for line in actual)
    assert actual != [row[4] for row in row_groups.sample(rows, 10, 4)]
    assert row_groups.sample(rows, 100, 0) == rows == row_groups.sample(rows, None, 0)


def test_words_are_a_text_of_one_column_alone():
    """Of a pair, a list is no text; the message names its column."""
    form = tables.TableFormat("jsonl")
    columns = Columns(0, nested=True, table=TableColumns(form, ("words",)))
    row = reader._parse(None, columns, [["sun", "joy"]], label=None)
    assert row.text_a == "sun joy" and row.words == [(0, 3), (4, 7)]
    names = "question", "context"
    pairs = Columns(0, text_b=1, nested=True, table=TableColumns(form, names))
    row = reader._parse(None, pairs, ["it", "sun"], label=None)
    assert row[1:3] == ("it", "sun") and row.words is None
    for cells, name in ((["it", ["a"]], "context"), ([["a"], "sun"], "question")):
        with pytest.raises(ValueError, match=rf"'{name}' is a list, \['a'\]: pass one"):
            reader._parse(None, pairs, cells, label=None)


def test_a_list_is_no_text():
    with pytest.raises(ValueError, match=r"a list, \['a'\], where one value is needed"):
        reader.one_value(["a"])
