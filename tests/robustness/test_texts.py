"""Records, texts of pretraining and rows of standard input that are made to do harm."""

import gzip
import json
import lzma
import os
import shutil
import struct

import pytest

from bert_mgpu.cli import (
    create_pretraining_data,
    domain_vocab,
    learn_vocab,
    run_pretraining,
)
from bert_mgpu.data import tfrecord
from tests.support.hostile_rows import bomb, flipped, measured, run_refused
from tests.support.marks import rarely
from tests.support.paths import ROOT
from tests.support.pretraining import LENGTH, MOST, records
from tests.support.standard_input import typed

MB = 900  # of a process that is refused; TensorFlow's own are 500


def framed(data, size=None):
    """A record whose length and checksums are right, or one that lies, and says so."""
    length = struct.pack("<Q", len(data) if size is None else size)
    return length + tfrecord._checksum(length) + data + tfrecord._checksum(data)


def features(**values):
    return tfrecord.frame(tfrecord.encode(values))


def array(*values, kind="int64"):
    import numpy as np

    return np.array(values, kind)


GOOD = b"".join(records(rows=6))
ONE = next(records(rows=1))
RECORDS = {
    "empty": (b"", "no records"),
    "text": (b"a text\n" * 99, "at byte 0: not a TFRecord file"),
    "packed": (gzip.compress(GOOD), "at byte 0: not a TFRecord file"),
    "cut in a head": (GOOD + ONE[:7], "truncated in a record header, the last 7 bytes"),
    "cut in a record": (GOOD[:-9], "truncated in a record of"),
    "cut before its end": (GOOD[:-1], "truncated in a record of"),
    "length checksum": (flipped(GOOD, [9]), "at byte 0: not a TFRecord file"),
    "data checksum": (flipped(GOOD, [-2]), "its checksum differs"),
    "data": (flipped(GOOD, [60]), "at byte 0: damaged record of"),
    "length of 2^60": (
        framed(b"", 1 << 60),
        "truncated in a record of 1152921504606846976",
    ),
    "length of 2^64": (
        framed(b"", (1 << 64) - 1),
        "truncated in a record of 18446744073709",
    ),
    "length of 17 MB": (framed(bytes(17 << 20)), "a record of 17825792 bytes, more"),
    "no Example": (GOOD + framed(b"\xff" * 40), "not a pretraining record"),
    "nothing in it": (framed(b""), "it has no input_ids"),
    "zeros": (framed(bytes(99)), "not a pretraining record"),
    "other features": (features(image=array(1, 2)), "it has no input_ids"),
    "one feature": (features(input_ids=array(*range(16))), "it has no input_mask"),
    "floats for ids": (
        features(input_ids=array(1.0, kind="f")),
        "not a pretraining record: Key: input_ids, Data types don't match",
    ),
    "other lengths": (GOOD + features(input_ids=array(1)), "it has no input_mask"),
}


def of_pretraining(tiny, out, path, **changed):
    values = {
        "input_file": path,
        "vocab_file": tiny.model / "vocab.txt",
        "bert_config_file": tiny.model / "bert_config.json",
        "output_dir": out,
        "do_train": True,
        "max_seq_length": LENGTH,
        "max_predictions_per_seq": MOST,
        "num_train_steps": 2,
        **changed,
    }
    return [f"--{name}={value}" for name, value in values.items() if value is not None]


@pytest.fixture
def pretrain(capfd):
    def call(args):
        capfd.readouterr()
        return run_pretraining.main(["", *args]), *capfd.readouterr()

    return call


@pytest.mark.parametrize(("content", "said"), RECORDS.values(), ids=RECORDS)
def test_records(tmp_path, tiny, pretrain, content, said):
    path, out = tmp_path / "a.tfrecord", tmp_path / "out"
    path.write_bytes(content)
    args = of_pretraining(tiny, out, path)
    run_refused(lambda: pretrain(args), out, tmp_path, "a.tfrecord", said)


