"""Cells of table files, by format, and what is said of those that are no good."""

import datetime
import decimal
import gzip
import json
import lzma

import pytest

from bert_mgpu.core.errors import UserError
from bert_mgpu.data import tables
from bert_mgpu.data.tables import TableFormat, rows


def write(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def cells(path, columns, **form):
    return list(rows(path, TableFormat(**form), columns))


def test_tsv_takes_quotes_as_they_stand(tmp_path):
    path = write(tmp_path / "a.tsv", '"a\tb"\tc\r\nd\t\u2028e\tf\n\n')
    assert cells(path, [1, -1, None]) == [
        (1, ['b"', "c", None]),
        (2, ["\u2028e", "f", None]),
        (3, None),
    ]


@pytest.mark.parametrize("name", ["a.tsv", "a.csv"])
def test_columns_by_name_stand_anywhere(tmp_path, name):
    mark = "\t" if name.endswith("tsv") else ","
    text = "label,text,id\n1,你好,x\n0,,y\n".replace(",", mark)
    path = write(tmp_path / name, "\ufeff" + text)
    actual = cells(path, ["id", "text", "label", 0], header=True)
    assert actual == [(2, ["x", "你好", "1", "1"]), (3, ["y", "", "0", "0"])]


def test_csv_is_that_of_rfc_4180(tmp_path):
    text = 'a,"b, ""quoted""",c\r\n"two\r\nlines",x,y\r\n,,\r\n\r\nlast,1,2'
    path = write(tmp_path / "a.csv", text)
    assert cells(path, [0, 1]) == [
        (1, ["a", 'b, "quoted"']),
        (2, ["two\nlines", "x"]),
        (4, ["", ""]),
        (5, None),
        (6, ["last", "1"]),
    ]


def test_json_lines_hold_strings_numbers_and_lists(tmp_path):
    records = [
        {"t": "a\tb", "n": 3, "f": 0.5, "l": ["x", 1], "b": True, "more": None},
        {"l": [], "b": False, "f": -1, "n": 10**20, "t": ""},
    ]
    lines = [json.dumps(record) for record in records]
    path = write(tmp_path / "a.jsonl", "\n".join([lines[0], " ", lines[1]]))
    assert cells(path, ["t", "n", "f", "l", "b"]) == [
        (1, ["a\tb", "3", "0.5", ["x", "1"], "true"]),
        (2, None),
        (3, ["", "100000000000000000000", "-1", [], "false"]),
    ]


def test_parquet(tmp_path):
    pyarrow = pytest.importorskip("pyarrow", reason="an optional package")
    from pyarrow import parquet

    columns = {"text": ["a", "", "c"], "id": [7, 8, 9], "tags": [["x"], [], ["y", "z"]]}
    parquet.write_table(
        pyarrow.table(columns), tmp_path / "a.parquet", row_group_size=2
    )
    assert cells(tmp_path / "a.parquet", ["id", "text", None, "tags"]) == [
        (1, ["7", "a", None, ["x"]]),
        (2, ["8", "", None, []]),
        (3, ["9", "c", None, ["y", "z"]]),
    ]
    with pytest.raises(UserError, match="no column 'txt': did you mean 'text'"):
        cells(tmp_path / "a.parquet", ["txt"])
    with pytest.raises(UserError, match="column 0: its columns have names"):
        cells(tmp_path / "a.parquet", [0])
    with pytest.raises(UserError, match="not a Parquet file"):
        cells(write(tmp_path / "b.parquet", "PAR1 or not"), ["text"])


def test_a_column_of_parquet_has_a_name_of_its_own(tmp_path):
    """As in TSV and CSV: nobody could tell which one is read."""
    pyarrow = pytest.importorskip("pyarrow", reason="an optional package")
    from pyarrow import parquet

    path = tmp_path / "a.parquet"
    columns = [["a"], ["b"], ["c"]]
    parquet.write_table(pyarrow.table(columns, names=["text", "text", "y"]), path)
    with pytest.raises(UserError, match="a.parquet: 2 columns are called 'text'$"):
        cells(path, ["text", "y"])
    assert cells(path, ["y"]) == [(1, ["c"])]


def test_times_that_python_cannot_hold_are_told(tmp_path):
    pyarrow = pytest.importorskip("pyarrow", reason="an optional package")
    from pyarrow import parquet

    times = pyarrow.array([1], pyarrow.timestamp("ns"))
    path = tmp_path / "a.parquet"
    parquet.write_table(pyarrow.table({"at": times}), path)
    with pytest.raises(UserError, match=f"^{path}: not a Parquet file: "):
        cells(path, ["at"])


def test_decimals_and_dates_of_parquet_are_texts(tmp_path):
    pyarrow = pytest.importorskip("pyarrow", reason="an optional package")
    from pyarrow import parquet

    day, noon = datetime.date(2020, 1, 31), datetime.datetime(2020, 1, 31, 12, 30)
    columns = {
        "price": [decimal.Decimal("1.50"), decimal.Decimal("-20.00")],
        "day": [day, day],
        "at": [noon, noon],
        "days": [[day], []],
        "raw": [b"x", b"y"],
    }
    path = tmp_path / "a.parquet"
    parquet.write_table(pyarrow.table(columns), path)
    assert cells(path, ["price", "day", "at", "days"]) == [
        (1, ["1.50", "2020-01-31", "2020-01-31T12:30:00", ["2020-01-31"]]),
        (2, ["-20.00", "2020-01-31", "2020-01-31T12:30:00", []]),
    ]
    wrong = """:1: column 'raw' is "b'x'" of type bytes: pass a string, a number"""
    with pytest.raises(UserError, match=wrong):
        cells(path, ["raw"])


@pytest.mark.parametrize(
    ("encoding", "codec"),
    [("gbk", "gbk"), ("gb18030", "gb18030"), ("big5", "big5"), ("shift_jis", "cp932")],
)
def test_other_encodings(tmp_path, encoding, codec):
    path = write(tmp_path / "a.tsv", "中文\t一\n二\t三\n".encode(codec))
    actual = cells(path, [0, 1], encoding=encoding)
    assert actual == [(1, ["中文", "一"]), (2, ["二", "三"])]
    if encoding != "gb18030":
        return
    marked = write(tmp_path / "b.tsv", "\ufeff中\t一\n".encode(codec))
    assert cells(marked, [0], encoding=encoding) == [(1, ["中"])]
    bad = write(tmp_path / "c.tsv", "中\t一\n".encode(codec) + b"\xff\n")
    with pytest.raises(
        UserError, match=r"c.tsv:2: not gb18030 \(byte 0xff at column 1"
    ):
        cells(bad, [0], encoding=encoding)


@pytest.mark.parametrize(("suffix", "packer"), [("gz", gzip), ("xz", lzma)])
def test_packed_files_have_the_format_of_what_is_in_them(tmp_path, suffix, packer):
    packed = packer.compress(b'{"t": "a"}\n{"t": "b"}\n' * 1000)
    path = write(tmp_path / f"a.jsonl.{suffix}", packed)
    assert cells(path, ["t"])[:2] == [(1, ["a"]), (2, ["b"])]
    for bad in (packed[:-20], packed[:30] + b"xx" + packed[32:], b"no gzip"):
        with pytest.raises(
            UserError, match="damaged or cut after line .*: copy or compress it again"
        ):
            cells(write(tmp_path / f"b.jsonl.{suffix}", bad), ["t"])


@pytest.mark.parametrize(
    ("name", "text", "columns", "header", "said"),
    [
        ("a.tsv", "a\tb\nc\n", [1], False, ":2: 1 column, but column 1"),
        ("a.csv", "a,b\nc,d,e\n", [2], False, ":1: 2 columns, but column 2"),
        ("a.csv", 'a\n"b" c\n', [0], False, ":2: .*not a row of CSV"),
        ("a.csv", 'a\n"b\nc\nd\n', [0], False, ":2: .*not a row of CSV"),
        ("a.csv", "text,label\na,b\n", ["txt"], True, ":1: no column 'txt': did you"),
        ("a.tsv", "a\ta\nb\tc\n", ["a"], True, ":1: 2 columns are called 'a'"),
        ("a.csv", "a;b\nc;d\n", ["a"], True, "by tabs, instead of semicolons"),
        ("a.jsonl", '{"t": 1}\n[1]\n', ["t"], False, ":2: not a JSON object"),
        ("a.jsonl", '{"t": 1}\n{"t": \n', ["t"], False, ":2: not a JSON object"),
        ("a.jsonl", "[" * 99_999, ["t"], False, ":1: not a JSON object"),
        ("a.jsonl", '{"text": "a"}\n', ["texts"], False, ":1: no column 'texts': did"),
        ("a.jsonl", '{"t": null}\n', ["t"], False, ":1: column 't' is null: pass a"),
        ("a.jsonl", '{"t": {"a": 1}}\n', ["t"], False, ":1: column 't' is .*: pass a"),
        ("a.jsonl", '{"t": [null]}\n', ["t"], False, ":1: column 't' is null"),
        ("a.jsonl", '{"t": [["a"]]}\n', ["t"], False, ":1: column 't' is a list of li"),
        ("a.jsonl", '{"t": %s}' % ("[" * 900 + "]" * 900), ["t"], False, ":1: column"),
        (
            "a.jsonl",
            '{"t": "\\ud83d"}\n',
            ["t"],
            False,
            ":1: column 't' contains an unpaired surrogate",
        ),
        ("a.tsv", "text\n", [0, -1], False, ":1: 1 column, but column 1"),
        ("a.csv", "t,l\ngood, but,x\n", ["t", "l"], True, ":2: 3 cells, the header ha"),
        ("a.tsv", "t\tl\na \t b\tx\n", ["t", "l"], True, ":2: 3 cells, the header ha"),
        ("a.jsonl", '{"t": NaN}\n', ["t"], False, ":1: column 't' is 'nan'"),
        ("a.jsonl", '{"t": ' + "9" * 9999 + "}", ["t"], False, ":1: not a JSON object"),
        ("a.jsonl", '{"t": 1, "t": 2}\n', ["t"], False, ":1: .*'t' appears 2 times"),
        ("a.jsonl", '{"t": 1}\n', [0], False, "column 0: its columns have names"),
    ],
)
def test_a_mistake_is_one_line_with_its_place(
    tmp_path, name, text, columns, header, said
):
    path = write(tmp_path / name, text)
    with pytest.raises(
        UserError, match=f"^{path}{said}" if said[0] == ":" else said
    ) as e:
        cells(path, columns, header=header)
    assert "\n" not in str(e.value)


@pytest.mark.parametrize(("name", "tab"), [("a.tsv", "\t"), ("a.csv", ",")])
def test_cells_beyond_the_header_may_be_empty(tmp_path, name, tab):
    """As spreadsheets write them."""
    path = write(tmp_path / name, f"t{tab}l\na{tab}b{tab}{tab} \n")
    assert cells(path, ["t", "l"], header=True) == [(2, ["a", "b"])]
    assert cells(path, [0, 1]) == [(1, ["t", "l"]), (2, ["a", "b"])]


@pytest.mark.parametrize(("name", "tab"), [("a.tsv", "\t"), ("a.csv", ",")])
@pytest.mark.parametrize("columns", [[0, 1], [0, -1], [1]])
def test_without_a_header_the_first_row_says_how_many_cells_there_are(
    tmp_path, name, tab, columns
):
    """`good, but not very good,no` would become "good", with the label "no"."""
    path = write(tmp_path / name, f"t{tab}l\na{tab}b{tab}c\n")
    with pytest.raises(UserError, match=":2: 3 cells, the first row has 2: "):
        cells(path, columns)


@pytest.mark.parametrize(("name", "tab"), [("a.tsv", "\t"), ("a.csv", ",")])
@pytest.mark.parametrize("header", [False, True])
def test_a_short_row_has_other_columns_from_the_end(tmp_path, name, tab, header):
    path = write(tmp_path / name, f"t{tab}s{tab}l\na{tab}b\n")
    wanted = [(1, ["t", "s"])] * (not header) + [(2, ["a", "b"])]
    assert cells(path, [0, 1], header=header) == wanted
    of = "the header" if header else "the first row"
    said = f":2: 2 cells, {of} has 3: so column -1, from the end, is another one"
    with pytest.raises(UserError, match=said):
        cells(path, [0, -1], header=header)


@pytest.mark.parametrize(
    ("text", "wanted", "bad"),
    [
        ('a\n"b\nc\nd\n', {1: "a", 3: "c", 4: "d"}, [2]),
        ('"a\n"b\nc\n', {3: "c"}, [1, 2]),
        ('a\n"b" x\n"c\nd"\ne\n', {1: "a", 3: "c\nd", 5: "e"}, [2]),
        ('"a" x\n\n"b"\n', {2: None, 3: "b"}, [1]),
        ('"', {}, [1]),
    ],
)
def test_a_bad_row_of_csv_hides_no_other(tmp_path, text, wanted, bad):
    """The reading begins anew at the line after the first one of the bad row."""
    path, faults = write(tmp_path / "a.csv", text), []
    read = tables.rows(
        path,
        TableFormat(),
        [0],
        faults=lambda line, fault: faults.append((line, fault)),
    )
    assert {line: cells and cells[0] for line, cells in read} == wanted
    assert [line for line, _ in faults] == bad
    for line, fault in faults:
        assert fault.startswith(f"{path}:{line}: ") and "not a row of CSV" in fault


def test_too_many_bad_rows_of_several_lines_end_it(tmp_path):
    """Each might read the whole file once more."""
    path, faults = write(tmp_path / "a.csv", '"a\n' * 100), []
    [*tables.rows(path, TableFormat(), [0], faults=lambda *one: faults.append(one))]
    assert [line for line, _ in faults] == [*range(1, 22)]
    assert faults[-1][1].endswith("; more than 20 such rows: the rest is not read")
    assert not any("the rest" in fault for _, fault in faults[:-1])


def test_bad_rows_of_one_line_are_as_many_as_there_are(tmp_path):
    path, faults = write(tmp_path / "a.csv", '"a" b 3,x\n' * 100 + "good,x\n"), []
    read = tables.rows(path, TableFormat(), [0], faults=lambda *one: faults.append(one))
    assert [*read] == [(101, ["good"])] and len(faults) == 100


def test_in_a_stream_a_row_is_one_line():
    """The next line is not even asked for."""
    asked, faults = [], []

    def lines():
        for number, line in enumerate(['"a, b",1', '"open,1', "", 'c"d,2', "e,3"], 1):
            asked.append(number)
            yield number, line

    read = tables.rows(
        "-",
        TableFormat("csv"),
        [0],
        lines=lines(),
        faults=lambda line, fault: faults.append((line, fault, len(asked))),
    )
    assert next(read) == (1, ["a, b"]) and asked == [1]
    assert next(read) == (3, None) and asked == [1, 2, 3]
    ((line, fault, seen),) = faults
    assert (line, seen) == (2, 2)
    assert fault.startswith("-:2: a quote is not closed on its line: not a row of CSV")
    assert [*read] == [(4, ['c"d']), (5, ["e"])]


def test_in_a_stream_an_object_is_one_line():
    lines, faults = ['{"a": "1"}', "{", '{"a": "2"}', "[", "]", '{"a": "3"}'], []
    read = tables.rows(
        "-",
        TableFormat("jsonl"),
        ["a"],
        lines=enumerate(lines, 1),
        faults=lambda *fault: faults.append(fault),
    )
    assert [*read] == [(1, ["1"]), (3, ["2"]), (6, ["3"])]
    assert [line for line, _ in faults] == [2, 4, 5]
    ends = "write each object on a line of its own"
    assert all(text.endswith(ends) for _, text in faults)


def test_numbers_stay_numbers_in_one_column(tmp_path):
    lines = '{"i": 16, "t": 3}\n{"i": "16", "t": "a"}\n{"i": true, "t": 1.5}\n'
    path = write(tmp_path / "a.jsonl", lines)
    read = tables.rows(path, TableFormat(), ["i", "t"], id_at=0)
    assert [cells for _, cells in read] == [[16, "3"], ["16", "a"], ["true", "1.5"]]
