"""Entities of real Chinese texts: beside transformers, and what a random field does.

    python -m benchmarks.studies.tagging_quality run    # the missing rows
    python -m benchmarks.studies.tagging_quality show   # the tables of what is there

Each row is a training of 15 to 30 minutes on two idle cores: by
run_classifier_mgpu.py, or by transformers' BertForTokenClassification in a loop of
torch with the settings of its Trainer. Both have the same rows of tokens, the same
steps and learning rates, and begin with the same weights, the head included. Rows come
in random order; in the results of November 2026 transformers' were grouped by length.
It may be killed at any time: the same command goes on. Results are appended to
benchmarks/results/tagging_quality.json. Needs ../shared (data and weights).
"""

from __future__ import annotations

import functools
import itertools
import json
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
from bert_mgpu.config.finetuning import FinetuneConfig
from bert_mgpu.config.tagging import BEGIN, BIO
from bert_mgpu.core.rows import Example, Features, Ragged
from bert_mgpu.distributed.topology import single_process
from bert_mgpu.model import params as params_lib
from bert_mgpu.model.config import BertConfig
from bert_mgpu.runs import finetune
from bert_mgpu.tasks.tagging import bio, metrics
from bert_mgpu.tasks.tagging.bio import Span
from bert_mgpu.tasks.tagging.decoding import TaggedSet
from bert_mgpu.tasks.tagging.task import Tagging

WORK = ROOT / "build" / "tagging_quality"
OURS, THEIRS = "bert_mgpu", "transformers"
SEEDS = (1, 2, 3)
FACTORS = (1, 10, 100, 1000)  # of the head's learning rate, with a random field
RATE, WARMUP = 1e-4, 0.1
_SAVED_EVERY = 100  # steps, so that a killed row can resume
SCORES = ("precision", "recall", "f1")
# What a result has besides its row of the plan. f1_argmax: of each token's likeliest
# tag, read as seqeval's default mode reads it; f1_new: f1 of the texts that are not in
# the training file. seconds: of the whole row, with evaluation and exports.
MEASURED = (*SCORES, "f1_argmax", "f1_new", "steps", "seconds")


class Data(NamedTuple):
    files: dict[str, str]  # split -> path below ../shared/data
    task: dict[str, Any]  # additional entries of task.json
    length: int
    batch: int
    epochs: int


DATA = {
    "cluener": Data(
        {split: f"cluener/{split}.json" for split in ("train", "dev")},
        {"repair_bio": BEGIN},  # some spans lie within others
        *(64, 32, 3),
    ),
    "weibo": Data(
        {split: f"weibo_ner/weiboNER_2nd_conll.{split}" for split in ("train", "test")},
        {"format": "conll", "token_pattern": "(.+)[0-9]", "repair_bio": BEGIN},
        *(128, 16, 10),
    ),
}


def planned() -> list[Row]:
    """The rows of the tables."""
    rows = [
        {"data": data, "by": by, "seed": seed}
        for seed, data in itertools.product(SEEDS, DATA)
        for by in (OURS, THEIRS)
    ]
    fields: list[Row] = [
        {"data": "weibo", "by": OURS, "seed": seed}
        | {"crf": True, "head_lr_factor": factor}
        for seed, factor in itertools.product(SEEDS, FACTORS)
    ]
    return rows + fields


TABLE = Table(RESULTS / "tagging_quality.json", planned(), MEASURED)


def prepare() -> None:
    """Makes the data folders and the checkpoint below build/tagging_quality."""
    for name, data in DATA.items():
        folder = WORK / "data" / name
        folder.mkdir(parents=True, exist_ok=True)
        for path in data.files.values():
            shutil.copy(SHARED / "data" / path, folder)
        train, scored = (pathlib.Path(path).name for path in data.files.values())
        task = {"type": "tags", "train": train, "dev": scored, **data.task}
        (folder / "task.json").write_text(json.dumps(task))
    if not (WORK / "model" / "bert_model.ckpt.index").exists():
        script = SHARED / "models" / "make_tf1_checkpoint.py"
        subprocess.run([sys.executable, script, WORK / "model"], check=True)


