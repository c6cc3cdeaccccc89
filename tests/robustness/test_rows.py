"""Files of rows that are damaged or made to do harm: one line, and nothing changed."""

import gzip
import lzma

import pytest

from bert_mgpu.core import text_files
from bert_mgpu.tasks import reader, registry
from bert_mgpu.tasks.classification.reader import read_label
from tests.support.hostile_rows import (
    CUT,
    GOOD,
    NAMED,
    TSV,
    bomb,
    check,
    flipped,
    run_refused,
    write_own,
)

UTF_16 = "yes\tsun\nno\train\n"
LONG = text_files.LONGEST_LINE + 1
RAIN = (b"rain " * 200 + b"\n") * 20_000
CELL = b'"' + b"x" * 1020 + b'\n",'  # begins a row that goes on with the next one
DEEP = b"[" * 100_000 + b"]" * 100_000
JSON_GOOD = GOOD["jsonl"]

# name: (name of the train file, its bytes, what the error says)
TSV_FILES = {
    "utf-16": ("a.tsv", UTF_16.encode("utf-16"), "a.tsv:1: not UTF-8", "-f UTF-16"),
    "utf-16-le": ("a.tsv", UTF_16.encode("utf-16-le"), "a.tsv:1: NUL byte at column 2"),
    "utf-16-be": ("a.tsv", UTF_16.encode("utf-16-be"), "a.tsv:1: NUL byte at column 1"),
    "utf-32": ("a.tsv", UTF_16.encode("utf-32"), "a.tsv:1: not UTF-8"),
    "NUL": ("a.tsv", GOOD["tsv"] + b"no\tra\0in\n", "a.tsv:9: NUL byte at column 6"),
    "gb18030": ("a.tsv", GOOD["tsv"] + "no\t新闻\n".encode("gbk"), ":9: not UTF-8"),
    "overlong": ("a.tsv", GOOD["tsv"] + b"no\t\xc0\x80\n", ":9: not UTF-8 (byte 0xc0"),
    "surrogate": ("a.tsv", b"no\t\xed\xa0\x80\n", ":1: not UTF-8 (byte 0xed"),
    "cut character": ("a.tsv", GOOD["tsv"] + b"no\t\xe6\x96", ":9: not UTF-8"),
    "above U+10FFFF": ("a.tsv", b"no\t\xf4\x90\x80\x80\n", ":1: not UTF-8"),
    "empty": ("a.tsv", b"", "a.tsv: no rows"),
    "newlines": ("a.tsv", b"\n" * 9, "a.tsv:1: blank line"),
    "mark alone": ("a.tsv", b"\xef\xbb\xbf", "a.tsv:1: blank line"),
    "CR alone": ("a.tsv", b"yes\tsun\rno\train\r", "a.tsv:1: its lines end in CR"),
    "long line": ("a.tsv", b"no\t" + b"x" * LONG, "a.tsv:1: more than 16777216 bytes"),
    "a column less": ("a.tsv", GOOD["tsv"] + b"no\n", "a.tsv:9: 1 column"),
    "spaces for tabs": (
        "a.tsv",
        b"yes sun\n",
        "a.tsv:1: 1 column, but column 1 (counted from 0) is needed",
    ),
    "packed, no name": ("a.tsv", CUT, "a.tsv:1: packed by gzip: give the file a name"),
    "xz, no name": (
        "a.tsv",
        lzma.compress(b"a"),
        "a.tsv:1: packed by xz: give the",
    ),
    "packed twice": ("a.tsv.gz", gzip.compress(CUT), "a.tsv.gz:1: packed by gzip"),
    "not packed": ("a.tsv.gz", GOOD["tsv"], "a.tsv.gz: damaged or cut after line 0"),
    "packed, cut": ("a.tsv.gz", CUT[:-9], "a.tsv.gz: damaged or cut after line"),
    "packed, no end": ("a.tsv.gz", CUT[:12], "a.tsv.gz: damaged or cut after line 0"),
    "packed, garbage": (
        "a.tsv.gz",
        CUT + b"xy",
        "a.tsv.gz: damaged or cut after line 8",
    ),
    "packed, checksum": ("a.tsv.gz", flipped(CUT, [-7]), "damaged or cut after line 8"),
    "packed, length": ("a.tsv.gz", flipped(CUT, [-2]), "damaged or cut after line 8"),
    "packed, flags": (
        "a.tsv.gz",
        flipped(CUT, [3]),
        "a.tsv.gz: damaged or cut after line",
    ),
    "packed, method": (
        "a.tsv.gz",
        flipped(CUT, [2]),
        "a.tsv.gz: damaged or cut after line 0",
    ),
    "bomb": ("a.tsv.gz", bomb(), "a.tsv.gz:1: more than 16777216 bytes"),
    "bomb of rows": ("a.tsv.gz", bomb(2, b"no\ta\nx\n"), "a.tsv.gz:2: 1 column"),
}
CSV_FILES = {
    "open quote": ("a.csv", GOOD["csv"] + b'no,"rain\n' * 99, ":10: ", "not a row of"),
    "open at the end": ("a.csv", GOOD["csv"] + b'no,"rain\n', "a.csv:10: unexpected"),
    "quote within": ("a.csv", GOOD["csv"] + b'no,"ra"in"\n', "a.csv:10: "),
    "it swallows all": ("a.csv", b'y,t\nno,"' + RAIN, "a.csv:2: ", "not a row of CSV"),
    "a row without end": ("a.csv.gz", bomb(2, CELL), ":1: a row of more than"),
    "CR alone": ("a.csv", b"y,t\rno,sun\ryes,rain\r", "a.csv:1: its lines end in CR"),
    "name twice": ("a.csv", b"y,t,t\nno,a,b\n", "a.csv:1: 2 columns are called 't'"),
    "no such name": ("a.csv", b"Y,T\nno,a\n", "a.csv:1: no column 't'"),
    "a million names": ("a.csv", b"x" * 99 + b",b" * 10**6 + b"\n", "no column 't'"),
    "semicolons": ("a.csv", b"y;t\nno;a\n", "a.csv:1: no column 't'"),
    "header alone": ("a.csv", b"y,t\n", "a.csv: no rows"),
    "too many cells": ("a.csv", b"y,t\nno,a,b\n", "a.csv:2: 3 cells, the header has 2"),
    "too few cells": ("a.csv", b"y,t\nno\n", "a.csv:2: 1 column"),
    "NUL": ("a.csv", b"y,t\nno,a\0\n", "a.csv:2: NUL byte at column 5"),
    "utf-16": ("a.csv", "y,t\nno,a\n".encode("utf-16"), "a.csv:1: not UTF-8"),
}


