"""A small model that rewrites, and its forward pass without towers."""

import json
import random

import numpy as np
import tensorflow as tf

from bert_mgpu.config.rewriting import RewriteChoice
from bert_mgpu.data import packing, pipeline
from bert_mgpu.model import params as params_lib
from bert_mgpu.tasks.rewriting.task import Rewriting
from tests.support.tiny import VOCAB, small_config

LENGTH, MOST = 24, 3  # tokens of a row, and written at one place
CONFIG = small_config(vocab_size=len(VOCAB), max_position_embeddings=LENGTH)


def rewriting(tokenizer, config=CONFIG, **choice):
    return Rewriting(
        "own",
        config,
        tokenizer,
        max_seq_length=LENGTH,
        max_insert=MOST,
        slot_marker="[SLOT]",
        choice=RewriteChoice(**choice),
    )


def weights(task, seed=2):
    """Random ones, also of what begins with zeros or ones."""
    specs = {
        name: (shape, "truncated_normal")
        for name, (shape, _) in task.param_specs().items()
    }
    return params_lib.initialize(specs, 0.5, seed=seed)


class _Answer:
    def __init__(self, outputs):
        self._outputs = outputs

    def read(self):
        return {name: value.numpy() for name, value in self._outputs.items()}


def forward_of(task, params, *, packed=False):
    """core.task.Forward on one batch."""

    def ask(batch):
        one = {name: tf.constant(values[0]) for name, values in batch.items()}
        return _Answer(task.outputs(params, one))

    def forward(rows):
        if not len(rows):
            return {}
        placement = placed(rows, packed=packed)
        found = pipeline.forward_all(
            rows, [placement], dict, ask=ask, token_outputs=task.token_outputs
        )
        return pipeline.in_order(found)

    return forward


def placed(rows, *, packed=False):
    """One row each, or several in a row, with few places for masks."""
    numbers, counts = np.arange(len(rows)), rows.target_counts
    if not packed:
        alone = packing.one_per_row(numbers, 1, LENGTH)
        return alone._replace(targets=int(counts.max()))
    shape = packing.Shape(rows=len(rows), length=2 * LENGTH, examples_per_row=6)
    found = packing.pack(numbers, rows.lengths, 1, shapes=[shape])
    most = packing.most_targets(found.numbers, counts)
    return found._replace(targets=most.row, real_targets=most.tower + 2)


TASK = {
    "type": "rewrite",
    "train": "train.jsonl",
    "dev": "dev.jsonl",
    "test": "test.jsonl",
    "text_a": "source",
    "text_b": "context",
    "target": "target",
}


def rewritten(words):
    """The rule of the small sets: a word is written for another, and one deleted."""
    made = []
    for word in words:
        made += {"loss": ["win", "joy"], "the": []}.get(word, [word])
    return [*made, "in"] if "rain" in words else made


def pairs(count, seed):
    draw, words = random.Random(seed), ["sun", "joy", "rain", "a"]
    for _ in range(count):
        text = [draw.choice(words) for _ in range(draw.randint(2, 4))]
        for word in ("loss", "the"):
            if draw.random() < 0.6:
                text.insert(draw.randint(0, len(text)), word)
        yield {
            "source": " ".join(text),
            "context": draw.choice(words),
            "target": " ".join(rewritten(text)),
        }


def write_task(folder, counts=(256, 16, 9), **changed):
    """The files of the small set."""
    folder.mkdir(parents=True)
    for seed, (name, count) in enumerate(
        zip(("train", "dev", "test"), counts, strict=True)
    ):
        lines = (json.dumps(row, ensure_ascii=False) for row in pairs(count, seed))
        (folder / f"{name}.jsonl").write_text("".join(f"{line}\n" for line in lines))
    task = {name: value for name, value in (TASK | changed).items() if value}
    (folder / "task.json").write_text(json.dumps(task))


def write_tables(folder, counts=(256, 16, 9)):
    """The same rows as tables, which examples/edit_text.sh reads."""
    folder.mkdir(parents=True)
    columns = "context", "source", "target"
    for seed, (name, count) in enumerate(
        zip(("train", "dev", "test"), counts, strict=True)
    ):
        rows = ["\t".join(row[one] for one in columns) for row in pairs(count, seed)]
        text = "".join(f"{line}\n" for line in ["\t".join(columns), *rows])
        (folder / f"{name}.tsv").write_text(text)
