"""Checks whether the ids of every line of ../shared/data are google-research/bert's.

Both for the Python tokenizer and for the tokenizer in the graph of a SavedModel.

    python -m benchmarks.parity.token_ids [FOLDER ...]

With both vocabularies, uncased as their models are. Takes some ten minutes, because of
Google's code. Writes benchmarks/results/all_texts.json; exit code 1 if a line differs.
Needs bert-tensorflow==1.0.4.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import tensorflow as tf
from absl import flags
from bert import tokenization  # type: ignore[import-untyped]

from benchmarks.harness import RESULTS, SHARED, machine
from bert_mgpu.export.graph_tokenizer import GraphTokenizer
from bert_mgpu.text.tokenization import Tokenizer
from tests.text.test_tokenization import FOLDERS, lines_of

_AT_ONCE = 512  # lines
VOCABULARIES = ("chinese", "uncased")


def compare(folder: str, vocabulary: str) -> dict[str, Any]:
    vocab_file = str(SHARED / "data" / "vocab" / f"{vocabulary}_vocab.txt")
    lines = lines_of(folder)
    google = tokenization.FullTokenizer(vocab_file)
    tokenizer = Tokenizer(vocab_file)
    ours = tokenizer.batch_ids(lines)
    differ = 0
    for row, line in enumerate(lines):
        theirs = google.convert_tokens_to_ids(google.tokenize(line))
        differ += ours.row(row).tolist() != theirs
    in_graph = tf.function(GraphTokenizer(tokenizer).__call__, reduce_retracing=True)
    differ_in_graph = 0
    for first in range(0, len(lines), _AT_ONCE):
        block = [line.encode() for line in lines[first : first + _AT_ONCE]]
        for row, ids in enumerate(in_graph(tf.constant(block)).to_list(), first):
            differ_in_graph += ours.row(row).tolist() != ids
    return {
        "folder": folder,
        "vocabulary": vocabulary,
        "lines": len(lines),
        "characters": sum(map(len, lines)),
        "differ": differ,
        "differ_in_graph": differ_in_graph,
    }


def main() -> int:
    if not SHARED.is_dir():
        print(f"no texts to compare: {SHARED} is not there")
        return 0
    flags.FLAGS(sys.argv[:1])  # Google's code reads a flag
    found = []
    for folder in sys.argv[1:] or FOLDERS:
        for vocabulary in VOCABULARIES:
            found.append(compare(folder, vocabulary))
            print(*found[-1].values(), flush=True)
    if not sys.argv[1:]:
        path = RESULTS / "all_texts.json"
        record = {"machine": machine("bert-tensorflow"), "texts": found}
        path.write_text(json.dumps(record, indent=1) + "\n")
    return int(any(one["differ"] or one["differ_in_graph"] for one in found))


if __name__ == "__main__":
    sys.exit(main())
