"""Readers given more than a million changed files: a UserError, or they read them.

The same changes in every run: a few of each reader always, all of them in `make
test-all`.
"""

import dataclasses
import functools
import gc
import gzip
import importlib.util
import json
import random
import resource
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import safetensors.numpy

from bert_mgpu.checkpoints import huggingface_read
from bert_mgpu.config import finetuning, parsing
from bert_mgpu.core.errors import UserError
from bert_mgpu.data import cache, pretraining_records, tables, tfrecord
from bert_mgpu.data_prep import corpus
from bert_mgpu.model import config
from bert_mgpu.tasks import reader as reader_lib
from bert_mgpu.tasks import registry
from bert_mgpu.tasks.classification import builtin, label_weights, problem_types
from bert_mgpu.tasks.classification import reader as label_reader
from bert_mgpu.tasks.masked_lm import dataset
from bert_mgpu.text.tokenization import Tokenizer
from bert_mgpu.training import recorder
from tests.support.hostile_rows import GOOD, parquet
from tests.support.pretraining import LENGTH, MOST
from tests.support.pretraining import records as made_records
from tests.support.tiny import CONFIG, TASK_JSON, VOCAB

FEW = 150  # mutations of a reader that are always tried
MEMORY = 400 << 10  # kB that all of them may add
TOKENS = [
    *(b"\0", b"\n", b"\r", b"\t", b'"', b",", b"'", b"\\", b"\x1f\x8b", b"[" * 500),
    *(b"\xef\xbb\xbf", b"\xff\xfe", b"\xed\xa0\x80", b"\xc0\x80", b"\xe2\x80\xa8"),
    *(b"1e999", b"NaN", b"-1", b"9" * 5000, b"null", b"true", b"{}", b'{"t":', b"]}"),
    *(b"\\ud83d", b"\\u0000", b"\xff" * 8, bytes(8), b"\x7f\xff\xff\xff", b"../", b"/"),
    *("新".encode(), "新".encode("gbk"), "İ\u0345Σ".encode(), b"[UNK]", b"\xf4\x90"),
]
FORM = pretraining_records.RecordSchema(
    LENGTH, MOST, len(VOCAB), segments=2, dynamic=False
)
TABLE = [("t", "y"), (0, 1, -1)]  # columns with a header, and without


def mutated(rng: random.Random, seeds: Sequence[bytes]) -> bytes:
    """One of the seeds with one to four changes."""
    data = bytearray(rng.choice(seeds))
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(data) + 1)
        size = rng.choice((1, 1, 2, 4, 9, 40))
        match rng.randrange(7):
            case 0:
                data[at : at + 1] = bytes([rng.randrange(256)])
            case 1 if at < len(data):
                data[at] ^= 1 << rng.randrange(8)
            case 2:
                data[at:at] = rng.choice(TOKENS)
            case 3:
                data[at : at + size] = rng.choice(TOKENS)
            case 4:
                del data[at : at + size]
            case 5:
                del data[at:]
            case 6:
                data[at:at] = data[rng.randrange(len(data) + 1) :][:size] * 3
    return bytes(data)


@dataclasses.dataclass
class Reader:
    """A reader, what it is given, and how often: `read` gets the path of a file."""

    count: int
    seeds: Sequence[bytes]
    read: Callable[[Any], object]
    name: str = "file"
    errors: tuple[type[Exception], ...] = (UserError,)


def table(header, **form):
    def read(path):
        actual = tables.rows(
            path, tables.TableFormat(header=header, **form), TABLE[not header]
        )
        return [*actual]

    return read


def examples(path, task="mrpc"):
    files, label = builtin.BUILTIN[task], label_reader.read_label
    return [*reader_lib.stream(files, path, "train", label=label, with_label=True)]


def number_file(path):
    label_weights.weights(str(path), problem_types.SINGLE, ["no", "yes"], truth=None)
    label_weights.thresholds(str(path), problem_types.SINGLE, ["no", "yes"])


def of_task(path):
    run = finetuning.FinetuneConfig(task_name="own", data_dir=str(path.parent))
    return registry.find_task_files(run)


def record(path):
    """The bytes as the data of a record whose checksums are right."""
    data = path.read_bytes()
    path.write_bytes(tfrecord.frame(data))
    with open(path, "rb") as file:
        return pretraining_records._examine(
            file, [tfrecord.HEADER], [len(data)], schema=FORM
        )


def documents(path):
    folder = path.parent / "blocks"
    folder.mkdir(exist_ok=True)
    cut = corpus.Cut(window=1, least=30)
    for block in corpus.blocks([str(path)], folder, cut):
        list(corpus.documents(block))
        block.text.unlink()


def in_words(tokenizer):
    def read(path):
        texts = path.read_bytes().decode("utf-8", "surrogatepass").split("\n")
        ids = tokenizer.batch_ids(texts)
        assert len(ids.offsets) == len(texts) + 1
        assert ((ids.values >= 0) & (ids.values < len(VOCAB))).all()

    return read


def in_args(path):
    args = path.read_bytes().decode("utf-8", "surrogateescape").split("\n")
    return parsing.parse(["", *args], "", finetuning.FinetuneConfig)


