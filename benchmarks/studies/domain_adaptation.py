"""Does further pretraining pay? Headlines, by what the model read before, unlabelled.

    python -m benchmarks.studies.domain_adaptation run    # the missing rows
    python -m benchmarks.studies.domain_adaptation show   # their table and plot

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
from typing import NamedTuple

from benchmarks import corpora, runner
from benchmarks.harness import RESULTS, ROOT, SHARED
from benchmarks.runner import Row, Table
from benchmarks.studies import accuracy_by_towers, further_pretraining

WORK = ROOT / "build" / "domain_adaptation"
PLOT = ROOT / "docs" / "domain_adaptation.png"
TEXTS = 44_800
MEASURED = ("eval_accuracy", "eval_loss", "seconds")


class Start(NamedTuple):
    """Where fine-tuning starts."""

    title: str
    corpus: str | None = None  # of the further pretraining


STARTS = {
    "as published": Start("the weights as published"),
    "headlines": Start("pretrained further on headlines", "headlines"),
    "laws": Start("pretrained further on laws", "laws"),
}
FINE_TUNED = ((500, 6), (2_000, 3), (2_000, 10), (10_000, 2))  # rows, epochs of them


def planned() -> list[Row]:
    """The runs with 2,000 rows have three seeds, the others one."""
    return [
        {"start": start, "rows": count, "epochs": epochs, "seed": seed}
        for count, epochs in FINE_TUNED
        for seed in ((1, 2, 3) if count == 2_000 else (1,))
        for start in STARTS
    ]


def _texts(corpus: str) -> list[str]:
    """TEXTS texts: headlines, or sentences of laws about as long (19 characters)."""
    found = [text for document in corpora.CORPORA[corpus]() for text in document]
    if corpus == "headlines":
        lines = (SHARED / "data" / "thucnews_title" / "full_dev.txt").read_text("utf-8")
        evaluated = {line.partition("\t")[0] for line in lines.splitlines()}
        found = [text for text in found if text not in evaluated]
    else:
        found = sorted({text for text in found if 8 <= len(text) <= 27})
    return random.Random(1).sample(found, TEXTS)


def _weights(start: str) -> pathlib.Path:
    """The weights where fine-tuning starts; made or completed first if necessary."""
    _, corpus = STARTS[start]
    if corpus is None:
        return accuracy_by_towers.WORK / "model" / "bert_model.ckpt"
    with _PRETRAINED[start]:
        texts = functools.partial(_texts, corpus)
        return further_pretraining.pretrained(WORK / start, texts)


# Several workers may need the same weights.
_PRETRAINED = {start: threading.Lock() for start in STARTS}


def _run(row: Row) -> Row:
    began = time.time()
    values = {"n_gpus": 1, "train_batch_size": 32, "lr_scaling": "none"}
    values |= {"learning_rate": 1e-4, "dev": "full_dev.txt"} | row
    # With so few steps, those of Google's optimizer are too long.
    values |= {"optimizer": "adamw", "precision": "bfloat16"}
    output = WORK / "runs" / runner.name_of(row)
    row_of_accuracy = {k: v for k, v in values.items() if k != "start"}
    flags = accuracy_by_towers.flags_of(row_of_accuracy)
    where = {"init_checkpoint": _weights(row["start"]), "output_dir": output}
    runner.call("run_classifier_mgpu.py", flags | where)
    scores = runner.scores(output)
    shutil.rmtree(output)
    found = {name: scores[name] for name in MEASURED[:2]}
    return row | found | {"seconds": round(time.time() - began)}


def _accuracies() -> dict[tuple[int, int], dict[str, list[float]]]:
    """(rows, epochs) -> start -> percent of each seed."""
    found: dict[tuple[int, int], dict[str, list[float]]] = {}
    for row in TABLE.results():
        of_start = found.setdefault((row["rows"], row["epochs"]), {})
        of_start.setdefault(row["start"], []).append(100 * row["eval_accuracy"])
    return dict(sorted(found.items()))


def _error(values: list[float]) -> float:
    """The standard error over seeds; for a single run, over 10,000 evaluated rows."""
    if len(values) > 1:
        return statistics.stdev(values) / len(values) ** 0.5
    share = values[0] / 100
    return 100 * (share * (1 - share) / 10_000) ** 0.5


def _gain(before: list[float], after: list[float]) -> str:
    """The gain over the published weights, paired by seed if there are several."""
    pairs = [new - old for old, new in zip(before, after, strict=False)]
    error = f" ± {_error(pairs):.2f}" if len(pairs) > 1 else ""
    return f"{statistics.mean(pairs):+.2f}{error}"


def table() -> str:
    """The table; gains are over the published weights, paired by seed."""
    lines = ["| labelled rows x epochs | start | accuracy, % | gain | seeds |"]
    lines.append("|---|---|---|---|---|")
    for (rows, epochs), found in _accuracies().items():
        first = found["as published"]
        for start, values in found.items():
            shown = f"{statistics.mean(values):.2f} ± {_error(values):.2f}"
            gain = "" if values is first else _gain(first, values)
            what = f"{rows:,} x {epochs}", STARTS[start].title
            lines.append(f"| {' | '.join((*what, shown, gain, str(len(values))))} |")
    return "\n".join(lines)


def plot() -> None:
    found = _accuracies()
    names = [f"{rows:,} x {epochs}" for rows, epochs in found]
    along, upwards = "labelled headlines x epochs", "accuracy on 10,000 others, %"
    with runner.picture(PLOT, along, upwards) as axes:
        for number, (start, (title, *_)) in enumerate(STARTS.items()):
            there = [i for i, of in enumerate(found.values()) if start in of]
            if not there:
                continue
            values = [[*found.values()][i][start] for i in there]
            axes.errorbar(
                [i + 0.12 * (number - 1) for i in there],
                [statistics.mean(one) for one in values],
                [_error(one) for one in values],
                fmt="o",
                capsize=3,
                label=title,
            )
        axes.set_xticks(range(len(names)), names)
        axes.set_xlim(-0.5, len(names) - 0.5)


def _show() -> None:
    print(table())
    plot()


TABLE = Table(RESULTS / "domain_adaptation.json", planned(), MEASURED)

if __name__ == "__main__":
    runner.main(__doc__, TABLE, _run, _show, accuracy_by_towers.prepare)
