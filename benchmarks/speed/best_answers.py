"""How long the choice of the best answers takes, beside run_squad.py's.

    python -m benchmarks.speed.best_answers [--runs=5]

All questions of cmrc2018's dev set (7,717 windows of 384 tokens, one every 128), drawn
logits: from these to predictions.json and nbest_predictions.json, by
google-research/bert's `write_predictions` and by ours. Processor time, since each is a
single thread of Python and numpy; medians. Needs ../shared, and what `make test`
installs.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import statistics
import tempfile
import time

os.environ.update(CUDA_VISIBLE_DEVICES="", TF_CPP_MIN_LOG_LEVEL="3")

import numpy as np

from benchmarks.harness import RESULTS, SHARED, machine
from bert_mgpu.config.span_qa import Choice
from bert_mgpu.core.rows import Example, Features, Ragged
from bert_mgpu.tasks import reader
from bert_mgpu.tasks.span_qa import dataset, files, predictions
from bert_mgpu.tasks.span_qa.reader import read_label
from bert_mgpu.tasks.span_qa.scored import AnsweredSet
from bert_mgpu.text.tokenization import Tokenizer
from tests.reference import google_squad

_LENGTH, _STRIDE = 384, 128
_QUESTIONS = SHARED / "data" / "cmrc2018" / "cmrc2018_dev.json"
_VOCAB = SHARED / "data" / "vocab" / "chinese_vocab.txt"
_CHOICE = Choice(20, 30, False, null_score_diff_threshold=0.0)


def questions() -> tuple[list[Example], Features]:
    """The questions, and their windows."""
    task = files.BUILTIN["squad"]
    examples = reader.read_examples(
        task, _QUESTIONS, "dev", label=read_label, with_label=False
    )
    rows = dataset.featurise(
        examples,
        Tokenizer(_VOCAB),
        max_seq_length=_LENGTH,
        doc_stride=_STRIDE,
        max_query_length=64,
    )
    return examples, rows


def drawn_logits(rows: Features) -> Ragged:
    """The start's and the end's, for each token of each row."""
    offsets = np.concatenate([[0], np.cumsum(rows.lengths)])
    values = np.random.default_rng(1).normal(0, 3, (offsets[-1], 2))
    return Ragged(values.astype(np.float32), offsets)


def ours(
    folder: pathlib.Path,
    examples: list[Example],
    rows: Features,
    logits: Ragged,
    *,
    runs: int,
) -> list[float]:
    """The processor seconds of each run, which writes to the folder."""
    seconds = []
    for _ in range(runs):
        began = time.process_time()
        scored = AnsweredSet({"logits": logits}, rows, lambda: examples, choice=_CHOICE)
        made = predictions.decide(scored).files
        for name, parts in made.items():
            (folder / name).write_text("".join(parts), "utf-8")
        seconds.append(time.process_time() - began)
        assert len(json.loads(made["predictions.json"][0])) == len(examples)
    return seconds


def googles(
    folder: pathlib.Path, rows: Features, logits: Ragged, *, runs: int
) -> list[float]:
    """The processor seconds of each run, in a process of its own."""
    padded = np.full((len(rows), _LENGTH, 2), -1e4, np.float32)
    padded[np.arange(_LENGTH) < rows.lengths[:, None]] = logits.values
    arrays = {str(index): one for index, one in enumerate(padded)}
    np.savez(folder / "logits.npz", **arrays)  # type: ignore[arg-type]
    request = {"what": "predictions", "data": str(_QUESTIONS), "runs": runs}
    flags = {"max_seq_length": _LENGTH, "doc_stride": _STRIDE}
    request |= {"vocab_file": str(_VOCAB), "flags": flags}
    google_squad.ask(folder, request)
    return json.loads((folder / "seconds.json").read_text())


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=5)
    runs = parser.parse_args().runs
    examples, rows = questions()
    logits = drawn_logits(rows)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        found = {
            "bert_mgpu": ours(folder, examples, rows, logits, runs=runs),
            "google-research/bert": googles(folder, rows, logits, runs=runs),
        }
    medians = {name: statistics.median(own) for name, own in found.items()}
    ratio = medians["google-research/bert"] / medians["bert_mgpu"]
    for name, median in medians.items():
        print(f"{name}: {median:.2f} s of processor time, {len(rows)} windows")
    print(f"ratio: {ratio:.1f}")
    result = {"machine": machine(), "windows": len(rows), "questions": len(examples)}
    result |= {"seconds": found, "ratio": round(ratio, 2)}
    path = RESULTS / "best_answers.json"
    path.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