def line(value, key="t"):
    """Good rows, then one with this as its text (JSON as it stands)."""
    return JSON_GOOD + b'{"y": "no", "%s": %s}\n' % (key.encode(), value)


JSON_FILES = {
    "deep": ("a.jsonl", line(DEEP), "a.jsonl:9: not a JSON object"),
    "deep, not asked for": ("a.jsonl", line(DEEP, "z"), "a.jsonl:9: not a JSON object"),
    "deep objects": ("a.jsonl", b'{"t":' * 99_999, "a.jsonl:1: not a JSON object"),
    "1e6 digits": ("a.jsonl", line(b"9" * 10**6), "a.jsonl:9: not a JSON object: Exc"),
    "1e999": ("a.jsonl", line(b"1e999"), "a.jsonl:9: column 't' is 'inf'"),
    "NaN": ("a.jsonl", line(b"NaN"), "a.jsonl:9: column 't' is 'nan'"),
    "Infinity": ("a.jsonl", line(b"-Infinity"), "a.jsonl:9: column 't' is '-inf'"),
    "key twice": ("a.jsonl", line(b'1, "t": 2'), ":9: not a JSON object: the key 't'"),
    "half a pair": (
        "a.jsonl",
        line(rb'"a\ud83d"'),
        "a.jsonl:9: column 't' contains an unpaired",
    ),
    "half in a list": ("a.jsonl", line(rb'["\udc00"]'), "a.jsonl:9: "),
    "list": ("a.jsonl", line(b'["a", "b"]'), "a.jsonl:9: column 't' is a list"),
    "null": ("a.jsonl", line(b"null"), "a.jsonl:9: column 't' is null"),
    "object": ("a.jsonl", line(b'{"a": 1}'), "a.jsonl:9: column 't' is"),
    "an array of rows": (
        "a.json",
        b'[{"y": "no", "t": "a"}]',
        "a.json:1: not a JSON o",
    ),
    "over many lines": (
        "a.json",
        b'{\n"y": "no",\n"t": "a"\n',
        "a.json:1: not a JSON o",
    ),
    "two on a line": ("a.jsonl", JSON_GOOD.replace(b"\n", b" "), ":1: not a JSON"),
    "a mark in the middle": ("a.jsonl", JSON_GOOD + b"\xef\xbb\xbf{}\n", ":9: not a"),
    "single quotes": ("a.jsonl", b"{'y': 'no', 't': 'a'}\n", "a.jsonl:1: not a JSON"),
    "cut": ("a.jsonl", JSON_GOOD[:-3], "a.jsonl:8: not a JSON object"),
    "other keys": ("a.jsonl", b'{"Y": "no", "T": "a"}\n', "a.jsonl:1: no column 't'"),
    "a million keys": (
        "a.jsonl",
        b"{%s}\n" % b",".join(b'"k%d":0' % i for i in range(10**6)),
        "a.jsonl:1: no column 't'",
    ),
    "line's end in a label": (
        "a.jsonl",
        b'{"y": "a\\nb", "t": "a"}',
        "contains a line",
    ),
    "text of 17 MB": (
        "a.jsonl",
        line(b'"%s"' % (b"a" * LONG)),
        ":9: more than 16777216",
    ),
    "utf-16": ("a.jsonl", "{}\n".encode("utf-16"), "a.jsonl:1: not UTF-8"),
    "CR alone": ("a.jsonl", JSON_GOOD.replace(b"\n", b"\r"), ":1: its lines end in CR"),
}
NUMBERS = {
    text: ("a.tsv", f"0.5\tsun\n{text}\train\n".encode(), "a.tsv:2: label ", "a number")
    for text in ("1e999", "nan", "-inf", "1e39", "", "0x10", "1,5", "9" * 10_000_000)
}


