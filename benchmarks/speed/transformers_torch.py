"""Contestants of transformers and torch, with the settings of transformers' Trainer.

Those are: scaled-dot-product attention, torch's fused AdamW, gradient clipping, and for
bfloat16 autocast over float32 weights. Eager, or compiled by torch.compile as Trainer's
flag --torch_compile does: with default settings, so that a second length makes torch
compile once more, for all lengths.
"""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from benchmarks.harness import Contestant, resident
from benchmarks.speed.workloads import (
    CLASSES,
    MAX_ROUNDS,
    RATE,
    SEED,
    VOCAB,
    VOCAB_FILE,
    WINDOW,
    Shape,
    full_length,
    headlines,
    trains_full_length,
    windows,
)
from bert_mgpu.core.rows import Features

_NAMES = {
    "input_ids": "input_ids",
    "attention_mask": "input_mask",
    "token_type_ids": "segment_ids",
    "labels": "label_ids",
}


def _device() -> str:
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def _held() -> tuple[float, float]:
    """Like harness.resident, but for the memory of the GPU where there is one."""
    import torch

    if _device() == "cpu":
        return resident()
    held = torch.cuda.memory_allocated(), torch.cuda.max_memory_allocated()
    return held[0] / 2**20, held[1] / 2**20


def config_of(shape: Shape) -> Any:
    import transformers as library

    return library.BertConfig(
        vocab_size=VOCAB,
        hidden_size=shape.hidden,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        intermediate_size=4 * shape.hidden,
        num_labels=CLASSES,
    )


def _model(shape: Shape) -> Any:
    import torch
    import transformers as library

    torch.set_num_threads(len(os.sched_getaffinity(0)))
    torch.manual_seed(SEED)
    config = config_of(shape)
    return library.BertForSequenceClassification(config).to(_device())


def _placed(batch: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value.to(_device()) for name, value in batch.items()}


def trains(
    model: Any, precision: str = "float32", compiled: bool = False
) -> Callable[[Any], float]:
    """A function that trains on one batch and returns the loss."""
    import torch

    torch.set_num_threads(len(os.sched_getaffinity(0)))
    model = model.to(_device()).train()
    optimizer = torch.optim.AdamW(
        model.parameters(), RATE, weight_decay=0.01, fused=True
    )
    called = torch.compile(model) if compiled else model

    def low() -> Any:
        if precision == "float32":
            return contextlib.nullcontext()
        return torch.autocast(_device(), dtype=getattr(torch, precision))

    def step(batch: Any) -> float:
        optimizer.zero_grad()
        with low():
            loss = called(**_placed(batch)).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.item()

    return step


def transformers(
    shape: Shape, *, precision: str = "float32", compiled: bool = False
) -> Contestant:
    import torch

    step = trains(_model(shape), precision, compiled)
    arrays = full_length(shape)
    batch = {name: torch.tensor(arrays[ours]).long() for name, ours in _NAMES.items()}
    return trains_full_length(shape, lambda _: step(batch))._replace(held=_held)


def _rows(features: Features) -> list[dict[str, Any]]:
    """The rows as a tokenized data set gives them to transformers' collator."""
    ids = [features.ragged["input_ids"].row(i).tolist() for i in range(len(features))]
    return [
        {
            "input_ids": row,
            "token_type_ids": [0] * len(row),
            "attention_mask": [1] * len(row),
            "labels": label,
        }
        for row, label in zip(ids, features.dense["label_ids"].tolist(), strict=True)
    ]


def _collator() -> Any:
    """The collator that pads to the longest row of a batch."""
    import transformers as library

    tokenizer = library.BertTokenizer(vocab=str(VOCAB_FILE))
    return library.DataCollatorWithPadding(tokenizer)


def trainer(shape: Shape, *, compiled: bool = False) -> Contestant:
    """transformers' Trainer with dynamic padding and length grouping.

    Its sampler, collator, optimizer and clipping in a hand-written loop, without its
    logging and callbacks: Trainer itself would also need accelerate.
    """
    import torch
    from transformers.trainer_pt_utils import LengthGroupedSampler

    step, collate = trains(_model(shape), compiled=compiled), _collator()
    features = headlines("sub_train.txt")
    rows, lengths = _rows(features), features.lengths.tolist()
    generator = torch.Generator().manual_seed(SEED)
    order = iter(
        LengthGroupedSampler(shape.batch, lengths=lengths, generator=generator)
    )
    batches = iter(lambda: list(itertools.islice(order, shape.batch)), [])
    # The sampler sorts 50 batches at a time, and puts the longest row of all first.
    batches = itertools.islice(batches, WINDOW, None)
    rounds = windows(batches, lambda numbers: max(lengths[n] for n in numbers))

    def made(some: Iterable[list[int]]) -> Iterator[Any]:
        for numbers in some:
            yield collate([rows[number] for number in numbers])

    return Contestant(
        step,
        lambda number: made(rounds[number % MAX_ROUNDS]),
        made(rounds[0]),
        shape.batch * len(rounds[0]),
        held=_held,
    )


def transformers_predicts(shape: Shape, *, compiled: bool = False) -> Contestant:
    """Predicts all headlines of a file, sorted by length."""
    import torch

    model, collate = _model(shape).eval(), _collator()
    called = torch.compile(model) if compiled else model
    features = headlines("full_dev.txt")
    rows = _rows(features)
    order = np.argsort(-features.lengths, kind="stable").tolist()

    def step(_: None) -> float:
        logits = torch.empty(len(rows), CLASSES)
        with torch.inference_mode():
            for first in range(0, len(rows), shape.batch):
                numbers = order[first : first + shape.batch]
                batch = collate([rows[number] for number in numbers])
                del batch["labels"]
                logits[numbers] = called(**_placed(batch)).logits.cpu()
        return float(logits.sum())

    return Contestant(step, lambda number: [None], [None], len(rows), held=_held)