SIDES = {  # what stands beside records, .a.tfrecord.json
    "no JSON": b"{",
    "deep": b'{"settings":' * 90_000,
    "a list": b"[1]",
    "not UTF-8": b'{"rows": "\xff"}',
    "no settings": b'{"settings": [], "rows": "six", "vocabulary": 7}',
    "other settings": b'{"settings": {"vocab_file": 7, "objective": []}}',
    "a NUL": b'{"settings": {"vocab_file": "a\\u0000", "do_lower_case": true}}',
    "no casing": b'{"settings": {"vocab_file": "/etc/passwd"}}',
}


@pytest.mark.parametrize("side", SIDES.values(), ids=SIDES)
def test_what_records_say_of_themselves_is_no_trap(tmp_path, tiny, pretrain, side):
    path, out = tmp_path / "a.tfrecord", tmp_path / "out"
    path.write_bytes(GOOD + ONE[:7])  # it ends there, when all of it has been asked
    (tmp_path / ".a.tfrecord.json").write_bytes(side)
    args = of_pretraining(tiny, out, path)
    run_refused(lambda: pretrain(args), out, tmp_path, "truncated in a record header")


LONG_LINE = b"a " * (2 << 20)
TEXTS = {
    "utf-16": ("text", "a b\n".encode("utf-16"), "text:1: not UTF-8", "-f UTF-16"),
    "NUL": ("text", b"a\nb\0\n", "text:2: NUL byte at column 2"),
    "gb18030": ("text", b"a\n" + "新闻\n".encode("gbk"), "text:2: not UTF-8"),
    "empty": ("text", b"", "no text"),
    "newlines": ("text", b"\n" * 99, "no text"),
    "10 MB": ("text", b"a\n" + LONG_LINE, "text:2: more than 1000000 characters"),
    "packed": ("text", gzip.compress(b"a b\n"), "text:1: packed by gzip"),
    "not packed": ("text.gz", b"a b\n", "text.gz: damaged or cut after line 0"),
    "not packed, xz": ("text.xz", b"a b\n", "text.xz: damaged or cut after line 0"),
    "cut": ("text.gz", gzip.compress(b"a b\n" * 99)[:-9], "text.gz: damaged or cut"),
    "cut, xz": ("text.xz", lzma.compress(b"a b\n" * 99)[:-9], "text.xz: damaged"),
    "garbage": ("text.gz", gzip.compress(b"a b\n") + b"x", "text.gz: damaged or cut"),
    "bomb": ("text.gz", bomb(8), "text.gz:1: more than 1000000 characters"),
    "bomb, xz": ("text.xz", lzma.compress(bytes(1 << 26)), "text.xz:1: more than"),
}
PREPARING = {
    "create_pretraining_data": (create_pretraining_data.main, "output_file"),
    "domain_vocab": (domain_vocab.main, "output_vocab_file"),
    "learn_vocab": (learn_vocab.main, "vocab_file"),
}


@pytest.mark.parametrize("script", PREPARING.values(), ids=PREPARING)
@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_texts(tmp_path, tiny, capfd, script, text):
    name, content, *fragments = text
    main, flag = script
    (tmp_path / name).write_bytes(content)
    # A place [unused1] for a new word.
    words = (tiny.model / "vocab.txt").read_text() + "[unused1]\n"
    (tmp_path / "vocab.txt").write_text(words)
    args = {"input_file": tmp_path / name, "vocab_file": tmp_path / "vocab.txt"}
    args[flag] = tmp_path / "made"
    if flag == "output_file":
        args["workers"] = 1

    def call():
        capfd.readouterr()
        code = main(["", *(f"--{k}={v}" for k, v in args.items())])
        return code, *capfd.readouterr()

    run_refused(call, tmp_path / "out", tmp_path, *fragments)


