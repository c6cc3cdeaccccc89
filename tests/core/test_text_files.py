"""Lines, encodings and samples of text files."""

import bz2
import pathlib

import numpy as np
import pytest

from bert_mgpu.core import encodings, text_files
from bert_mgpu.core.errors import UserError
from bert_mgpu.core.files import STANDARD_INPUT
from bert_mgpu.core.rng.shuffles import sample_rows
from bert_mgpu.core.text_files import check_file, read_lines
from tests.support.standard_input import typed


def _lines(path: pathlib.Path, content: bytes) -> list[tuple[int, str]]:
    path.write_bytes(content)
    return list(read_lines(path))


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", []),
        (b"\n", [""]),
        (b"a\nb\n", ["a", "b"]),
        (b"a\n\nb", ["a", "", "b"]),
        (b"a\r\nb\r\n", ["a", "b"]),
        (b"a\rb\n", ["a\rb"]),
        (b"\xef\xbb\xbfa\nb", ["a", "b"]),
        ("a\u2028b\u2029c\x85d\x0be\x0cf\x1cg\n".encode(), None),
        (b'"\n"\t"\n', ['"', '"\t"']),
        (" 标题 \t\n".encode(), [" 标题 \t"]),
        ("a\ufeff\n\ufeffb\n".encode(), ["a\ufeff", "\ufeffb"]),
    ],
)
def test_lines_end_at_newline_only(tmp_path, content, expected):
    if expected is None:
        expected = [content.decode().removesuffix("\n")]
    lines = _lines(tmp_path / "file", content)
    assert lines == list(enumerate(expected, 1))


def test_reads_one_line_at_a_time(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"first\n" + b"\xff\n")
    lines = read_lines(path)
    assert next(lines) == (1, "first")
    with pytest.raises(UserError):
        next(lines)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            "ok\n类别\t标题\n".encode() + "中文\n".encode("gb18030"),
            ":3: not UTF-8 (byte 0xd6 at column 1): convert it, e.g. iconv -f"
            " GB18030 -t UTF-8, or, for a task of your own, pass --encoding=gb18030",
        ),
        ("类".encode() + b"\xff", ":1: not UTF-8 (byte 0xff at column 2)"),
        (b"ab\xe4\xb8\n", ":1: not UTF-8 (byte 0xe4 at column 3)"),
        ("标题\n".encode("utf-16"), "iconv -f UTF-16 -t UTF-8"),
        (b"PK\x03\x04\x14\0\n", ":1: a zip archive, such as a workbook of Excel"),
        (bz2.compress(b"a\n"), ":1: packed by bzip2: unpack it, or pack it by gzip"),
        (b"\x28\xb5\x2f\xfd\n", ":1: packed by zstd: unpack it, or pack it by gzip"),
        (b"a\nbc\0d\n", ":2: NUL byte at column 3"),
        ("title\n".encode("utf-16-le"), ":1: NUL byte at column 2"),
    ],
)
def test_what_is_not_text_is_named_with_its_line(tmp_path, content, message):
    path = tmp_path / "file"
    with pytest.raises(UserError) as error:
        _lines(path, content)
    assert str(error.value).startswith(str(path))
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_a_missing_file_names_its_neighbours(tmp_path):
    for name in ("Train.tsv", "dev.tsv", "notes.md"):
        (tmp_path / name).write_text("x")
    with pytest.raises(UserError, match=r"train\.tsv: no such file: .*Train"):
        list(read_lines(tmp_path / "train.tsv"))
    with pytest.raises(UserError, match="holds Train.tsv, dev.tsv, notes.md$"):
        check_file(tmp_path / "zzzzzzzz")
    with pytest.raises(UserError, match="no directory .*nowhere$"):
        check_file(tmp_path / "nowhere" / "train.tsv")
    with pytest.raises(UserError, match="is a directory"):
        list(read_lines(tmp_path))
    check_file(tmp_path / "dev.tsv")
    for i in range(9):
        (tmp_path / f"{i}.jpg").touch()
    with pytest.raises(UserError, match=r"holds Train\.tsv, \.\.\.$"):
        check_file(tmp_path / "train.tsv")


