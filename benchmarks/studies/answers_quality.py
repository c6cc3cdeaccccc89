"""Answers to Chinese questions, beside transformers.

    python -m benchmarks.studies.answers_quality run    # the missing rows
    python -m benchmarks.studies.answers_quality show   # the table of what is there

Trains with the 3,219 questions of cmrc2018's dev set and scores its trial set, with
windows of 384 tokens that begin every 256, one epoch in bfloat16. Each row is a
training of 30 to 65 minutes on two idle cores of AMD EPYC that multiply in bfloat16: by
run_squad_mgpu.py, or by transformers' BertForQuestionAnswering in a loop of torch with
the settings of its Trainer. Both have the same windows, steps and learning rates, and
begin with the same weights, the head included; the answers are chosen from the logits
of both by the same code. Ours are trained in batches of similar length and their logits
computed in bfloat16, transformers' in random order and in float32. It may be killed at
any time: the same command goes on. Results are appended to
benchmarks/results/answers_quality.json. Needs ../shared (data and weights).
"""

from __future__ import annotations

import functools
import itertools
import pathlib
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from benchmarks import runner, torch_training
from benchmarks.harness import RESULTS, ROOT, SHARED
from benchmarks.runner import Row, Table
from bert_mgpu.checkpoints import google_read, huggingface_write
from bert_mgpu.config.squad import SquadConfig
from bert_mgpu.core.rows import Example, Features, Ragged
from bert_mgpu.distributed.topology import single_process
from bert_mgpu.model import params as params_lib
from bert_mgpu.model.config import BertConfig
from bert_mgpu.runs import finetune
from bert_mgpu.tasks.span_qa.dataset import ENDS, STARTS
from bert_mgpu.tasks.span_qa.scored import AnsweredSet
from bert_mgpu.tasks.span_qa.task import SpanQa

WORK = ROOT / "build" / "answers_quality"
OURS, THEIRS = "bert_mgpu", "transformers"
LENGTH, STRIDE, BATCH, RATE, WARMUP = 384, 256, 16, 1e-4, 0.1
PRECISION = "bfloat16"
SCORES = ("cmrc_em", "cmrc_f1")
_SAVED_EVERY = 50  # steps of a row, which then may be killed


def planned() -> list[Row]:
    pairs = itertools.product((1, 2, 3), (OURS, THEIRS))
    return [{"by": by, "seed": seed} for seed, by in pairs]


TABLE = Table(
    RESULTS / "answers_quality.json", planned(), (*SCORES, "steps", "seconds")
)


def prepare() -> None:
    """Makes the checkpoint below build/answers_quality."""
    if not (WORK / "model" / "bert_model.ckpt.index").exists():
        script = SHARED / "models" / "make_tf1_checkpoint.py"
        subprocess.run([sys.executable, script, WORK / "model"], check=True)


def flags_of(row: Row, start: pathlib.Path | str) -> dict[str, Any]:
    """The flags of run_squad_mgpu.py for a row; start: the initial weights."""
    data = SHARED / "data" / "cmrc2018"
    return {
        "task_name": "cmrc2018",
        "train_file": data / "cmrc2018_dev.json",
        "predict_file": data / "cmrc2018_trial.json",
        "init_checkpoint": start,
        "do_train": True,
        "do_eval": True,
        "do_predict": True,
        "max_seq_length": LENGTH,
        "doc_stride": STRIDE,
        "train_batch_size": BATCH,
        "eval_batch_size": 16,
        "predict_batch_size": 16,
        "num_train_epochs": 1,
        "learning_rate": RATE,
        "optimizer": "adamw",
        "warmup_proportion": WARMUP,
        "padding": "bucket",
        "precision": PRECISION,
        "seed": row["seed"],
        "save_checkpoints_steps": _SAVED_EVERY,
        "keep_checkpoint_max": 1,
    }


class Sets(NamedTuple):
    """The windows of both sets, made by bert_mgpu, and what they belong to."""

    config: SquadConfig
    task: SpanQa
    train: Features
    scored: Features
    examples: Sequence[Example]  # of `scored`


def sets_of(row: Row) -> Sets:
    flags = {k: str(v) if isinstance(v, pathlib.Path) else v for k, v in
             flags_of(row, str(WORK / "model")).items()}  # fmt: skip
    config = SquadConfig(**flags, dev_file=flags["predict_file"])
    run = finetune.prepare(config, WORK / "none", single_process(1, ["CPU:0"]))
    assert isinstance(run.task, SpanQa)
    train, scored = (run.data.read(split)[0] for split in ("train", "dev"))
    return Sets(
        config, run.task, train, scored=scored, examples=run.data.examples("dev")
    )