def flags_of(row: Row, start: pathlib.Path | str) -> dict[str, Any]:
    """The flags of run_classifier_mgpu.py for a row; start: the initial weights."""
    data = DATA[row["data"]]
    own = {key: row[key] for key in ("seed", "crf", "head_lr_factor") if key in row}
    return own | {
        "task_name": row["data"] + "_entities",
        "data_dir": WORK / "data" / row["data"],
        "init_checkpoint": start,
        "do_train": True,
        "do_eval": True,
        "do_predict": True,
        "max_seq_length": data.length,
        "train_batch_size": data.batch,
        "eval_batch_size": 64,
        "num_train_epochs": data.epochs,
        "learning_rate": RATE,
        "optimizer": "adamw",
        "warmup_proportion": WARMUP,
        "padding": "bucket",
        "save_checkpoints_steps": _SAVED_EVERY,
        "keep_checkpoint_max": 1,
    }


# -- the rows and weights that both sides train with --------------------------------


class Sets(NamedTuple):
    """The rows of a data set, made by bert_mgpu, and what they belong to."""

    task: Tagging
    train: Features
    scored: Features
    examples: Sequence[Example]  # of `scored`
    truth: list[list[Span]]  # of each example
    is_new: list[bool]  # of each example: whether its text is not in the training file


def sets_of(row: Row) -> Sets:
    config = FinetuneConfig(**flags_of(row, str(WORK / "model")))
    run = finetune.prepare(config, WORK / "none", single_process(1, ["CPU:0"]))
    train, scored = (run.data.read(split)[0] for split in ("train", "dev"))
    examples = run.data.examples("dev")
    known = {example.text_a for example in run.data.examples("train")}
    assert isinstance(run.task, Tagging)
    return Sets(
        run.task,
        train,
        scored,
        examples=examples,
        truth=[list(example.label.spans) for example in examples],
        is_new=[example.text_a not in known for example in examples],
    )


def first_weights(row: Row, task: Tagging) -> pathlib.Path:
    """The folder of the pretrained weights and a random head, used by both sides."""
    folder, model = WORK / "first" / f"{row['data']}-{row['seed']}", WORK / "model"
    if not folder.exists():
        config = BertConfig.from_json_file(model / "bert_config.json", "gelu_erf")
        values = params_lib.initialize(
            task.param_specs(), config.initializer_range, seed=row["seed"]
        )
        stored = google_read.read(model / "bert_model.ckpt")
        values |= {name: stored[name] for name in values if name in stored}
        values = {k: v for k, v in values.items() if not k.startswith("crf/")}
        huggingface_write.export(
            folder,
            values,
            config,
            vocab_file=model / "vocab.txt",
            do_lower_case=True,
            labels=task.labels,
        )
    return folder


# -- trainings ----------------------------------------------------------------------


def _padded(rows: Features, numbers: Sequence[int]) -> dict[str, Any]:
    """Rows padded to the longest one, as by transformers' collator."""
    import torch

    width = int(rows.lengths[numbers].max())
    ids, labels = (
        np.zeros((len(numbers), width), int),
        np.full((len(numbers), width), -100),
    )
    mask = np.arange(width) < rows.lengths[numbers][:, None]
    for place, number in enumerate(numbers):
        own = rows.ragged["tag_ids"].row(number)
        ids[place, : len(own)] = rows.ragged["input_ids"].row(number)
        labels[place, : len(own)] = np.where(own, own - 1, -100)
    arrays = {"input_ids": ids, "attention_mask": mask.astype(int), "labels": labels}
    return {name: torch.tensor(array) for name, array in arrays.items()}


def train_theirs(row: Row, sets: Sets, folder: pathlib.Path) -> tuple[Any, int]:
    """The trained transformers model, and the number of steps."""
    import transformers

    config = FinetuneConfig(**flags_of(row, ""))
    steps = config.steps_of(len(sets.train), config.train_batch_size)
    plan = torch_training.Plan(
        config.train_batch_size,
        steps,
        RATE,
        config.warmup_of(steps),
        row["seed"],
        WORK / "runs" / f"{runner.name_of(row)}.pt",
    )
    trained = torch_training.train(
        lambda: transformers.AutoModelForTokenClassification.from_pretrained(folder),
        len(sets.train),
        functools.partial(_padded, sets.train),
        plan=plan,
    )
    return trained, steps


