"""How fast texts become ids in an exported model, by each --export_tokenizer.

    python -m benchmarks.speed.exported_tokenizer [--texts=FILE] [--vocab_file=FILE]
      [--runs=5]

The tokenizers alone, saved and loaded, on one thread, by processor time. Runs are
interleaved, so that other load on the machine meets all alike; medians count. Ends with
an error where ids are not those of `Tokenizer`. Needs tensorflow-text.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import statistics
import tempfile
import time
from typing import Any

os.environ.update(CUDA_VISIBLE_DEVICES="", TF_CPP_MIN_LOG_LEVEL="3")

import tensorflow as tf

from benchmarks.harness import RESULTS, SHARED, machine
from bert_mgpu.export.kernel_tokenizer import IN_GRAPH
from bert_mgpu.text.tokenization import Tokenizer

_TEXTS = 10_000
_MOST_BATCHES = 1_000  # in a run: enough for batches of a single text
SIZES = (1, 64, _TEXTS)  # of batches


class Saved(tf.Module):  # type: ignore[misc]
    """A tokenizer as the one signature of a SavedModel."""

    def __init__(self, tokenizer: Tokenizer, name: str):
        super().__init__()
        self._tokenize = IN_GRAPH[name](tokenizer)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)], autograph=False)
    def ids(self, texts: tf.Tensor) -> tf.RaggedTensor:
        return self._tokenize(texts)


def loaded(tokenizer: Tokenizer) -> dict[str, Any]:
    """Value of --export_tokenizer -> function from texts to ids, saved and loaded."""
    functions = {}
    for name in IN_GRAPH:
        with tempfile.TemporaryDirectory() as folder:
            tf.saved_model.save(Saved(tokenizer, name), folder)
            functions[name] = tf.saved_model.load(folder).ids
    return functions


def measure(texts: list[str], tokenizer: Tokenizer, runs: int) -> list[dict[str, Any]]:
    """Texts per second of CPU time, for each tokenizer and batch size.

    The median, and the rate of each run.
    """
    functions = loaded(tokenizer)
    expected = [tokenizer.ids(text) for text in texts]
    for name, function in functions.items():
        if function(tf.constant(texts)).to_list() != expected:
            raise SystemExit(f"{name}: ids differ from those of Tokenizer")
    rows = []
    for size in SIZES:
        starts = range(0, len(texts), size)[:_MOST_BATCHES]
        batches = [tf.constant(texts[start : start + size]) for start in starts]
        count = sum(len(batch) for batch in batches)
        rates: dict[str, list[float]] = {name: [] for name in functions}
        for _ in range(runs):
            for name, function in functions.items():
                begin = time.process_time()
                for batch in batches:
                    function(batch)
                rates[name].append(count / (time.process_time() - begin))
        for name, own in rates.items():
            row = {"batch": size, "texts": count, "export_tokenizer": name}
            row["texts_per_second"] = round(statistics.median(own))
            rows.append(row | {"runs": [round(rate) for rate in own]})
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--texts", default=SHARED / "data" / "thucnews_title" / "sub_train.txt"
    )
    parser.add_argument(
        "--vocab_file", default=SHARED / "data" / "vocab" / "chinese_vocab.txt"
    )
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--output", default=RESULTS / "exported_tokenizer.json")
    args = parser.parse_args()
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    lines = pathlib.Path(args.texts).read_text(encoding="utf-8").split("\n")[:_TEXTS]
    texts = [line.split("\t")[0] for line in lines]

    rows = measure(texts, Tokenizer(args.vocab_file), args.runs)
    about = machine("tensorflow", "tensorflow-text")
    print(f"{len(texts)} texts; median of {args.runs}; {about}\n")
    print("| texts at once | --export_tokenizer | texts/s of processor time |")
    print("|---:|---|---:|")
    for row in rows:
        rate = f"{row['texts_per_second']:,}"
        print(f"| {row['batch']:,} | {row['export_tokenizer']} | {rate} |")
    record = {"machine": about, "results": rows}
    pathlib.Path(args.output).write_text(json.dumps(record, indent=2) + "\n")


if __name__ == "__main__":
    main()
