"""What the contestants work on: model sizes, random batches and real headlines."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, TypeVar

import numpy as np

from benchmarks.flops import needed_flops
from benchmarks.harness import SHARED, Contestant
from bert_mgpu.core.rows import Features, Ragged, Rows
from bert_mgpu.data import batching, pipeline
from bert_mgpu.model.config import BertConfig
from bert_mgpu.text.tokenization import Tokenizer

Item = TypeVar("Item")
Batch = dict[str, np.ndarray]

VOCAB, CLASSES, RATE = 21128, 10, 2e-5
VOCAB_FILE = SHARED / "data" / "vocab" / "chinese_vocab.txt"
TITLES = SHARED / "data" / "thucnews_title"
SEED = 1
WARM_UP = 2  # steps of each shape; the first compiles
# From every 50 batches a round takes every fifth in order of length, so that a policy
# that sorts is measured on its long batches as well as on its short ones.
WINDOW, EVERY = 50, 5
MAX_ROUNDS = 20  # the shapes of so many rounds are warmed up


class Shape(NamedTuple):
    """A model, the rows of a step, and how many steps make a round."""

    layers: int
    hidden: int
    heads: int
    batch: int
    length: int
    steps: int = 1

    @property
    def config(self) -> BertConfig:
        return BertConfig(
            vocab_size=VOCAB,
            hidden_size=self.hidden,
            num_hidden_layers=self.layers,
            num_attention_heads=self.heads,
            intermediate_size=4 * self.hidden,
        )

    @property
    def google_config(self) -> dict[str, Any]:
        return json.loads(self.config.to_google_json())

    def tiny(self) -> Shape:
        """The same shape with next to no work, for a trial."""
        few = self._replace(layers=2, hidden=32, heads=2, steps=1)
        return few._replace(length=min(few.length, 128))


def full_length(shape: Shape) -> Batch:
    rng = np.random.default_rng(0)
    size = (shape.batch, shape.length)
    return {
        "input_ids": rng.integers(1, VOCAB, size).astype(np.int32),
        "input_mask": np.ones(size, np.int32),
        "segment_ids": np.zeros(size, np.int32),
        "label_ids": rng.integers(0, CLASSES, size[:1]).astype(np.int32),
        "is_real_example": np.ones(size[:1], np.float32),
    }


def trains_full_length(
    shape: Shape,
    step: Callable[[Any], float],
    frozen: int | None = None,
    report: Callable[[], dict[str, Any]] = dict,
) -> Contestant:
    """Trains on the same random batch over and over."""
    batch = full_length(shape)
    flops = {
        "needed_gflop_per_step": round(needed_flops(shape, CLASSES, frozen) / 1e9, 3)
    }
    return Contestant(
        step,
        lambda number: [batch] * shape.steps,
        [batch] * WARM_UP,
        shape.batch * shape.steps,
        lambda: flops | report(),
    )


def headlines(name: str) -> Features:
    """[CLS] headline [SEP] and the label of each line of a file."""
    tokenizer = Tokenizer(str(VOCAB_FILE))
    lines = (TITLES / name).read_text(encoding="utf-8").rstrip("\n").split("\n")
    texts, labels = zip(*(line.split("\t") for line in lines), strict=True)
    ids = tokenizer.batch_ids(list(texts))
    rows = [
        [tokenizer.cls_id, *ids.row(index).tolist(), tokenizer.sep_id]
        for index in range(len(texts))
    ]
    input_ids = Ragged.from_rows(rows)
    return Features(
        {
            "input_ids": input_ids,
            "segment_ids": input_ids._replace(values=np.zeros_like(input_ids.values)),
        },
        {"label_ids": np.array(labels, np.int32)},
        np.arange(1, len(lines) + 1),
    )


def windows(batches: Iterable[Item], size: Callable[[Item], float]) -> list[list[Item]]:
    """The batches of each round."""
    following = iter(batches)
    return [
        sorted(itertools.islice(following, WINDOW), key=size)[EVERY // 2 :: EVERY]
        for _ in range(MAX_ROUNDS)
    ]


def trains_headlines(
    shape: Shape, padding: str, step: Callable[[Batch], float]
) -> Contestant:
    """Trains on headlines, batched by one of our padding policies."""
    return trains_rows(headlines("sub_train.txt"), shape, padding, step)


def trains_rows(
    rows: Rows, shape: Shape, padding: str, step: Callable[[Batch], float]
) -> Contestant:
    order = batching.TrainingOrder(
        rows.lengths,
        1,
        shape.batch,
        padding=padding,
        max_length=shape.length,
        seed=SEED,
        target_counts=rows.target_counts,
    )

    def made(placements: Iterable[pipeline.Placement]) -> Iterator[Batch]:
        for placement in placements:
            yield {k: v[0] for k, v in pipeline.collate(rows, placement).items()}

    placements = map(order.placement, itertools.count())
    rounds = windows(placements, lambda one: one.numbers.shape[1] * one.length)
    shapes = {
        (*one.numbers.shape, one.length, one.targets, one.real_targets): one
        for one in itertools.chain(*rounds)
    }
    return Contestant(
        step,
        lambda number: made(rounds[number % MAX_ROUNDS]),
        made([one for one in shapes.values() for _ in range(WARM_UP)]),
        shape.batch * len(rounds[0]),
    )
