"""Files of rows that are damaged or made to do harm: one line, and nothing changed."""

import gzip
import json
import struct

import pytest

from bert_mgpu.data import readers
from bert_mgpu.tasks import custom, reading
from tests.hostile.rows_support import (
    GOOD,
    NAMED,
    TSV,
    bomb,
    flipped,
    parquet,
    run_refused,
    write_own,
)

UTF_16 = "yes\tsun\nno\train\n"
CUT = gzip.compress(GOOD["tsv"])
LONG = readers.LONGEST_LINE + 1
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
    "spaces for tabs": ("a.tsv", b"yes sun\n", "a.tsv:1: 1 column, column 1 is needed"),
    "packed, no name": ("a.tsv", CUT, "a.tsv:1: packed by gzip: give the file a name"),
    "packed twice": ("a.tsv.gz", gzip.compress(CUT), "a.tsv.gz:1: packed by gzip"),
    "not packed": ("a.tsv.gz", GOOD["tsv"], "a.tsv.gz: damaged after line 0"),
    "packed, cut": ("a.tsv.gz", CUT[:-9], "a.tsv.gz: damaged after line"),
    "packed, no end": ("a.tsv.gz", CUT[:12], "a.tsv.gz: damaged after line 0"),
    "packed, garbage": ("a.tsv.gz", CUT + b"xy", "a.tsv.gz: damaged after line 8"),
    "packed, checksum": ("a.tsv.gz", flipped(CUT, [-7]), "damaged after line 8"),
    "packed, length": ("a.tsv.gz", flipped(CUT, [-2]), "damaged after line 8"),
    "packed, flags": ("a.tsv.gz", flipped(CUT, [3]), "a.tsv.gz: damaged after line"),
    "packed, method": ("a.tsv.gz", flipped(CUT, [2]), "a.tsv.gz: damaged after line 0"),
    "bomb": ("a.tsv.gz", bomb(), "a.tsv.gz:1: more than 16777216 bytes"),
    "bomb of rows": ("a.tsv.gz", bomb(2, b"no\ta\nx\n"), "a.tsv.gz:2: 1 column"),
}
CSV_FILES = {
    "open quote": ("a.csv", GOOD["csv"] + b'no,"rain\n' * 99, ":10: ", "not a row of"),
    "open at the end": ("a.csv", GOOD["csv"] + b'no,"rain\n', "a.csv:10: unexpected"),
    "quote within": ("a.csv", GOOD["csv"] + b'no,"ra"in"\n', "a.csv:10: "),
    "it swallows all": (
        "a.csv",
        b'y,t\nno,"' + b"rain\n" * 4_000_000,
        "a.csv:2: field",
    ),
    "a row without end": ("a.csv.gz", bomb(8, b'"\n",'), ":1: a row of more than"),
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
    "half a pair": ("a.jsonl", line(rb'"a\ud83d"'), "a.jsonl:9: column 't' has half a"),
    "half in a list": ("a.jsonl", line(rb'["\udc00"]'), "a.jsonl:9: "),
    "list": ("a.jsonl", line(b'["a", "b"]'), "a.jsonl:9: a list"),
    "null": ("a.jsonl", line(b"null"), "a.jsonl:9: column 't' is null"),
    "object": ("a.jsonl", line(b'{"a": 1}'), "a.jsonl:9: column 't' is"),
    "an array of rows": (
        "a.json",
        b'[{"y": "no", "t": "a"}]',
        "a.json:1: not a JSON o",
    ),
    "over many lines": (
        "a.json",
        b'{\n"y": "no",\n"t": "a"}',
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
    "line's end in a label": ("a.jsonl", b'{"y": "a\\nb", "t": "a"}', "a line's end"),
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


def check(tmp_path, tiny, inside, file, task, **keys):
    name, content, *fragments = file
    folder = write_own(tmp_path / "data", name, content, task, **keys)
    out = tmp_path / "out"
    flags = tiny.flags(out, "own", data_dir=folder, do_train=True)
    run_refused(lambda: inside(flags), out, tmp_path, *fragments)


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


def parquet_files():
    import pyarrow

    kind = pyarrow.map_(pyarrow.string(), pyarrow.int64())
    maps = pyarrow.array([[("a", 1)]] * 18, kind)
    columns = {"y": ["yes", "no"] * 9, "t": ["sun", "rain"] * 9}
    good = parquet(columns)
    size = struct.unpack("<I", good[-8:-4])[0]
    return {
        "empty": b"",
        "magic alone": b"PAR1",
        "magic twice": b"PAR1PAR1",
        "no Parquet": GOOD["csv"],
        "cut": good[:-20],
        "cut at the front": good[20:],
        "other magic": good[:-4] + b"PARX",
        "said to be encrypted": b"PARE" + good[4:-4] + b"PARE",
        "footer of 4 GB": good[:-8] + b"\xff" * 4 + b"PAR1",
        "footer of nothing": good[:-8] + bytes(4) + b"PAR1",
        "footer of zeros": good[: -8 - size] + bytes(size) + good[-8:],
        "footer of other bits": flipped(good, slice(-8 - size, -8)),
        "pages of other bits": flipped(good, slice(4, -8 - size)),
        "packed": gzip.compress(good),
        "no rows": parquet({"y": [], "t": []}),
        "no such column": parquet({"Y": ["a"], "T": ["b"]}),
        "objects": parquet({**columns, "t": [{"a": 1}] * 18}),
        "lists of objects": parquet({**columns, "t": [[{"a": 1}]] * 18}),
        "maps": parquet({**columns, "t": maps}),
        "lists": parquet({**columns, "t": [["a", "b"]] * 18}),
        "nulls": parquet({**columns, "t": ["sun", None] * 9}),
        "bytes": parquet({**columns, "t": [b"\xff"] * 18}),
        "not finite": parquet({**columns, "t": [float("nan")] * 18}),
        "no label": parquet({**columns, "y": ["yes", "maybe\n"] * 9}),
    }


@pytest.fixture(scope="module")
def parquets():
    pytest.importorskip("pyarrow", reason="an optional package")
    return parquet_files()


PARQUETS = {
    **dict.fromkeys(
        (
            *("empty", "magic alone", "magic twice", "no Parquet", "cut", "packed"),
            *("cut at the front", "other magic", "said to be encrypted"),
            *("footer of 4 GB", "footer of nothing", "footer of zeros"),
            *("footer of other bits", "pages of other bits"),
        ),
        "a.parquet: not a Parquet file",
    ),
    "no rows": "a.parquet: no rows",
    "no such column": "a.parquet: no column 't'",
    "objects": "a.parquet:1: column 't' is",
    "lists of objects": "a.parquet:1: column 't' is a list of lists",
    "maps": "a.parquet:1: ",
    "lists": "a.parquet:1: a list",
    "nulls": "a.parquet:2: column 't' is null",
    "bytes": "a.parquet:1: column 't' is",
    "not finite": "a.parquet:1: column 't' is 'nan'",
    "no label": "a.parquet:2: label 'maybe",
}


@pytest.mark.parametrize(("name", "said"), PARQUETS.items(), ids=PARQUETS)
def test_parquet(tmp_path, tiny, inside, parquets, name, said):
    check(tmp_path, tiny, inside, ("a.parquet", parquets[name], said), NAMED)


def test_every_parquet_case_is_tried(parquets):
    assert set(parquets) == set(PARQUETS)


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
    found = reading.read_examples(
        custom.find(run), folder / name, "train", with_label=True
    )
    assert [one.text_a for one in found] == texts


def tiny_config(tiny, folder):
    from bert_mgpu import flags, run_config

    args = tiny.flags("out", "own", data_dir=folder)
    return flags.parse(["", *args], "", run_config.FinetuneConfig)[0]


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


NUMBERED = {  # files of lines: label, tab, number
    "utf-16": ("no\t1\nyes\t1\n".encode("utf-16"), ":1: not UTF-8"),
    "NUL": (b"no\t1\0\nyes\t1\n", ":1: NUL byte"),
    "not finite": (b"no\tnan\nyes\t1\n", ":1: 'nan': pass a number"),
    "1e999": (b"no\t1e999\nyes\t1\n", ":1: '1e999': pass a number"),
    "twice": (b"no\t1\nno\t1\n", ":2: 'no' stands there twice"),
    "missing": (b"no\t1\n", "has no line for yes"),
    "another label": (b"maybe\t1\n", ":1: 'maybe\\t1': write a label"),
    "empty": (b"", "has no line for no, yes"),
    "long": (b"no\t" + b"1" * LONG, ":1: more than"),
    "no tab": (b"no 1\n", ":1: 'no 1': write a label"),
    "CR alone": (b"no\t1\ryes\t1\r", ":1: its lines end in CR"),
    "packed": (CUT, ":1: packed by gzip"),
}


@pytest.mark.parametrize("flag", ["class_weights", "threshold"])
@pytest.mark.parametrize("file", NUMBERED.values(), ids=NUMBERED)
def test_files_of_numbers(tmp_path, tiny, inside, flag, file):
    folder = write_own(tmp_path / "data", "a.tsv", GOOD["tsv"])
    content, said = file
    (tmp_path / "numbers").write_bytes(content)
    out = tmp_path / "out"
    flags = {"data_dir": folder, "do_train": True, flag: tmp_path / "numbers"}
    args = tiny.flags(out, "own", **flags)
    run_refused(
        lambda: inside(args),
        out,
        tmp_path,
        f"numbers{said}" if said[0] == ":" else said,
    )


SETS = {
    "folder": (lambda path: path.mkdir(), "may.tsv: is a directory"),
    "absent": (lambda path: None, "may.tsv: no such file"),
    "utf-16": (
        lambda p: p.write_bytes(UTF_16.encode("utf-16")),
        "may.tsv:1: not UTF-8",
    ),
    "empty": (lambda path: path.touch(), "may.tsv: no rows"),
    "bomb": (lambda p: p.write_bytes(bomb()), "may.tsv:1: packed by gzip"),
}


@pytest.mark.parametrize("flag", ["eval_files", "predict_file"])
@pytest.mark.parametrize(("make", "said"), SETS.values(), ids=SETS)
def test_other_sets(tmp_path, tiny, inside, flag, make, said):
    folder = write_own(tmp_path / "data", "a.tsv", GOOD["tsv"], dev="a.tsv")
    make(tmp_path / "may.tsv")
    out, path = tmp_path / "out", tmp_path / "may.tsv"
    flags = {"eval_files": {"eval_files": f"may={path}", "do_eval": True}}
    flags["predict_file"] = {"predict_file": path, "do_predict": True}
    args = {"data_dir": folder, "do_train": True, **flags[flag]}
    run_refused(lambda: inside(tiny.flags(out, "own", **args)), out, tmp_path, said)


VOCABULARIES = {
    "utf-16": ("[PAD]\n[CLS]\n".encode("utf-16"), "vocab.txt:1: b'\\xff\\xfe", "UTF-8"),
    "utf-16-le": ("[PAD]\n[CLS]\n".encode("utf-16-le"), "none of its"),
    "empty": (b"", "vocab.txt: empty"),
    "newlines": (b"\n" * 99, "vocab.txt: empty"),
    "packed": (CUT, "vocab.txt:1: b'\\x1f\\x8b", "is not UTF-8"),
    "a line of 10 MB": (b"\xff" * 10_000_000, "vocab.txt:1: ", "is not UTF-8"),
    "of 65 MB": (b"a\n" * (33 << 20), "vocab.txt: more than 64 MB"),
    "no [CLS]": (b"a\n[SEP]\n[UNK]\n", "none of its 3 lines is [CLS]"),
    "a text": (GOOD["tsv"], "none of its 8 lines is [CLS]"),
}


@pytest.mark.parametrize("file", VOCABULARIES.values(), ids=VOCABULARIES)
def test_vocabularies(tmp_path, tiny, inside, file):
    content, *fragments = file
    (tmp_path / "vocab.txt").write_bytes(content)
    out = tmp_path / "out"
    flags = tiny.flags(out, vocab_file=tmp_path / "vocab.txt", do_train=True)
    run_refused(lambda: inside(flags), out, tmp_path, *fragments)


CACHES = {
    "empty": b"",
    "zeros": bytes(99),
    "header of 2^63": struct.pack("<Q", 1 << 63) + b"{}",
    "header of nothing": struct.pack("<Q", 2) + b"{}",
    "no checksum": struct.pack("<Q", 32) + b'{"__metadata__":{"notes":"{}"}}  ',
    "deep notes": struct.pack("<Q", 200_040)
    + b'{"__metadata__":{"notes":"%s","sha":""}}  ' % (b"[" * 200_000),
    "a list": struct.pack("<Q", 2) + b"[]",
}


def test_a_damaged_cache_is_made_again(tmp_path):
    from bert_mgpu.data import records

    path = tmp_path / "a.safetensors"
    for content in CACHES.values():
        path.write_bytes(content)
        assert records.load(path) is None
    good = {"lines": records.np.arange(3)}
    records.save(path, good, {"a": 1})
    assert records.load(path)[1] == {"a": 1}
    for place in range(path.stat().st_size):
        whole = path.read_bytes()
        path.write_bytes(flipped(whole, [place]))
        found = records.load(path)
        assert found is None or json.dumps(found[1]) != json.dumps({"a": 1})
        path.write_bytes(whole)
