"""Texts in terminal columns."""

import pytest

from bert_mgpu.core import terminal


@pytest.mark.parametrize(
    ("text", "columns"),
    [("abc", 3), ("中文", 4), ("ｅ", 2), ("e\u0301", 1), ("a\u200bb", 2), ("", 0)],
)
def test_width(text, columns):
    assert terminal.width(text) == columns


@pytest.mark.parametrize(
    ("text", "columns", "start", "end"),
    [
        ("abcdef", 6, "abcdef", "abcdef"),
        ("abcdef", 8, "abcdef  ", "abcdef"),
        ("abcdef", 5, "abc..", "..def"),
        ("中文字", 6, "中文字", "中文字"),
        ("中文字", 5, "中.. ", "..字"),
        ("a中文字", 6, "a中.. ", "..文字"),
    ],
)
def test_a_text_is_cut_at_its_end_or_its_front(text, columns, start, end):
    assert terminal.fit(text, columns) == start
    assert terminal.cut_front(text, columns) == end


def test_a_text_of_a_million_characters_is_cut():
    """In one pass: a pass for each character that is cut away would take days."""
    assert terminal.fit("a\u0301中" * 500_000, 10) == "a\u0301中a\u0301中a\u0301.. "


def test_lines_are_wrapped_at_blanks_alone():
    text = "ab 中文  cd\nefg longerword x"
    assert terminal.wrap(text, 7) == ["ab 中文", "cd efg", "longerword", "x"]
    assert terminal.wrap("") == []


def test_numbers_stand_below_each_other():
    lines = terminal.align([("", "a"), ("中", "10"), ("name", "7")], (4,)).splitlines()
    assert lines == ["       a", "中    10", "name   7"]


@pytest.mark.parametrize(("columns", "shown"), [(2, ".."), (1, "."), (0, ""), (-4, "")])
def test_where_there_is_no_room_the_text_is_cut_away(columns, shown):
    assert terminal.fit("name", columns) == shown


@pytest.mark.parametrize(
    ("sets", "columns", "tables"),
    [(5, 12, 1), (6, 12, 2), (7, 12, 2), (20, 12, 4), (4, 16, 1), (5, 16, 2)],
)
def test_a_table_of_many_columns_is_broken_into_several(sets, columns, tables):
    names = [f"set{number}" for number in range(sets)]
    lines = [["", *names], ["rows of the set", *map(str, range(sets))]]
    found = terminal.align(lines, [columns] * sets).split("\n\n")
    assert len(found) == tables
    headings, counts = zip(*(table.splitlines() for table in found), strict=True)
    assert " ".join(headings).split() == names
    assert all(line.startswith("rows of ") for line in counts)
    numbers = [word for word in " ".join(counts).split() if word.isdecimal()]
    assert numbers == [*map(str, range(sets))]
    assert all(len(line) <= 80 for line in (*headings, *counts))


def test_names_of_columns_never_run_together():
    """They are as wide as they must be, up to a bound, and CJK counts twice."""
    names = ["train", "reviews_may_2024", "评论二〇二四年", "very" * 9 + "_end"]
    lines = [["", *names], ["rows", "1", "22", "333", "4444"]]
    found = terminal.align(lines, [12] * 4).split("\n\n")
    heads = [head for table in found for head in table.splitlines()[0].split()]
    assert heads[:3] == names[:3] and len(heads) == 4
    assert heads[3].startswith("..") and heads[3].endswith("_end")
    for table in found:
        head, numbers = table.splitlines()
        assert terminal.width(head) == terminal.width(numbers) <= 80
    wide = terminal.align(
        [["", "a", "b"], ["c" * 38, "1", "2"]], [12] * 2, 40, least=24
    )
    assert wide.count("c" * 26 + "..") == 2
    narrow = terminal.align(lines, [12] * 4, 50)
    assert all(terminal.width(line) <= 50 for line in narrow.splitlines())


SECRET = "a\x1b]0;t\x07\u202eb\tc"


def test_texts_command_no_terminal():
    shown = "a\\u001b]0;t\\u0007\\u202eb\\u0009c"
    assert terminal.visible(SECRET) == shown
    assert terminal.visible("a\n\u200b 中", "\n") == "a\n\u200b 中"
    assert terminal.fit(SECRET, len(shown) + 1) == f"{shown} "
    assert terminal.cut_front(SECRET, 80) == shown
    table = terminal.align([["", SECRET], [SECRET, "1"]], [4])
    assert table.count(shown) == 2 and len(table.splitlines()) == 2


def test_what_is_aligned_fits_a_narrow_terminal(monkeypatch):
    for asked, columns in (("60", 60), ("200", 80), ("", 80)):
        monkeypatch.setenv("COLUMNS", asked)
        assert terminal.narrow(None) == columns


def test_a_number_stays_with_its_name():
    text = "dev: precision 0.9214  recall 0.9283  f1 0.9248"
    for columns in range(18, 47):
        lines = terminal.hanging(text, columns, 2)
        assert " ".join(lines).split() == text.split() and len(lines) > 1
        for pair in ("precision 0.9214", "recall 0.9283", "f1 0.9248"):
            assert any(pair in line for line in lines), columns


def test_what_stands_between_wide_gaps_stays_in_one_line():
    cells = ["step 10,000/20,000", "loss 0.1234", "87.8 ex/s", "1:02:03 left"]
    for columns in range(22, 60):
        lines = terminal.hanging("  ".join(cells), columns, 2)
        assert all(any(cell in line for line in lines) for cell in cells), columns
        assert all(len(line) <= columns for line in lines)
    # A cell that fits in no line is taken apart, after the name that it follows.
    first, *rest = terminal.hanging("name  a cell of many words", 14, 6)
    assert (first, rest) == ("name  a cell", ["      of many", "      words"])


def test_tables_fit_the_terminal_of_the_log(monkeypatch):
    lines = [["a name", "1"], ["x" * 90, "2"]]
    for columns in (60, 80, 200):
        monkeypatch.setenv("COLUMNS", str(columns))
        widths = {
            terminal.width(line) for line in terminal.align(lines, [9]).split("\n")
        }
        assert widths == {min(columns, 80)}


def test_a_percentage_stays_whole():
    text = "50 % have at most 3, 90 % 4, 95 % 4, 99 % 5, 100 % 5"
    for columns in range(10, 60):
        lines = terminal.hanging(text, columns, 2)
        assert "\n".join(lines).count(" %") == 5 and " ".join(lines).count("  ") < 9
        assert not any(line.lstrip().startswith("%") for line in lines), columns
