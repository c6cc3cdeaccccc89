"""How many pairs of texts become edit scripts in a second.

    python -m benchmarks.speed.edits [--runs=5]

The pairs on which rewriting is trained: 18,000 utterances and the sentences to split,
as tokens. Processor time of one thread, medians. Needs ../shared.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time

from benchmarks import pairs
from benchmarks.harness import RESULTS, SHARED, machine
from bert_mgpu.text import edits
from bert_mgpu.text.tokenization import Tokenizer

_SETS = {
    "utterances": (pairs.utterances, "chinese"),
    "sentences": (pairs.sentences, "uncased"),
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=5)
    runs = parser.parse_args().runs
    result: dict[str, object] = {"machine": machine()}
    for name, (read, vocabulary) in _SETS.items():
        tokenizer = Tokenizer(SHARED / "data" / "vocab" / f"{vocabulary}_vocab.txt")
        rows = read()["train"]
        sources, targets = (
            [tokenizer.ids(row[key]) for row in rows] for key in ("source", "target")
        )
        seconds = []
        for _ in range(runs):
            began = time.process_time()
            scripts = [*edits.edits_of([*zip(sources, targets, strict=True)])]
            seconds.append(time.process_time() - began)
            assert len(scripts) == len(rows)
        speed = round(len(rows) / statistics.median(seconds))
        result[name] = {"pairs": len(rows), "pairs_a_second": speed}
        print(name, result[name], flush=True)
    path = RESULTS / "edits.json"
    path.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