def test_a_sample_is_sorted_distinct_and_seeded():
    rows = sample_rows(10_000, 1_000, seed=7)
    assert rows.dtype == np.int64 and rows.shape == (1_000,)
    assert (np.diff(rows) > 0).all()
    assert rows[0] >= 0 and rows[-1] < 10_000
    np.testing.assert_array_equal(rows, sample_rows(10_000, 1_000, seed=7))
    assert (rows != sample_rows(10_000, 1_000, seed=8)).any()


def test_a_sample_covers_a_file_that_is_sorted_by_class():
    # 10 classes of 1,000 rows: of 1,000 rows drawn without replacement each
    # class has 100 expected, with a standard deviation of 9.
    per_class = np.bincount(sample_rows(10_000, 1_000, seed=42) // 1_000)
    assert per_class.min() > 50 and per_class.max() < 150


@pytest.mark.parametrize(("n_total", "n_keep"), [(5, 5), (5, 9), (0, 3)])
def test_a_sample_as_large_as_the_file_is_the_file(n_total, n_keep):
    assert sample_rows(n_total, n_keep, 1).tolist() == list(range(n_total))


@pytest.mark.parametrize(
    ("lines", "written", "read"),
    [
        (["plain", "味道不错"], "utf-8", "味道不错"),
        (["plain", "味道不错"], "gbk", "味道不错"),
        (["\ufeff味道"], "utf-8", "味道"),
        (["café", "不错"], "utf-8", "不错"),  # two bytes of it are GBK too
        (["联通", "好"], "gbk", "好"),  # valid UTF-8, of two bytes a character
    ],
)
def test_a_file_that_may_be_utf_8_shows_which_it_is(tmp_path, lines, written, read):
    path = tmp_path / "new.txt"
    path.write_bytes("\n".join(lines).encode(written))
    encoding = encodings.or_utf_8("gbk")
    assert [*text_files.read_lines(path, encoding)][-1] == (len(lines), read)


@pytest.mark.parametrize(
    ("usual", "lines", "written"),
    [
        ("gbk", ["plain", "café", "不错"], "utf-8"),
        ("latin-1", ["café à Genève", "5 €"], "utf-8"),
        ("windows-1252", ["Äpfel"], "utf-8"),
        ("windows-1252", ["Äpfel", "5 €"], "windows-1252"),
        ("gbk", ["联通", "好"], "gbk"),
    ],
)
def test_a_whole_file_is_read_in_one_encoding(tmp_path, usual, lines, written):
    path = tmp_path / "new.txt"
    path.write_bytes("\n".join(lines).encode(written))
    encoding = encodings.or_utf_8(usual)
    assert [text for _, text in read_lines(path, encoding)] == lines
    with typed(path):  # whose next line may not have come yet
        last = [text for _, text in read_lines(STANDARD_INPUT, encoding)][-1]
    assert last == lines[-1]


def test_a_long_line_is_looked_at_as_a_whole(tmp_path, monkeypatch):
    """As SQuAD's files may have: a part of it may end within a character."""
    path = tmp_path / "new.json"
    path.write_text("味道不错" * 9, encoding="utf-8")
    monkeypatch.setattr(text_files, "LONGEST_LINE", 10)
    found = read_lines(path, encodings.or_utf_8("gbk"), longest=1000)
    assert [*found] == [(1, "味道不错" * 9)]


def test_utf_8_is_no_other():
    assert encodings.or_utf_8("utf-8") == "utf-8"


def test_a_line_of_another_encoding_is_told_its_own(tmp_path):
    path = tmp_path / "new.txt"
    path.write_bytes("味道不错 ☃".encode())
    with pytest.raises(UserError, match="not euc-kr .*: pass --encoding=utf-8"):
        [*text_files.read_lines(path, "euc-kr")]