def tagged(model: Any, sets: Sets) -> TaggedSet:
    """The scored rows as tagged by transformers' model."""
    import torch

    rows, logits = sets.scored, []
    with torch.inference_mode():
        for number in range(len(rows)):
            batch = _padded(rows, [number])
            del batch["labels"]
            logits.append(model(**batch).logits[0].numpy())
    outputs = {"logits": Ragged(np.concatenate(logits), rows.ragged["tag_ids"].offsets)}
    return TaggedSet(
        outputs,
        rows,
        sets.task.labels,
        rules=sets.task.rules,
        examples=lambda: sets.examples,
    )


def likeliest(scored: TaggedSet) -> list[list[Span]]:
    """The entities of the likeliest tags, as seqeval's default mode reads them."""
    found = []
    for number in range(len(scored)):
        tags = [scored.tags[tag] for tag in scored.emissions.row(number).argmax(-1)]
        places = scored.places.row(number)
        found.append(
            [
                Span(int(places[start, 0]), int(places[end - 1, 1]), kind)
                for start, end, kind in bio.read_spans(tags, BIO, BEGIN).spans
            ]
        )
    return found


def predicted(output: pathlib.Path) -> list[list[Span]]:
    with (output / "predictions.jsonl").open() as lines:
        records = [json.loads(line)["entities"] for line in lines]
    return [[Span(e["start"], e["end"], e["type"]) for e in one] for one in records]


def scores(sets: Sets, found: list[list[Span]]) -> Row:
    """The scores of all texts, and the f1 of new ones."""
    all_texts = metrics.scores(metrics.count(sets.truth, found))
    new = [
        [one for one, new in zip(side, sets.is_new, strict=True) if new]
        for side in (sets.truth, found)
    ]
    of_new = metrics.scores(metrics.count(*new))
    return {name: all_texts[name] for name in SCORES} | {"f1_new": of_new["f1"]}


def work(row: Row) -> Row:
    """The result of a row of the plan."""
    import transformers

    sets = sets_of(row)
    start = first_weights(row, sets.task)
    output, began = WORK / "runs" / runner.name_of(row), time.time()
    if row["by"] == THEIRS:
        model, steps = train_theirs(row, sets, start)
        seconds = time.time() - began
        scored = tagged(model, sets)
        found = scores(sets, scored.entities)
        output.with_name(f"{output.name}.pt").unlink(missing_ok=True)
    else:
        exported = {} if row.get("crf") else {"export_hf": output / "hf"}
        flags = flags_of(row, start) | exported | {"output_dir": output}
        runner.call("run_classifier_mgpu.py", flags)
        seconds, steps = time.time() - began, int(runner.scores(output)["global_step"])
        found = scores(sets, predicted(output))
        if exported:
            library = transformers.AutoModelForTokenClassification
            scored = tagged(library.from_pretrained(output / "hf").eval(), sets)
            if scores(sets, scored.entities) != found:
                raise AssertionError(f"{output}: transformers decodes other entities")
        shutil.rmtree(output)
    if not row.get("crf"):
        found["f1_argmax"] = scores(sets, likeliest(scored))["f1"]
    rounded = {name: round(value, 4) for name, value in found.items()}
    return row | rounded | {"steps": steps, "seconds": round(seconds)}


# -- tables -------------------------------------------------------------------------


def _cell(results: list[Row], name: str) -> str:
    """Mean and standard deviation over seeds, in percent."""
    values = [100 * result[name] for result in results if name in result]
    if not values:
        return "-"
    deviation = f" ± {statistics.stdev(values):.2f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.2f}{deviation}"


def table() -> Iterator[str]:
    names = ("f1", "f1_argmax", "f1_new", "precision", "recall")
    yield f"| data | by | head | {' | '.join(names)} | seeds |"
    yield "|---" * (4 + len(names)) + "|"
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for result in TABLE.results():
        key = *(result[k] for k in ("data", "by")), result.get("head_lr_factor", 0)
        groups.setdefault(key, []).append(result)
    for (data, by, factor), found in sorted(groups.items()):
        head = f"--crf, --head_lr_factor={factor}" if factor else "softmax"
        cells = [_cell(found, name) for name in names]
        cells.append(str(len(found)))
        yield f"| {data} | {by} | {head} | {' | '.join(cells)} |"


if __name__ == "__main__":
    runner.main(__doc__, TABLE, work, lambda: print(*table(), sep="\n"), prepare)