@functools.cache
def readers(tokenizer) -> dict[str, Reader]:
    optional = of_parquet() if importlib.util.find_spec("pyarrow") else {}
    ids = {"a": np.arange(6, dtype=np.float32), "b": np.ones((2, 2), np.int8)}
    tensors = safetensors.numpy.save(ids, {"notes": "{}", "sha256": cache.digest(ids)})
    floats = safetensors.numpy.save({"a": ids["a"], "c": np.ones((2, 2), "f2")})
    one = tfrecord.encode({name: np.arange(3) for name in pretraining_records._MASKED})
    framed = [b"".join(made_records(rows=n)) for n in (1, 2)]
    data = [row[tfrecord.HEADER : -tfrecord.FOOTER] for row in made_records(rows=4)]
    rows = [b'{"step": 1, "loss": 0.5, "x": null}\n{"step": 2, "set": "dev"}\n']
    texts = ["a the 新闻。好\nİΣ σ̈ fear-joy\n한글 " + "e\u0301" * 9]
    task = [json.dumps({**TASK_JSON, "labels": ["a", "b"], "type": "multi"}).encode()]
    header = b"Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n"
    return (
        optional
        | {
            "tsv": Reader(110_000, [GOOD["tsv"]], table(False), "a.tsv"),
            "tsv, named": Reader(
                50_000, [b"y\tt\n" + GOOD["tsv"]], table(True), "a.tsv"
            ),
            "csv": Reader(120_000, [GOOD["csv"]], table(True), "a.csv"),
            "jsonl": Reader(120_000, [GOOD["jsonl"]], table(True), "a.jsonl"),
            "gzip": Reader(
                60_000, [gzip.compress(GOOD["tsv"], mtime=0)], table(False), "a.tsv.gz"
            ),
            "gb18030": Reader(
                40_000,
                ["否\t新闻\n是\t好\n".encode("gb18030")],
                table(False, encoding="gb18030"),
            ),
            "shift_jis": Reader(
                30_000,
                ["否\t新聞\n".encode("cp932")],
                table(False, encoding="shift_jis"),
            ),
            "mrpc": Reader(60_000, [header + b"1\t1\t2\tsun\tjoy\n" * 2], examples),
            "numbers": Reader(50_000, [b"no\t0.5\nyes\t1\n"], number_file),
            "regression": Reader(
                80_000,
                [b"-0.5e-3", b"17", b"nan", b"1_0"],
                lambda path: label_reader.number(
                    path.read_bytes().decode("utf-8", "replace")
                ),
                errors=(ValueError,),
            ),
            "words": Reader(
                60_000,
                [text.encode() for text in texts],
                in_words(tokenizer),
                errors=(UnicodeDecodeError,),  # ours, of the test
            ),
            "vocabulary": Reader(
                40_000, ["".join(f"{word}\n" for word in VOCAB).encode()], Tokenizer
            ),
            "records": Reader(60_000, framed, tfrecord.scan),
            "skipped records": Reader(
                30_000, framed, lambda path: tfrecord.scan(path, skip_bad=True)
            ),
            "record": Reader(20_000, [*data, one], record),
            "side file": Reader(
                20_000,
                [b'{"settings": {"vocab_file": "x"}, "rows": 3, "vocabulary": "00"}'],
                lambda path: dataset._check_count(
                    str(path)[:-5].replace("/.", "/"), 3, 0
                ),
                ".a.json",
            ),
            "text": Reader(40_000, [b"a b. c\nd\n\ne f\n\n\ng\n" * 3], documents),
            "task.json": Reader(60_000, task, of_task, "task.json"),
            "bert_config.json": Reader(
                40_000, [json.dumps(CONFIG).encode()], config.BertConfig.from_json_file
            ),
            "safetensors": Reader(
                30_000, [tensors, floats], huggingface_read.read, "a.safetensors"
            ),
            "cache": Reader(20_000, [tensors], cache.load),
            "metrics": Reader(40_000, rows, recorder.read_records),
            "flags": Reader(
                1_000,
                [b"--n_gpus=2\n--learning_rate=1e-4\n--do_train\n--xla=off"],
                in_args,
            ),
        }
    )


def of_parquet():
    columns = {"t": ["a", "b"], "y": ["x", "y"]}
    return {"parquet": Reader(12_000, [parquet(columns)], table(True), "a.parquet")}


NAMES = [*readers(None)]
ALWAYS = ("cache", "metrics", "skipped records")  # they leave out what is damaged


def test_they_are_more_than_a_million():
    assert sum(one.count for one in readers(None).values()) >= 1_000_000


def fuzz(name, count, folder, tokenizer):
    """Raises AssertionError with the bytes that made a reader fail."""
    reader = readers(tokenizer)[name]
    path, rng = folder / reader.name, random.Random(name)
    before, read = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, 0
    path.touch()
    for number in range(count):
        if number % 50 == 0:
            gc.collect()
        data = mutated(rng, reader.seeds)
        with open(path, "r+b", buffering=0) as file:  # a new file takes thrice as long
            file.write(data)
            file.truncate()
        try:
            reader.read(path)
            read += 1
        except reader.errors as error:
            assert len(str(error)) < 20_000, (number, data)  # noqa: PT017 (may pass)
        except Exception as error:
            raise AssertionError(f"{name}, mutation {number}: {data!r}") from error
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert used < MEMORY, f"{used} kB"
    if count > FEW:  # some were still good and some were not: the seeds are right
        assert read > count // 1000, read
        assert read < count or name in ALWAYS


@pytest.fixture(scope="module")
def tokenizer(tiny):
    return Tokenizer(tiny.model / "vocab.txt")


@pytest.fixture(autouse=True)
def collector():
    """Garbage is collected between files: in the depth of nested objects, where Python
    may do it at any time, a finalizer has no room left and fails.
    """
    gc.disable()
    gc.freeze()  # what is there already need not be looked at again
    yield
    gc.unfreeze()
    gc.enable()


@pytest.mark.parametrize("name", NAMES)
def test_a_few(tmp_path, tokenizer, name):
    fuzz(name, min(FEW, readers(None)[name].count // 40), tmp_path, tokenizer)


@pytest.mark.faults
@pytest.mark.parametrize("name", NAMES)
def test_a_million(tmp_path, tokenizer, name):
    fuzz(name, readers(None)[name].count, tmp_path, tokenizer)