def test_names_that_are_no_text_are_shown(tmp_path, tiny, capfd):
    """A glob may find them; a table of the corpus goes to standard output."""
    text = os.fsdecode(os.fsencode(tmp_path) + b"/\xd0\xc2.txt")
    with open(text, "w") as file:
        file.write("sun joy\n" * 9)
    args = [f"--input_file={tmp_path}/*.txt", f"--vocab_file={tiny.model}/vocab.txt"]
    code = domain_vocab.main(["", *args])
    out, err = capfd.readouterr()
    assert (code, err) == (0, "") and "\\udcd0\\udcc2.txt" in out


# Real processes, and the memory that they take.


@pytest.mark.nightly
def test_a_bomb_of_rows_takes_little_memory(tmp_path, tiny):
    data, out = tmp_path / "data", tmp_path / "out"
    data.mkdir()
    (data / "a.tsv.gz").write_bytes(bomb(192))  # 3 GB
    (data / "task.json").write_text(json.dumps({"train": "a.tsv.gz", "text_a": 0}))
    flags = {"data_dir": data, "do_train": True, "label_column": 1}
    args = tiny.flags(out, "own", **flags)
    held = {}

    def call():
        *result, held["MB"] = measured(args)
        return result

    run_refused(call, out, tmp_path, "a.tsv.gz:1: more than 16777216 bytes")
    assert held["MB"] < MB


def test_a_bomb_of_text_takes_little_memory(tmp_path, tiny):
    (tmp_path / "text.gz").write_bytes(bomb(192))
    script = ROOT / "data_prep" / "create_pretraining_data.py"
    args = [
        *(f"--input_file={tmp_path}/text.gz", f"--output_file={tmp_path}/made"),
        *(f"--vocab_file={tiny.model}/vocab.txt", "--workers=1"),
    ]
    wanted = "text.gz:1: more than 1000000 characters"

    def call():
        return measured(args, script, RLIMIT_AS=2 << 30)[:3]

    run_refused(call, tmp_path / "out", tmp_path, wanted)


@pytest.mark.parametrize(
    ("sent", "answers", "said"),
    [
        (b"?\tsun\n?\t" + b"\xff\n?\train\n", 1, "-:2: not UTF-8"),
        ("?\tsun\n".encode("utf-16"), 0, "-:1: not UTF-8"),
        (gzip.compress(b"?\tsun\n"), 0, "-:1: packed by gzip"),
        (b"?\tsun\r?\train\r", 0, "-:1: its lines end in CR"),
        (b"", 0, None),
        (b"\n\n", 2, None),
    ],
    ids=["not UTF-8", "UTF-16", "packed", "CR alone", "empty", "newlines"],
)
def test_standard_input(tmp_path, tiny, trained, inside, sent, answers, said):
    (tmp_path / "sent").write_bytes(sent)
    model = shutil.copytree(trained("own"), tmp_path / "model")
    with typed(tmp_path / "sent"):
        code, out, err = inside(predicting(tiny, model))
    ended(code, out, err, answers, said)


@pytest.mark.parametrize(
    ("sent", "answers", "said"),
    [
        (b"?\tsun\n" + bytes(20 << 20), 1, "-:2: more than 16777216 bytes"),
        *rarely((b"?\t" + b"sun " * 2_500_000 + b"\n?\train\n", 2, None)),
    ],
    ids=["zeros", "10 MB"],
)
def test_long_lines_of_standard_input(tmp_path, tiny, trained, sent, answers, said):
    model = shutil.copytree(trained("own"), tmp_path / "model")
    result = measured(predicting(tiny, model), source=sent)
    ended(*result[:3], answers, said)


def predicting(tiny, model):
    flags = {"do_predict": True, "predict_file": "-", "init_checkpoint": None}
    flags["strict"] = True  # at other times a bad line is answered by its error
    return tiny.flags(model, "own", **flags)


def ended(code, out, err, answers, said):
    assert len(out.splitlines()) == answers, err
    assert "Traceback" not in err
    assert code == (2 if said else 0)
    assert said is None or err.splitlines()[-1].startswith(f"error: {said}")
