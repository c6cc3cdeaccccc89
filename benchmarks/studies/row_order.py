"""The low seed of learning_quality.py: its weights, other orders of rows and dropout.

    python -m benchmarks.studies.row_order run    # the missing rows
    python -m benchmarks.studies.row_order show   # the table of what is there

With the shop reviews and first weights of seed 2, at 1e-4, AdamW was 5 points below
transformers, which reads the rows in another order. Here both read them in the order
that one of our seeds gives, with dropout by the same seed or another. A training takes
15 to 20 minutes on one core of AMD EPYC. Results are appended to
benchmarks/results/row_order.json. Needs what learning_quality.py needs, after it.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator

from benchmarks import runner
from benchmarks.harness import RESULTS
from benchmarks.runner import Row, Table
from benchmarks.studies import learning_quality
from benchmarks.studies.learning_quality import ADAMW, THEIRS
from bert_mgpu.data import batching

_CASE = {"set": "shopping (zh, 10 labels)", "rate": 1e-4, "seed": 2}
_BFLOAT16, _FLOAT32 = "bfloat16", "float32"
_NAMES = ("order", "dropout", "precision", "by")
# A row of learning_quality.json.
_KNOWN = dict(zip(_NAMES, (2, 2, _BFLOAT16, ADAMW), strict=True))
_PLANNED = [
    dict(zip(_NAMES, values, strict=True))
    for values in (
        (2, 2, _BFLOAT16, THEIRS),
        (12, 12, _BFLOAT16, ADAMW),
        (12, 12, _BFLOAT16, THEIRS),
        (22, 22, _BFLOAT16, ADAMW),
        (2, 12, _BFLOAT16, ADAMW),
        (12, 2, _BFLOAT16, ADAMW),
        (2, 2, _FLOAT32, ADAMW),
        (2, 2, _FLOAT32, THEIRS),
        (2, 12, _BFLOAT16, THEIRS),
    )
]
TABLE = Table(RESULTS / "row_order.json", _PLANNED, ("accuracy", "seconds"))
# run_classifier_mgpu.py, but for the order of its rows.
_PROGRAM = """
import sys
from bert_mgpu.core.rng.shuffles import SHUFFLES
kind = type(SHUFFLES["counters"])
drawn, order = kind.epoch, int(sys.argv.pop(1))
kind.epoch = lambda *args, seed: drawn(*args, seed=order)
from bert_mgpu.cli import run_classifier
sys.exit(run_classifier.main())
"""


def _order(rows: int, batch: int, seed: int) -> Iterator[int]:
    """Our order of the rows, over all epochs."""
    for step in itertools.count():
        numbers = batching.rows_of_step(rows, batch, step, seed=seed)
        yield from (numbers % rows).tolist()


def work(row: Row) -> Row:
    """The accuracy and seconds of a row of the plan."""
    case, began = _CASE | {"by": row["by"]}, time.time()
    run = learning_quality.prepared(case)
    start = learning_quality.first_weights(case, run)
    asked = case | {"seed": row["dropout"], "precision": row["precision"]}
    if row["by"] == THEIRS:
        rows, batch = len(run.data.read("train")[0]), run.config.train_batch_size
        order = _order(rows, batch, row["order"])
        accuracy, _ = learning_quality.theirs(asked, run, start, order)
    else:
        program = ["-c", _PROGRAM, str(row["order"])]
        accuracy, _ = learning_quality.ours(asked, start, program)
    seconds = round(time.time() - began)
    return row | {"accuracy": round(accuracy, 4), "seconds": seconds}


def table() -> Iterator[str]:
    known = _CASE | {"by": ADAMW}
    earlier = [
        one | _KNOWN
        for one in learning_quality.TABLE.results()
        if known.items() <= one.items()
    ]
    results = [*earlier, *TABLE.results()]
    found = {tuple(one[name] for name in _NAMES): one["accuracy"] for one in results}
    yield f"| rows as by --seed | dropout as by | precision | {ADAMW} | {THEIRS} |"
    yield "|---|---|---|---|---|"
    for case in dict.fromkeys(one[:-1] for one in found):
        cells = [found.get((*case, by)) for by in (ADAMW, THEIRS)]
        texts = [f"{100 * cell:.2f}" if cell else "-" for cell in cells]
        yield f"| {' | '.join(map(str, case))} | {' | '.join(texts)} |"


if __name__ == "__main__":
    runner.main(__doc__, TABLE, work, lambda: print(*table(), sep="\n"))
