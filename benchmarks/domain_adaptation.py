"""Does further pretraining pay? Headlines, by what the model read before, unlabelled.

    python benchmarks/domain_adaptation.py run      # the next missing rows, one by one
    python benchmarks/domain_adaptation.py show     # the table and the plot of them

The weights of ../shared/models are pretrained further on the texts of 45,000 headlines
(masked words alone), or on as many sentences of laws as long as those, then fine-tuned
on few labelled headlines and evaluated on full_dev, which no pretraining saw. A row may
be killed at any time: the same command resumes it. Results are appended to
benchmarks/results/domain_adaptation.json.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import random
import shutil
import statistics
import subprocess
import sys
import time
from typing import Any

import accuracy
import corpora
from harness import RESULTS, ROOT

WORK = ROOT / "build" / "domain_adaptation"
JSON = RESULTS / "domain_adaptation.json"
PLOT = ROOT / "docs" / "domain_adaptation.png"
LENGTH, MASKED, TEXTS = 32, 6, 45_000
STARTS = {
    "as published": "the weights as published",
    "headlines": "pretrained further on headlines",
    "laws": "pretrained further on laws",
}
EPOCHS = {500: 6, 2_000: 3, 10_000: 2}  # of fine-tuning, by its rows
PRETRAINING = {"train_batch_size": 32, "padding": "bucket", "seed": 1}
# The weights have no head for masked words: it learns alone first.
HEAD = {"num_train_steps": 700, "num_warmup_steps": 70, "learning_rate": 1e-3}
HEAD |= {"freeze": "^bert/"}
ALL = {"num_train_steps": 5625, "num_warmup_steps": 560, "learning_rate": 5e-5}


def planned() -> list[dict[str, Any]]:
    """Three seeds of 2,000 rows, then one of the others."""
    rows = [(2_000, seed) for seed in (1, 2, 3)] + [(500, 1), (10_000, 1)]
    return [
        {"start": start, "rows": count, "epochs": EPOCHS[count], "seed": seed}
        for count, seed in rows
        for start in STARTS
    ]


def _texts(start: str) -> pathlib.Path:
    """45,000 texts, a line each: headlines, or sentences of laws of like length."""
    path = WORK / f"{start}.txt"
    if not path.exists():
        documents = corpora.CORPORA[start]()
        found = [text for document in documents for text in document]
        if start != "headlines":
            found = sorted({text for text in found if 12 <= len(text) <= 30})
        chosen = random.Random(1).sample(found, TEXTS)
        path.write_text("".join(f"{text}\n" for text in chosen), encoding="utf-8")
    return path


def _call(script: str, flags: dict[str, Any]) -> None:
    given = [f"--{name}={value}" for name, value in flags.items()]
    subprocess.run([sys.executable, ROOT / script, *given], check=True)


def _weights(start: str) -> pathlib.Path:
    """Where fine-tuning starts; pretrained first, or on, where that is not done."""
    model = accuracy.WORK / "model"
    if start not in corpora.CORPORA:
        return model / "bert_model.ckpt"
    WORK.mkdir(parents=True, exist_ok=True)
    records, output = WORK / f"{start}.tfrecord", WORK / f"pretrained-{start}"
    common = {"vocab_file": model / "vocab.txt", "max_seq_length": LENGTH}
    common |= {"dynamic_masking": "true"}
    if not records.exists():
        flags = {"input_file": _texts(start), "output_file": records}
        flags |= {"objective": "mlm"}
        _call("data_prep/create_pretraining_data.py", common | flags)
    flags = {"input_file": records, "do_train": "true", "hidden_act": "gelu_erf"}
    flags |= {"bert_config_file": model / "bert_config.json"}
    flags |= {"max_predictions_per_seq": MASKED, "keep_checkpoint_max": 1}
    head, first = WORK / f"head-{start}", model / "bert_model.ckpt"
    for folder, begin, stage in ((head, first, HEAD), (output, head, ALL)):
        where = {"output_dir": folder, "init_checkpoint": begin}
        _call("run_pretraining_mgpu.py", common | flags | PRETRAINING | stage | where)
    return output


def _run(row: dict[str, Any]) -> dict[str, Any]:
    began = time.time()
    values = {"n_gpus": 1, "train_batch_size": 32, "lr_scaling": "none"}
    values |= {"learning_rate": 1e-4, "dev": "full_dev.txt"} | row
    arguments = accuracy.arguments_of({k: v for k, v in values.items() if k != "start"})
    kept = [a for a in arguments if not a.startswith("--init_checkpoint=")]
    output = WORK / "runs" / "-".join(map(str, row.values())).replace(" ", "_")
    command = [sys.executable, ROOT / "run_classifier_mgpu.py", *kept]
    command += [f"--init_checkpoint={_weights(row['start'])}", f"--output_dir={output}"]
    subprocess.run(command, check=True)
    text = (output / "eval_results.txt").read_text()
    scores = dict(line.split(" = ") for line in text.splitlines())
    shutil.rmtree(output)
    found = {name: float(scores[name]) for name in ("eval_accuracy", "eval_loss")}
    return row | found | {"seconds": round(time.time() - began)}


def _results() -> list[dict[str, Any]]:
    return json.loads(JSON.read_text()) if JSON.exists() else []


def run(limit: int) -> None:
    accuracy.prepare()
    for _ in range(limit):
        done = _results()
        known = [{name: row[name] for name in planned()[0]} for row in done]
        left = [row for row in planned() if row not in known]
        if not left:
            return
        done.append(_run(left[0]))
        JSON.write_text(json.dumps(done, indent=1) + "\n")


def _accuracies() -> dict[int, dict[str, list[float]]]:
    found: dict[int, dict[str, list[float]]] = {}
    for row in _results():
        of_start = found.setdefault(row["rows"], {})
        of_start.setdefault(row["start"], []).append(100 * row["eval_accuracy"])
    return dict(sorted(found.items()))


def _error(values: list[float]) -> float:
    """Standard error over seeds; of one run, that of 10,000 evaluated rows."""
    if len(values) > 1:
        return statistics.stdev(values) / len(values) ** 0.5
    share = values[0] / 100
    return 100 * (share * (1 - share) / 10_000) ** 0.5


def table() -> str:
    lines = [
        f"| labelled rows x epochs | {' | '.join(STARTS.values())} | seeds |",
        "|---|---|---|---|---|",
    ]
    for rows, of_start in _accuracies().items():
        cells = [of_start.get(start, []) for start in STARTS]
        shown = [
            f"{statistics.mean(cell):.2f} ± {_error(cell):.2f}" if cell else ""
            for cell in cells
        ]
        seeds = max(map(len, cells))
        lines.append(f"| {rows:,} x {EPOCHS[rows]} | {' | '.join(shown)} | {seeds} |")
    return "\n".join(lines)


def plot() -> None:
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6.4, 4.0), layout="constrained")
    found = _accuracies()
    for start, name in STARTS.items():
        points = [
            (rows, of_start[start])
            for rows, of_start in found.items()
            if start in of_start
        ]
        axes.errorbar(
            [rows for rows, _ in points],
            [statistics.mean(values) for _, values in points],
            [_error(values) for _, values in points],
            marker="o",
            capsize=3,
            label=name,
        )
    axes.set_xscale("log")
    axes.set_xticks([*EPOCHS], [f"{rows:,}" for rows in EPOCHS])
    axes.set_xlabel("labelled headlines")
    axes.set_ylabel("accuracy on 10,000 others, %")
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(PLOT, dpi=120)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("run", "show"))
    parser.add_argument("--limit", type=int, default=1000, help="rows at most")
    arguments = parser.parse_args()
    if arguments.what == "run":
        run(arguments.limit)
    else:
        print(table())
        plot()
