"""Contestants that answer cmrc2018's questions, with the same windows and batches."""

from __future__ import annotations

import functools
import itertools
from typing import Any

import numpy as np

from benchmarks.harness import SHARED, Contestant
from benchmarks.speed.towers import towers_of
from benchmarks.speed.workloads import RATE, SEED, VOCAB_FILE, Batch, Shape, trains_rows
from bert_mgpu.core.rows import Example, Features
from bert_mgpu.data import forward_batching, pipeline
from bert_mgpu.text.tokenization import Tokenizer

_STRIDE = 128
_PREDICTED = 60  # questions of a round
_NAMES = {
    "input_ids": "input_ids",
    "attention_mask": "input_mask",
    "token_type_ids": "segment_ids",
}


@functools.cache
def _examples(split: str) -> list[Example]:
    from bert_mgpu.config.finetuning import FinetuneConfig
    from bert_mgpu.tasks import reader, registry
    from bert_mgpu.tasks.span_qa.family import FAMILY

    files = registry.find_task_files(FinetuneConfig(task_name="cmrc2018"))
    path = SHARED / "data" / "cmrc2018" / f"cmrc2018_{split}.json"
    return reader.read_examples(
        files, path, split, label=FAMILY.read_label, with_label=True
    )


def rows(examples: list[Example], length: int) -> Features:
    """The windows of examples, as a run cuts them."""
    from bert_mgpu.tasks.span_qa import dataset

    return dataset.featurise(
        examples,
        Tokenizer(str(VOCAB_FILE)),
        max_seq_length=length,
        doc_stride=_STRIDE,
        max_query_length=64,
    )


def _task(shape: Shape) -> Any:
    from bert_mgpu.config.span_qa import Choice
    from bert_mgpu.tasks.span_qa.task import SpanQa

    return SpanQa(
        "x",
        shape.config,
        max_seq_length=shape.length,
        choice=Choice(20, 30, False, null_score_diff_threshold=0.0),
    )


def ours_answers(shape: Shape, **flags: Any) -> Contestant:
    towers, numbers = towers_of(_task(shape), shape, flags), itertools.count()

    def step(batch: Batch) -> float:
        parts = {name: value[None] for name, value in batch.items()}
        return float(towers.train_step(parts, next(numbers), RATE).losses["loss"])

    return trains_rows(rows(_examples("dev"), shape.length), shape, "bucket", step)


def ours_answers_predicts(shape: Shape) -> Contestant:
    """Predicts logits, in batches as a run makes them, and chooses the answers."""
    task = _task(shape)
    towers, examples = towers_of(task, shape, {}), _examples("trial")[:_PREDICTED]
    there = rows(examples, shape.length)
    placements = forward_batching.forward_placements(
        there.lengths, 1, shape.batch, packs=True, max_length=shape.length
    )

    def step(_: None) -> float:
        towers.refresh()
        outputs = pipeline.forward_all(
            there,
            placements,
            towers.place_for_outputs,
            ask=towers.launch_outputs,
            token_outputs=task.token_outputs,
        )
        ordered = pipeline.in_order(outputs)
        chosen = task.scored_rows(ordered, there, lambda: examples).chosen
        return float(sum(len(answer.text) for answer in chosen))

    return Contestant(step, lambda number: [None], [None], len(examples))


def _model(shape: Shape) -> Any:
    import torch
    import transformers as library

    from benchmarks.speed.transformers_torch import config_of

    torch.manual_seed(SEED)
    config = config_of(shape)
    config.num_labels = 2
    return library.BertForQuestionAnswering(config)


def _inputs(batch: Batch, trains: bool) -> dict[str, Any]:
    import torch

    inputs = {name: batch[ours] for name, ours in _NAMES.items()}
    if trains:
        for name in ("start_positions", "end_positions"):
            inputs[name] = np.maximum(batch[name], 0)
    return {name: torch.tensor(value).long() for name, value in inputs.items()}


def transformers_answers(
    shape: Shape, *, precision: str = "float32", compiled: bool = False
) -> Contestant:
    """BertForQuestionAnswering, on our batches of rows of similar length."""
    from benchmarks.speed.transformers_torch import trains

    step = trains(_model(shape), precision, compiled)
    there = rows(_examples("dev"), shape.length)

    def one(batch: Batch) -> float:
        return step(_inputs(batch, trains=True))

    return trains_rows(there, shape, "bucket", one)


def transformers_answers_predicts(shape: Shape) -> Contestant:
    """Predicts the same windows, sorted by length: logits alone, answers not chosen."""
    import torch

    examples = _examples("trial")[:_PREDICTED]
    model, there = _model(shape).eval(), rows(examples, shape.length)
    placements = forward_batching.forward_placements(
        there.lengths, 1, shape.batch, packs=False, max_length=shape.length
    )

    def step(_: None) -> float:
        total = 0.0
        with torch.inference_mode():
            for placement in placements:
                batch = pipeline.collate(there, placement)
                one = {name: value[0] for name, value in batch.items()}
                made = model(**_inputs(one, trains=False))
                total += float(made.start_logits.argmax(-1).sum())
        return total

    return Contestant(step, lambda number: [None], [None], len(examples))


MAKERS = {
    "ours_answers": ours_answers,
    "ours_answers_predicts": ours_answers_predicts,
    "transformers_answers": transformers_answers,
    "transformers_answers_predicts": transformers_answers_predicts,
}
