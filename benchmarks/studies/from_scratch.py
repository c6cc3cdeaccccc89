"""What do 30 minutes of pretraining from random weights give on this machine?

    python -m benchmarks.studies.from_scratch run    # packed and not, half an hour each
    python -m benchmarks.studies.from_scratch show   # the table and the plot of them

A model of 4 layers x 256 learns masked words of laws and a newspaper, a sentence a row
as bert-ad's `mlm` has them; every twentieth document is held out, without the sentences
that others have too (statutes repeat each other). The steps are as many as half an hour
holds at the speed of a short trial. To be run on an idle machine: the clock decides.
Results are appended to benchmarks/results/from_scratch.json.
"""

from __future__ import annotations

import json
import pathlib
import shutil
import statistics
import time
from typing import Any

from benchmarks import corpora, runner
from benchmarks.harness import RESULTS, ROOT, SHARED
from benchmarks.runner import Row, Table

WORK = ROOT / "build" / "from_scratch"
PLOT = ROOT / "docs" / "from_scratch.png"
VOCABULARY = SHARED / "data" / "vocab" / "chinese_vocab.txt"
CONFIG = {
    "vocab_size": 21128,
    "hidden_size": 256,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "intermediate_size": 1024,
    "hidden_act": "gelu",
    "max_position_embeddings": 512,
    "type_vocab_size": 2,
}
LENGTH, BATCH, TRIAL = 128, 64, 60
HELD_OUT = 20  # one document out of so many
MEASURED = (
    *("steps", "seconds", "examples_per_second", "tokens_per_second"),
    *("masked_lm_accuracy", "perplexity", "curve", "bytes_per_token"),
)


def planned() -> list[Row]:
    return [{"padding": name, "minutes": 30} for name in ("longest", "pack")]


def _write(documents: list[list[str]], name: str) -> None:
    """Writes a corpus and its records."""
    text = "\n".join("".join(f"{line}\n" for line in lines) for lines in documents)
    (WORK / f"{name}.txt").write_text(text, encoding="utf-8")
    flags = {"input_file": WORK / f"{name}.txt", "vocab_file": VOCABULARY}
    flags |= {"output_file": WORK / f"{name}.tfrecord", "objective": "mlm"}
    flags |= {"max_seq_length": LENGTH, "dynamic_masking": "true", "workers": 2}
    runner.call("data_prep/create_pretraining_data.py", flags)


def prepare() -> None:
    if (WORK / "dev.tfrecord").exists():
        return
    WORK.mkdir(parents=True, exist_ok=True)
    (WORK / "bert_config.json").write_text(json.dumps(CONFIG))
    documents = [
        lines for name in ("news", "laws") for lines in corpora.CORPORA[name]()
    ]
    train = [one for i, one in enumerate(documents) if i % HELD_OUT]
    known = {line for lines in train for line in lines}
    held_out = [[x for x in lines if x not in known] for lines in documents[::HELD_OUT]]
    _write(train, "train")
    _write([lines for lines in held_out if lines], "dev")


def _records_of(output: pathlib.Path) -> list[dict[str, Any]]:
    with (output / "metrics.jsonl").open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def _tokens_a_row() -> float:
    """The mean length of the training records, with [CLS] and [SEP]."""
    from bert_mgpu.data import pretraining_records, record_rows

    path = WORK / "train.tfrecord"
    form = pretraining_records.RecordSchema(
        LENGTH, 20, CONFIG["vocab_size"], segments=2, dynamic=True
    )
    index = pretraining_records.index(str(path), form, False, cache=WORK / "cache")
    return float(record_rows.RecordRows([str(path)], [index]).lengths.mean())


def _run(row: Row) -> Row:
    common = {
        "input_file": WORK / "train.tfrecord",
        "vocab_file": VOCABULARY,
        "bert_config_file": WORK / "bert_config.json",
        "do_train": "true",
        "max_seq_length": LENGTH,
        "max_predictions_per_seq": 20,
        "dynamic_masking": "true",
        "train_batch_size": BATCH,
        "learning_rate": 5e-4,
        "padding": row["padding"],
        "keep_checkpoint_max": 1,
        "save_checkpoints_steps": 1000,
        "cache_dir": WORK / "cache",
    }
    trial, output = WORK / "trial", WORK / f"output-{row['padding']}"
    for folder in (trial, output):
        shutil.rmtree(folder, ignore_errors=True)
    short = {"num_train_steps": TRIAL, "num_warmup_steps": 10, "log_steps": TRIAL // 2}
    runner.call("run_pretraining_mgpu.py", common | short | {"output_dir": trial})
    speed = _records_of(trial)[-1]["examples_per_second"]
    steps = round(60 * row["minutes"] * speed / BATCH)
    whole = {"num_train_steps": steps, "num_warmup_steps": steps // 10}
    whole |= {"output_dir": output, "log_steps": max(1, steps // 100)}
    began = time.time()
    runner.call("run_pretraining_mgpu.py", common | whole)
    seconds = time.time() - began
    dev = {"input_file": WORK / "dev.tfrecord", "do_eval": "true"}
    dev |= {"max_eval_steps": 100_000, "eval_batch_size": BATCH}  # all of them
    kept = {k: v for k, v in common.items() if k not in ("do_train", "learning_rate")}
    runner.call("run_pretraining_mgpu.py", kept | dev | {"output_dir": output})
    records, scores = _records_of(output), runner.scores(output)
    tokens = _tokens_a_row()
    # Each record of the log covers equally many examples.
    rate = statistics.harmonic_mean(one["examples_per_second"] for one in records[1:])
    size = (WORK / "train.txt").stat().st_size
    rows = json.loads((WORK / ".train.tfrecord.json").read_text())["rows"]
    measured = (
        *(steps, round(seconds), round(rate, 1), round(rate * tokens)),
        *(scores["masked_lm_accuracy"], scores["perplexity"]),
        [(one["step"], round(one["masked_lm_loss"], 3)) for one in records],
        round(size / (rows * tokens), 3),
    )
    return row | dict(zip(MEASURED, measured, strict=True))


def table() -> str:
    lines = [
        "| --padding | steps of 64 | minutes | sentences/s | tokens/s"
        " | masked words right % | perplexity |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in TABLE.results():
        lines.append(
            f"| {row['padding']} | {row['steps']:,} | {row['seconds'] / 60:.1f}"
            f" | {row['examples_per_second']:.0f} | {row['tokens_per_second']:,}"
            f" | {100 * row['masked_lm_accuracy']:.1f} | {row['perplexity']:.1f} |"
        )
    return "\n".join(lines)


def plot() -> None:
    with runner.picture(PLOT, "minutes", "loss of masked words") as axes:
        for row in TABLE.results():
            pace = row["seconds"] / row["steps"] / 60
            minutes = [step * pace for step, _ in row["curve"]]
            losses = [loss for _, loss in row["curve"]]
            axes.plot(minutes, losses, label=f"--padding={row['padding']}")


def _show() -> None:
    print(table())
    plot()


TABLE = Table(RESULTS / "from_scratch.json", planned(), MEASURED)

if __name__ == "__main__":
    runner.main(__doc__, TABLE, _run, _show, prepare)
