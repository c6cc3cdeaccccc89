"""Vectors of texts: their quality, speed, size and memory, beside Google's script.

    python -m benchmarks.studies.features run [--limit=N] | show

- similarity: Spearman's correlation of the cosines of mean-pooled vectors with the
  grades of Chinese STS-B's test set, without any training;
- speed: Google's extract_features.py, which pads every line to --max_seq_length, and
  ours on the first headlines of THUCNews, start included, and the bytes of each form;
- memory: the peak of a process that writes vectors of many lines with a tiny model.

A row is made by a process of its own and takes up to some minutes; the result is
benchmarks/results/features.json. `others` is what else ran on the machine meanwhile,
as a share of its cores. Needs ../shared.
"""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator

import numpy as np
import scipy.stats

from benchmarks import runner
from benchmarks.harness import RESULTS, ROOT, SHARED, OtherLoad

DATA, WORK = SHARED / "data", pathlib.Path(tempfile.gettempdir(), "bert_mgpu_features")
CHINESE, TINY = WORK / "zh_e5_small", WORK / "tiny"
TITLES = DATA / "thucnews_title" / "sub_train.txt"
FORMS = {  # flags of our script
    "jsonl": {"output_file": "out.jsonl"},
    "npz": {"output_file": "out.npz"},
    "npz float16": {"output_file": "out.npz", "output_dtype": "float16"},
    "npy mean": {"output_file": "out.npy", "pooling": "mean"},
}
TABLE = runner.Table(
    RESULTS / "features.json",
    [
        *({"part": "similarity", "rows": rows} for rows in (400, 1361)),
        {"part": "speed", "who": "google", "length": 32, "lines": 2000},
        {"part": "speed", "who": "google", "length": 128, "lines": 500},
        {"part": "speed", "who": "jsonl", "length": 32, "lines": 2000},
        {"part": "speed", "who": "jsonl", "length": 128, "lines": 500},
        {"part": "speed", "who": "jsonl", "length": 128, "lines": 10000},
        {"part": "speed", "who": "npz", "length": 128, "lines": 2000},
        {"part": "speed", "who": "npz float16", "length": 128, "lines": 2000},
        {"part": "speed", "who": "npy mean", "length": 128, "lines": 10000},
        *({"part": "memory", "lines": lines} for lines in (20_000, 100_000, 1_000_000)),
    ],
    ("spearman", "seconds", "lines_a_second", "bytes", "peak_mb", "others"),
)


def prepare() -> None:
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    WORK.mkdir(exist_ok=True)
    if not (CHINESE / "bert_model.ckpt.index").exists():
        script = SHARED / "models" / "make_tf1_checkpoint.py"
        subprocess.run([sys.executable, script, CHINESE], check=True)
    if not (TINY / "bert_model.ckpt.index").exists():
        from bert_mgpu.checkpoints import google_read
        from bert_mgpu.model import params
        from bert_mgpu.model.config import BertConfig

        TINY.mkdir(exist_ok=True)
        config = json.loads((CHINESE / "bert_config.json").read_text())
        config |= {"hidden_size": 32, "num_hidden_layers": 1}
        config |= {"num_attention_heads": 2, "intermediate_size": 64}
        (TINY / "bert_config.json").write_text(json.dumps(config))
        (TINY / "vocab.txt").write_bytes((CHINESE / "vocab.txt").read_bytes())
        specs = params.bert_specs(BertConfig.from_json_file(TINY / "bert_config.json"))
        google_read.write(TINY / "bert_model.ckpt", params.initialize(specs, 0.02, 1))


def headlines(count: int) -> Iterator[str]:
    """The first headlines, repeated from the start if there are too few."""
    lines = TITLES.read_text(encoding="utf-8").splitlines()
    return (lines[n % len(lines)].split("\t")[0] for n in range(count))


def run(
    command: list[str], model: pathlib.Path, texts: Iterator[str], **flags: object
) -> tuple[dict[str, object], pathlib.Path]:
    """Runs a script on texts; its time, bytes and peak memory, and its output file."""
    source, output = WORK / "in.txt", WORK / str(flags.pop("output_file"))
    source.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    given = {
        "input_file": source,
        "output_file": output,
        "vocab_file": model / "vocab.txt",
        "bert_config_file": model / "bert_config.json",
        "init_checkpoint": model / "bert_model.ckpt",
        **flags,
    }
    arguments = [f"--{name}={value}" for name, value in given.items()]
    others, began = OtherLoad(), time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, *command, *arguments],
        cwd=ROOT,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "TF_USE_LEGACY_KERAS": "1", "TF_CPP_MIN_LOG_LEVEL": "3"},
    )
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - began
    if status:
        raise RuntimeError(f"{command} ended with {os.waitstatus_to_exitcode(status)}")
    count = sum(1 for _ in source.open(encoding="utf-8"))
    measured = {
        "seconds": round(seconds, 1),
        "lines_a_second": round(count / seconds, 1),
        "bytes": output.stat().st_size,
        "peak_mb": round(usage.ru_maxrss / 1024),
        "others": round(others(), 2),
    }
    return measured, output


def similarity(rows: int) -> dict[str, object]:
    path = DATA / "chinese_stsb" / "sts-b-test.txt"
    cells = [line.split("\t") for line in path.read_text("utf-8").splitlines()[:rows]]
    texts = (text for pair in cells for text in pair[:2])
    flags = {"output_file": "out.npy", "pooling": "mean", "normalize": True}
    measured, output = run(["extract_features.py"], CHINESE, texts, **flags)
    first, second = np.moveaxis(np.load(output).reshape(rows, 2, -1), 1, 0)
    grades = [float(cell[2]) for cell in cells]
    found = scipy.stats.spearmanr((first * second).sum(1), grades)
    return {"spearman": round(float(found.statistic), 4), **measured}


def work(row: runner.Row) -> runner.Row:
    if row["part"] == "similarity":
        return {**row, **similarity(row["rows"])}
    texts = headlines(row["lines"])
    if row["part"] == "memory":
        flags = {"output_file": "out.npy", "pooling": "mean", "batch_size": 256}
        measured, output = run(["extract_features.py"], TINY, texts, **flags)
        assert np.load(output, mmap_mode="r").shape == (row["lines"], 32)
    else:
        google = row["who"] == "google"
        script = ["-m", "tests.reference.google_extract"]
        command = script if google else ["extract_features.py"]
        flags = FORMS["jsonl" if google else row["who"]]
        measured, output = run(
            command, CHINESE, texts, max_seq_length=row["length"], **flags
        )
    output.unlink()
    return {**row, **measured}


def show() -> None:
    for result in TABLE.results():
        print("  ".join(f"{name} {value}" for name, value in result.items()))


if __name__ == "__main__":
    runner.main(__doc__, TABLE, work, show, prepare)