@pytest.mark.parametrize("file", TSV_FILES.values(), ids=TSV_FILES)
def test_tsv(tmp_path, tiny, inside, file):
    check(tmp_path, tiny, inside, file, TSV)


@pytest.mark.parametrize("file", CSV_FILES.values(), ids=CSV_FILES)
def test_csv(tmp_path, tiny, inside, file):
    check(tmp_path, tiny, inside, file, NAMED)


@pytest.mark.parametrize("file", JSON_FILES.values(), ids=JSON_FILES)
def test_json_lines(tmp_path, tiny, inside, file):
    check(tmp_path, tiny, inside, file, NAMED)


@pytest.mark.parametrize("file", NUMBERS.values(), ids=lambda file: repr(file[1][8:20]))
def test_labels_that_are_no_numbers(tmp_path, tiny, inside, file):
    check(tmp_path, tiny, inside, file, TSV, type="regression")


@pytest.mark.parametrize(
    ("name", "content", "texts"),
    [
        ("a.tsv", b"no\t" + b"a " * (5 << 20) + b"\n", ["a " * (5 << 20)]),
        ("a.tsv", "no\ta\u2028b\u0085c\n".encode(), ["a\u2028b\u0085c"]),
        ("a.tsv", "\ufeffno\ta\nno\t\ufeffb\n".encode(), ["a", "\ufeffb"]),
        ("a.tsv", b"no\ta\r\nno\tb\rc\r\n", ["a", "b\rc"]),
        ("a.csv", 'no,a\u2028\nno,"b\nc"\n'.encode(), ["a\u2028", "b\nc"]),
        ("a.tsv.gz", gzip.compress(b"no\ta\n") * 2 + bytes(99), ["a", "a"]),
    ],
    ids=["10 MB", "U+2028", "marks", "CR within", "CSV", "gzip members"],
)
def test_what_is_odd_and_no_mistake(tmp_path, tiny, name, content, texts):
    folder = write_own(tmp_path / "data", name, content, TSV)
    run = tiny_config(tiny, folder)
    actual = reader.read_examples(
        registry.find_task_files(run),
        folder / name,
        "train",
        label=read_label,
        with_label=True,
    )
    assert [one.text_a for one in actual] == texts


def tiny_config(tiny, folder):
    from bert_mgpu.config import finetuning, parsing

    args = tiny.flags("out", "own", data_dir=folder)
    return parsing.parse(["", *args], "", finetuning.FinetuneConfig)[0]


def test_a_folder_in_place_of_each_file(tmp_path, tiny, inside):
    folder = write_own(tmp_path / "data", "a.tsv", GOOD["tsv"])
    for name in ("b.csv", "b.jsonl", "b.parquet", "b.tsv.gz"):
        (folder / name).mkdir()
        out = tmp_path / "out"
        flags = {"data_dir": folder, "do_train": True, "train_file": folder / name}
        if "tsv" not in name:
            flags |= {"text_a_column": "t", "label_column": "y"}
        args = tiny.flags(out, "own", **flags)
        run_refused(lambda a=args: inside(a), out, tmp_path, f"{name}: is a directory")