def first_weights(row: Row, task: SpanQa) -> pathlib.Path:
    """The folder of the pretrained weights and a random head, used by both sides."""
    folder, model = WORK / "first" / str(row["seed"]), WORK / "model"
    if not folder.exists():
        config = BertConfig.from_json_file(model / "bert_config.json", "gelu_erf")
        values = params_lib.initialize(
            task.param_specs(), config.initializer_range, seed=row["seed"]
        )
        stored = google_read.read(model / "bert_model.ckpt")
        values |= {name: stored[name] for name in values if name in stored}
        huggingface_write.export(
            folder,
            values,
            config,
            vocab_file=model / "vocab.txt",
            do_lower_case=True,
            labels=None,
        )
    return folder


def _padded(rows: Features, numbers: Sequence[int]) -> dict[str, Any]:
    """Windows padded to the longest one, as by transformers' collator."""
    import torch

    taken = rows.take(np.asarray(numbers))
    lengths = taken.lengths[:, None]
    mask = np.arange(lengths.max()) < lengths
    batch = {"attention_mask": mask.astype(int)}
    for name, key in (("input_ids", "input_ids"), ("segment_ids", "token_type_ids")):
        batch[key] = np.zeros(mask.shape, int)
        batch[key][mask] = taken.ragged[name].values
    for name in (STARTS, ENDS):  # positions beyond the row are ignored by the loss
        places = taken.dense[name].astype(int)
        batch[name] = np.where(places < 0, mask.shape[1], places)
    return {name: torch.tensor(array) for name, array in batch.items()}


def train_theirs(row: Row, sets: Sets, folder: pathlib.Path) -> tuple[Any, int]:
    """The trained transformers model, and the number of steps."""
    import transformers

    steps = sets.config.steps_of(len(sets.train), BATCH)
    plan = torch_training.Plan(
        BATCH,
        steps,
        RATE,
        sets.config.warmup_of(steps),
        row["seed"],
        WORK / "runs" / f"{runner.name_of(row)}.pt",
        saved_every=_SAVED_EVERY,
        precision=PRECISION,
    )
    trained = torch_training.train(
        lambda: transformers.AutoModelForQuestionAnswering.from_pretrained(folder),
        len(sets.train),
        functools.partial(_padded, sets.train),
        plan=plan,
    )
    return trained, steps


def answered(model: Any, sets: Sets) -> AnsweredSet:
    """The answers of transformers' model to the scored windows, in float32."""
    import torch

    rows, logits = sets.scored, []
    with torch.inference_mode():
        for number in range(len(rows)):
            batch = _padded(rows, [number])
            made = model(**{k: v for k, v in batch.items() if k not in (STARTS, ENDS)})
            logits.append(torch.stack([made.start_logits[0], made.end_logits[0]], -1))
    offsets = np.concatenate([[0], np.cumsum(rows.lengths)])
    outputs = {"logits": Ragged(torch.cat(logits).numpy(), offsets)}
    return sets.task.scored_rows(outputs, rows, lambda: sets.examples)


def work(row: Row) -> Row:
    """The result of a row of the plan."""
    sets, began = sets_of(row), time.time()
    start = first_weights(row, sets.task)
    output = WORK / "runs" / runner.name_of(row)
    if row["by"] == THEIRS:
        model, steps = train_theirs(row, sets, start)
        seconds = time.time() - began
        found = sets.task.scores(answered(model, sets))
        output.with_name(f"{output.name}.pt").unlink()
    else:
        flags = flags_of(row, start) | {"output_dir": output}
        runner.call("run_squad_mgpu.py", flags)
        seconds, found = time.time() - began, runner.scores(output)
        steps = int(found["global_step"])
        shutil.rmtree(output)
    rounded = {name: round(found[name], 2) for name in SCORES}
    return row | rounded | {"steps": steps, "seconds": round(seconds)}


def table() -> Iterator[str]:
    yield "| by | EM | F1 | seeds |"
    yield "|---|---|---|---|"
    for by in (OURS, THEIRS):
        found = [result for result in TABLE.results() if result["by"] == by]
        cells = []
        for name in SCORES:
            values = [result[name] for result in found]
            spread = f" ± {statistics.stdev(values):.2f}" if len(values) > 1 else ""
            cells.append(f"{statistics.mean(values):.2f}{spread}" if values else "-")
        yield f"| {by} | {' | '.join(cells)} | {len(found)} |"


if __name__ == "__main__":
    runner.main(__doc__, TABLE, work, lambda: print(*table(), sep="\n"), prepare)
