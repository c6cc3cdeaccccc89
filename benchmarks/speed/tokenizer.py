"""How fast texts become ids on one thread, beside three other tokenizers.

    python -m benchmarks.speed.tokenizer [--texts=FILE] [--vocab_file=FILE]
      [--runs=5]

Runs are interleaved, so that other load on the machine meets all alike; medians
count. "Cold" is a new object that has met no text. The last column counts the
texts that get the very ids of google-research/bert. Reading the vocabulary is
not timed. Needs tokenizers, tensorflow-text and bert-tensorflow==1.0.4.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

# Before the imports that read them: one thread everywhere, and no GPU.
os.environ.update(
    TOKENIZERS_PARALLELISM="false",
    RAYON_NUM_THREADS="1",
    OMP_NUM_THREADS="1",
    CUDA_VISIBLE_DEVICES="",
    TF_CPP_MIN_LOG_LEVEL="3",
)

import tensorflow as tf
import tensorflow_text
import tokenizers
from absl import flags
from bert import tokenization  # type: ignore[import-untyped]

from benchmarks.harness import RESULTS, SHARED, machine
from bert_mgpu.core.rows import Ragged
from bert_mgpu.text.tokenization import Tokenizer

PACKAGES = ("tokenizers", "tensorflow", "tensorflow-text", "bert-tensorflow")

Encode = Callable[[list[str]], Any]  # texts -> ids, in the library's own form


def ours(vocab_file: str) -> Encode:
    return Tokenizer(vocab_file).batch_ids


def hugging_face(vocab_file: str) -> Encode:
    tokenizer = tokenizers.BertWordPieceTokenizer(vocab_file)
    return lambda texts: tokenizer.encode_batch(texts, add_special_tokens=False)


def tensorflow_texts(vocab_file: str) -> Encode:
    tokenizer = tensorflow_text.BertTokenizer(vocab_file, lower_case=True)
    return lambda texts: tokenizer.tokenize(texts).merge_dims(-2, -1)


def googles(vocab_file: str) -> Encode:
    tokenizer = tokenization.FullTokenizer(vocab_file)
    return lambda texts: [
        tokenizer.convert_tokens_to_ids(tokenizer.tokenize(text)) for text in texts
    ]


def ragged_rows(batch: Ragged) -> list[list[int]]:
    return [batch.row(row).tolist() for row in range(len(batch.lengths))]


class Contender(NamedTuple):
    make: Callable[[str], Encode]  # from a vocabulary file
    as_lists: Callable[[Any], list[list[int]]]  # ids of each text
    cold: bool = False  # made anew for each run


RUST = "Hugging Face tokenizers, Rust"
GOOGLE = "google-research/bert, Python"
CONTENDERS = {
    "bert_mgpu, cold": Contender(ours, ragged_rows, cold=True),
    "bert_mgpu, warm": Contender(ours, ragged_rows),
    RUST: Contender(hugging_face, lambda texts: [text.ids for text in texts]),
    "tensorflow-text, C++": Contender(tensorflow_texts, lambda ids: ids.to_list()),
    GOOGLE: Contender(googles, list),
}


def measure(texts: list[str], vocab_file: str, runs: int) -> dict[str, Any]:
    """Texts a second (median, and each run) and texts with Google's ids."""
    encoders = {name: each.make(vocab_file) for name, each in CONTENDERS.items()}
    ids = {
        name: each.as_lists(encoders[name](texts)) for name, each in CONTENDERS.items()
    }
    rates: dict[str, list[float]] = {name: [] for name in CONTENDERS}
    for _ in range(runs):
        for name, each in CONTENDERS.items():
            encode = each.make(vocab_file) if each.cold else encoders[name]
            start = time.perf_counter()
            encode(texts)
            rates[name].append(len(texts) / (time.perf_counter() - start))
    return {
        name: {
            "texts_per_second": round(statistics.median(rates[name])),
            "runs": [round(rate) for rate in rates[name]],
            "as_google": sum(map(list.__eq__, ids[name], ids[GOOGLE])),
        }
        for name in CONTENDERS
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--texts", default=SHARED / "data" / "thucnews_title" / "sub_train.txt"
    )
    parser.add_argument(
        "--vocab_file", default=SHARED / "data" / "vocab" / "chinese_vocab.txt"
    )
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--output", default=RESULTS / "tokenizer.json")
    args = parser.parse_args()
    flags.FLAGS(sys.argv[:1])  # Google's tokenizer reads one of them
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    lines = pathlib.Path(args.texts).read_text(encoding="utf-8").rstrip("\n")
    texts = [line.split("\t")[0] for line in lines.split("\n")]

    results = measure(texts, str(args.vocab_file), args.runs)
    about = machine(*PACKAGES)
    print(f"{len(texts)} texts; median of {args.runs}; {about}\n")
    print("| tokenizer | texts/s | times Rust | ids as Google's |")
    print("|---|---:|---:|---:|")
    rust = results[RUST]["texts_per_second"]
    for name, result in results.items():
        rate = result["texts_per_second"]
        print(f"| {name} | {rate:,} | {rate / rust:.2f} | {result['as_google']:,} |")
    record = {"texts": len(texts), "machine": about, "results": results}
    pathlib.Path(args.output).write_text(json.dumps(record, indent=2) + "\n")


if __name__ == "__main__":
    main()
