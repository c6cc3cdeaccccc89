"""Which of two Japanese ads people prefer: ranking of groups of two rows.

    python -m benchmarks.studies.ad_preference run    # the missing rows
    python -m benchmarks.studies.ad_preference show   # the table of what is there

AdParaphrase v2: an ad, a rewriting of it, and how many of ten people preferred each;
pairs that tie are left out. An ad is the first text of a row and its rival the second.
hit_at_1 is then the share of pairs whose order is that of most people. Weights of 12
layers x 384 with a Chinese vocabulary, one seed, with BERT's dropout of 0.1 and without
dropout, and with random new weights of BERT's standard deviation, 0.02, and of a larger
one; an epoch takes five to ten minutes on two cores. It may be killed at any time: the
same command goes on. Results are appended to benchmarks/results/ad_preference.json.
Needs ../shared.
"""

from __future__ import annotations

import csv
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator

from benchmarks import runner
from benchmarks.harness import RESULTS, ROOT, SHARED
from benchmarks.runner import Row, Table

WORK = ROOT / "build" / "ad_preference"
DATA = SHARED / "data" / "rewrite_data" / "adparaphrase_v2"
SCORES = ("hit_at_1", "eval_accuracy")
TABLE = Table(
    RESULTS / "ad_preference.json",
    [
        {"epochs": epochs, "dropout": dropout, "new_weights": deviation, "seed": 1}
        for epochs, dropout, deviation in (
            (1, 0.1, 0.02),
            (3, 0.1, 0.02),
            (3, 0, 0.15),
        )
    ],
    (*SCORES, "groups", "seconds"),
)


def rows_of(split: str) -> Iterator[dict[str, str | int]]:
    with (DATA / f"{split}.csv").open(encoding="utf-8", newline="") as file:
        for pair in csv.DictReader(file):
            votes = [int(pair[f"count.preference_ad{n}"]) for n in (1, 2)]
            if votes[0] == votes[1]:
                continue
            for own, other in ((0, 1), (1, 0)):
                yield {
                    "ad": pair[f"ad{own + 1}"],
                    "rival": pair[f"ad{other + 1}"],
                    "preferred": int(votes[own] > votes[other]),
                    "pair": pair["id"],
                }


def prepare() -> None:
    """Makes data and weights below build/ad_preference."""
    model, data = WORK / "model", WORK / "data"
    if not (model / "bert_model.ckpt.index").exists():
        script = SHARED / "models" / "make_tf1_checkpoint.py"
        subprocess.run([sys.executable, script, model], check=True)
    data.mkdir(parents=True, exist_ok=True)
    for split in ("train", "dev"):
        lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in rows_of(split))
        (data / f"{split}.jsonl").write_text("".join(lines), "utf-8")
    task = {"train": "train.jsonl", "dev": "dev.jsonl", "text_a": "ad"}
    task |= {"text_b": "rival", "label": "preferred", "group": "pair"}
    (data / "task.json").write_text(json.dumps({**task, "labels": ["0", "1"]}))


def work(row: Row) -> Row:
    """The scores of a row of the plan."""
    began, output = time.time(), WORK / "runs" / runner.name_of(row)
    goes_on = output.exists()
    dropout, deviation = row["dropout"], row["new_weights"]
    path = WORK / f"dropout-{dropout}-{deviation}.json"
    config = runner.config_with(
        WORK / "model", path, dropout=dropout, initializer_range=deviation
    )
    flags = {
        "task_name": "preference",
        "data_dir": WORK / "data",
        "init_checkpoint": WORK / "model",
        "bert_config_file": config,
        "output_dir": output,
        "do_train": True,
        "do_eval": True,
        "max_seq_length": 96,
        "train_batch_size": 32,
        "eval_batch_size": 64,
        "learning_rate": 1e-4,
        "optimizer": "adamw",
        "precision": "bfloat16",
        "hidden_act": "gelu_erf",  # as it was trained
        "num_train_epochs": row["epochs"],
        "seed": row["seed"],
        "save_checkpoints_steps": 50,
        "keep_checkpoint_max": 1,
    }
    runner.call("run_classifier_mgpu.py", flags)
    found = runner.scores(output)
    seconds = None if goes_on else round(time.time() - began)
    shutil.rmtree(output)
    count = sum(1 for _ in rows_of("dev")) // 2
    scores = {name: round(found[name], 4) for name in SCORES}
    return row | scores | {"groups": count, "seconds": seconds}


def table() -> Iterator[str]:
    names = ("epochs", "dropout", "new_weights", "seed", *SCORES, "groups")
    yield f"| {' | '.join(names)} |"
    yield f"|{'---|' * len(names)}"
    for result in TABLE.results():
        yield f"| {' | '.join(str(result[name]) for name in names)} |"


if __name__ == "__main__":
    runner.main(__doc__, TABLE, work, lambda: print(*table(), sep="\n"), prepare)
