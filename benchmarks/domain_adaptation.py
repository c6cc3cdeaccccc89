"""Does further pretraining pay? Headlines, by what the model read before, unlabelled.

    python benchmarks/domain_adaptation.py run     # the missing rows, one by one
    python benchmarks/domain_adaptation.py show    # the table and the plot of them

The weights of ../shared/models are pretrained further on the texts of 44,800 headlines
(masked words alone), or on as many sentences of laws as long as those, then fine-tuned
on few labelled headlines and evaluated on full_dev. Pretraining saw none of its texts:
82 that stand in the training set too are left out there. A row may be killed at any
time: the same command resumes it. Results are appended to
benchmarks/results/domain_adaptation.json.
"""

from __future__ import annotations

import functools
import pathlib
import random
import shutil
import statistics
import threading
import time

import accuracy
import corpora
import experiments
import further
from experiments import Row, Table
from harness import RESULTS, ROOT, SHARED

WORK = ROOT / "build" / "domain_adaptation"
PLOT = ROOT / "docs" / "domain_adaptation.png"
TEXTS = 44_800
MEASURED = ("eval_accuracy", "eval_loss", "seconds")
STARTS = {
    "as published": "the weights as published",
    "headlines": "pretrained further on headlines",
    "laws": "pretrained further on laws",
}
EPOCHS = {500: 6, 2_000: 3, 10_000: 2}  # of fine-tuning, by its rows


def planned() -> list[Row]:
    """Three seeds of 2,000 rows, then one of the others."""
    rows = [(2_000, seed) for seed in (1, 2, 3)] + [(500, 1), (10_000, 1)]
    return [
        {"start": start, "rows": count, "epochs": EPOCHS[count], "seed": seed}
        for count, seed in rows
        for start in STARTS
    ]


def _texts(start: str) -> list[str]:
    """TEXTS texts: headlines, or sentences of laws that are as long (19 characters)."""
    found = [text for document in corpora.CORPORA[start]() for text in document]
    if start == "headlines":
        lines = (SHARED / "data" / "thucnews_title" / "full_dev.txt").read_text("utf-8")
        evaluated = {line.partition("\t")[0] for line in lines.splitlines()}
        found = [text for text in found if text not in evaluated]
    else:
        found = sorted({text for text in found if 8 <= len(text) <= 27})
    return random.Random(1).sample(found, TEXTS)


def _weights(start: str) -> pathlib.Path:
    """Where fine-tuning starts; pretrained first, or on, where that is not done."""
    if start not in corpora.CORPORA:
        return accuracy.WORK / "model" / "bert_model.ckpt"
    with _PRETRAINED[start]:
        return further.pretrained(WORK / start, functools.partial(_texts, start))


# Several workers may need one.
_PRETRAINED = {start: threading.Lock() for start in STARTS}


def _run(row: Row) -> Row:
    began = time.time()
    values = {"n_gpus": 1, "train_batch_size": 32, "lr_scaling": "none"}
    values |= {"learning_rate": 1e-4, "dev": "full_dev.txt"} | row
    # Google's optimizer takes steps that are too long where there are so few.
    values |= {"optimizer": "adamw", "precision": "bfloat16"}
    output = WORK / "runs" / experiments.name_of(row)
    flags = accuracy.flags_of({k: v for k, v in values.items() if k != "start"})
    where = {"init_checkpoint": _weights(row["start"]), "output_dir": output}
    experiments.call("run_classifier_mgpu.py", flags | where)
    scores = experiments.scores(output)
    shutil.rmtree(output)
    found = {name: scores[name] for name in MEASURED[:2]}
    return row | found | {"seconds": round(time.time() - began)}


def _accuracies() -> dict[int, dict[str, list[float]]]:
    found: dict[int, dict[str, list[float]]] = {}
    for row in TABLE.results():
        of_start = found.setdefault(row["rows"], {})
        of_start.setdefault(row["start"], []).append(100 * row["eval_accuracy"])
    return dict(sorted(found.items()))


def _error(values: list[float]) -> float:
    """Standard error over seeds; of one run, that of 10,000 evaluated rows."""
    if len(values) > 1:
        return statistics.stdev(values) / len(values) ** 0.5
    share = values[0] / 100
    return 100 * (share * (1 - share) / 10_000) ** 0.5


def _gain(cells: list[list[float]]) -> str:
    """Of headlines over the weights as published: paired by seed, if there are more."""
    pairs = [after - before for before, after in zip(*cells[:2], strict=False)]
    if len(pairs) < 2:
        return "".join(f"{gain:+.2f}" for gain in pairs)
    return f"{statistics.mean(pairs):+.2f} ± {_error(pairs):.2f}"


def table() -> str:
    lines = [
        f"| labelled rows x epochs | {' | '.join(STARTS.values())}"
        " | gain by headlines | seeds |",
        "|---|---|---|---|---|---|",
    ]
    for rows, of_start in _accuracies().items():
        cells = [of_start.get(start, []) for start in STARTS]
        shown = [
            f"{statistics.mean(cell):.2f} ± {_error(cell):.2f}" if cell else ""
            for cell in cells
        ]
        seeds = max(map(len, cells))
        shown.append(_gain(cells))
        lines.append(f"| {rows:,} x {EPOCHS[rows]} | {' | '.join(shown)} | {seeds} |")
    return "\n".join(lines)


def plot() -> None:
    found = _accuracies()
    along, upwards = "labelled headlines", "accuracy on 10,000 others, %"
    with experiments.picture(PLOT, along, upwards) as axes:
        for start, name in STARTS.items():
            points = {rows: of[start] for rows, of in found.items() if start in of}
            axes.errorbar(
                [*points],
                [statistics.mean(values) for values in points.values()],
                [_error(values) for values in points.values()],
                marker="o",
                capsize=3,
                label=name,
            )
        axes.set_xscale("log")
        axes.set_xticks([*EPOCHS], [f"{rows:,}" for rows in EPOCHS])


def _show() -> None:
    print(table())
    plot()


TABLE = Table(RESULTS / "domain_adaptation.json", planned(), MEASURED)

if __name__ == "__main__":
    experiments.main(__doc__, TABLE, _run, _show, accuracy.prepare)
