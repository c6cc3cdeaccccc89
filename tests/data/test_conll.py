"""The sentences of CoNLL files."""

import pytest

from bert_mgpu.core.errors import UserError
from bert_mgpu.data import conll, tables


def read(tmp_path, text, columns=(0, -1), faults=None):
    path = tmp_path / "a.conll"
    path.write_bytes(text.encode())
    return [*tables.rows(path, tables.TableFormat(), columns, faults=faults)]


FILES = {
    "blanks": ("EU  NNP B-ORG\nis VBZ O\n\n\n. . O\n", [1, 5]),
    "tabs": ("EU\tB-ORG\nis\tO\n\t\n.\tO", [1, 4]),
    "documents": ("-DOCSTART- -X- O\n\nEU B-ORG\nis O\n-DOCSTART- O\n. O\n", [3, 6]),
    "Windows": ("EU B-ORG \r\nis O\r\n\r\n. O\r\n", [1, 4]),
    "a mark": ("\ufeffEU B-ORG\nis O\n \n. O\n", [1, 4]),
}


@pytest.mark.parametrize("name", [*FILES])
def test_sentences(tmp_path, name):
    text, lines = FILES[name]
    wanted = [[["EU", "is"], ["B-ORG", "O"]], [["."], ["O"]]]
    assert read(tmp_path, text) == [*zip(lines, wanted, strict=True)]


def test_words_may_hold_what_is_no_blank(tmp_path):
    """With tabs a blank; an ideographic space and a line separator always."""
    assert read(tmp_path, "New York\tB-LOC\n")[0][1] == [["New York"], ["B-LOC"]]
    assert read(tmp_path, "\u3000 O\na\u2028b O\n")[0][1][0] == ["\u3000", "a\u2028b"]
    assert read(tmp_path, " O\n")[0][1] == [[""], ["O"]]  # an empty word
    assert read(tmp_path, "a\n\u3000\nb\n", [0])[0][1] == [["a", "\u3000", "b"]]


def test_blanks_around_cells_between_tabs_are_dropped(tmp_path):
    text = "New York \tB-LOC\n  is\tO \n \t O\n"
    wanted = [["New York", "is", ""], ["B-LOC", "O", "O"]]
    assert read(tmp_path, text) == [(1, wanted)]


def test_without_labels_only_the_words_are_read(tmp_path):
    assert read(tmp_path, "EU\nis\n\n.\n", [0, None]) == [
        (1, [["EU", "is"], None]),
        (4, [["."], None]),
    ]


def test_from_the_end_every_line_has_as_many_columns_as_the_first(tmp_path):
    """`New York B-LOC` is not the word "New"."""
    text = "EU B-ORG\nNew York B-LOC\n\n. O\n"
    found = []
    assert read(tmp_path, text, faults=lambda *fault: found.append(fault)) == [
        (4, [["."], ["O"]])
    ]
    ((line, fault),) = found
    assert line == 2 and fault.endswith("3 columns, but the first line has 2")
    assert read(tmp_path, text, [0, 1])[0][1][1] == ["B-ORG", "York"]


def test_lines_with_too_few_columns(tmp_path):
    """All of them, each at its own line; other sentences can be read."""
    faults = []
    text = "EU B-ORG\nis\n\n. O\n\nwell\nno O\nso\n"
    rows = read(tmp_path, text, faults=lambda line, fault: faults.append((line, fault)))
    assert rows == [(4, [["."], ["O"]])]
    assert [line for line, _ in faults] == [2, 6, 8]
    path = tmp_path / "a.conll"
    assert faults[0][1] == f"{path}:2: 1 column, but 2 are needed"
    with pytest.raises(UserError, match=r"a\.conll:2: 1 column, but 2 are needed"):
        read(tmp_path, text)
    with pytest.raises(UserError, match="column 'word': columns of a CoNLL file have"):
        read(tmp_path, text, ["word", -1])


@pytest.mark.parametrize(
    ("lines", "wanted"),
    [
        (["sun O", "joy B-A"], True),
        (["sun\tNN\tI-B", "joy\tNN\tO"], True),
        (["-DOCSTART- -X- O", "sun O"], True),
        (["-DOCSTART- -X- O"], True),  # the first line of a stream
        (["sun O", "joy rain win"], False),
        (["sun O", "joy O", "rain"], True),  # whose tag is missing
        (["sun O", "joy 0", "rain B-A"], True),  # a zero
        (["sun O", "joy B-MISC", "rain B-A"], True),  # a type of the file alone
        (["Take the S-Bahn", "EU rejects German call"], False),
        (["Take the S-Bahn"], False),  # it is no type of the model
        (["He has blood group O", "so do I"], False),
        (["sun", "joy"], False),
    ],
)
def test_words_with_their_tags_are_told_from_texts(lines, wanted):
    assert conll.are_rows(lines, {"A", "B"}) == wanted


def test_the_column_of_the_tags_tells_them_from_texts():
    lines = ["EU B-A NNP", "is O VBZ"]
    assert conll.are_rows(lines, {"A"}, 1) and not conll.are_rows(lines, {"A"})
