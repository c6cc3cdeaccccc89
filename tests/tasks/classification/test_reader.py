"""What the cell of a label says: one label, several, or a number."""

import pytest

from bert_mgpu.tasks.classification.reader import number, read_label
from bert_mgpu.tasks.files import Columns, TaskFiles


def read(cell, task_type="single", labels=("no", "yes"), separator=",", **columns):
    values = Columns(text_a=1, label=0, **columns)
    files = {"train": "t", "dev": None, "test": None, "columns": values}
    task = TaskFiles("mine", labels, **files, task_type=task_type, separator=separator)
    return read_label(task, values, [cell, "a text"])


def test_one_label_is_one_of_the_tasks():
    assert read("yes") == "yes"
    with pytest.raises(ValueError, match=r"^label 'Yes' is not one of no, yes$"):
        read("Yes")
    assert read("YES ", clean_label=lambda cell: cell.lower().strip()) == "yes"


def test_every_label_is_taken_where_none_is_known():
    assert read("anything", labels=()) == "anything"
    for label, fault in (
        ("a\nb", "contains a line break"),
        ("a\0", "contains a NUL"),
        ("\ufeffa", "begins with a byte order mark"),
    ):
        with pytest.raises(ValueError, match=fault):
            read(label, labels=())


def test_labels_have_other_names_in_a_file_or_leave_the_row_out():
    relabel = {"0": "no", "2": "yes", "1": None}
    assert [read(cell, relabel=relabel) for cell in "021"] == ["no", "yes", None]
    with pytest.raises(ValueError, match="'3' is not one of 0, 2, 1, no, yes"):
        read("3", relabel=relabel)


@pytest.mark.parametrize("task_type", ["single", "multi"])
def test_a_label_is_not_compared_with_all_others(task_type):
    """With 5,000 labels, that took 85 us a row."""

    class Labels(tuple):
        def __contains__(self, label):
            pytest.fail("looks through all labels")

    assert read("yes", task_type, Labels(("no", "yes"))) in ("yes", ("yes",))


def test_of_many_labels_some_are_shown():
    labels = tuple(f"l{n}" for n in range(21))
    with pytest.raises(ValueError, match=r"is not one of l0, l1, l2, \.\.\., l20$"):
        read("x", labels=labels)
    with pytest.raises(ValueError, match="l18, l19$"):
        read("x", labels=labels[:20])


@pytest.mark.parametrize(
    ("cell", "separator", "wanted"),
    [
        ("yes", ",", ("yes",)),
        ("no, yes", ",", ("no", "yes")),
        ("yes,no,yes", ",", ("yes", "no")),  # once each, in their order
        ("yes|no", "|", ("yes", "no")),
        ("", ",", ()),
        (" , ", ",", ()),
        (["no", "yes"], ",", ("no", "yes")),  # of JSON
    ],
)
def test_several_labels(cell, separator, wanted):
    assert read(cell, "multi", separator=separator) == wanted


def test_each_of_several_labels_is_checked():
    with pytest.raises(ValueError, match="label 'maybe' is not one of"):
        read("yes,maybe", "multi")


@pytest.mark.parametrize(
    ("cell", "wanted"), [("1.5", 1.5), ("-2e3", -2000.0), (" 7 ", 7.0), ("3e38", 3e38)]
)
def test_a_number_is_one(cell, wanted):
    assert read(cell, "regression") == number(cell) == wanted


@pytest.mark.parametrize(
    "cell", ["", "no", "nan", "inf", "-inf", "3.5e38", "1,5", "1_5"]
)
def test_what_is_no_finite_number_of_float32(cell):
    with pytest.raises(ValueError, match="is not a number"):
        read(cell, "regression")


@pytest.mark.parametrize("task_type", ["single", "regression"])
def test_a_list_is_no_single_label(task_type):
    with pytest.raises(ValueError, match="a list"):
        read(["yes"], task_type)
