"""Parquet, numbers, sets and vocabularies that are damaged or made to do harm."""

import gzip
import json
import struct

import numpy as np
import pytest

from bert_mgpu.core import text_files
from bert_mgpu.data import cache
from tests.support.hostile_rows import (
    CUT,
    GOOD,
    NAMED,
    bomb,
    check,
    flipped,
    parquet,
    run_refused,
    write_own,
)

UTF_16 = "yes\tsun\nno\train\n"
LONG = text_files.LONGEST_LINE + 1


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
    "lists": "a.parquet:1: column 't' is a list, ['a', 'b']: pass one text",
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


NUMBERED = {  # files of lines: label, tab, number
    "utf-16": ("no\t1\nyes\t1\n".encode("utf-16"), ":1: not UTF-8"),
    "NUL": (b"no\t1\0\nyes\t1\n", ":1: NUL byte"),
    "not finite": (b"no\tnan\nyes\t1\n", ":1: 'nan': pass a number"),
    "1e999": (b"no\t1e999\nyes\t1\n", ":1: '1e999': pass a number"),
    "twice": (b"no\t1\nno\t1\n", ":2: 'no' appears twice"),
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
    content, message = file
    (tmp_path / "numbers").write_bytes(content)
    out = tmp_path / "out"
    flags = {"data_dir": folder, "do_train": True, flag: tmp_path / "numbers"}
    args = tiny.flags(out, "own", **flags)
    run_refused(
        lambda: inside(args),
        out,
        tmp_path,
        f"numbers{message}" if message[0] == ":" else message,
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
    path = tmp_path / "a.safetensors"
    for content in CACHES.values():
        path.write_bytes(content)
        assert cache.load(path) is None
    good = {"lines": np.arange(3)}
    cache.save(path, good, {"a": 1})
    assert cache.load(path)[1] == {"a": 1}
    for place in range(path.stat().st_size):
        whole = path.read_bytes()
        path.write_bytes(flipped(whole, [place]))
        actual = cache.load(path)
        assert actual is None or json.dumps(actual[1]) != json.dumps({"a": 1})
        path.write_bytes(whole)
