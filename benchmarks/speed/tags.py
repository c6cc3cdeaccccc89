"""Contestants that tag cluener's entities, with the same rows, sizes and batches."""

from __future__ import annotations

import functools
import itertools
from typing import Any

import numpy as np

from benchmarks.harness import SHARED, Contestant
from benchmarks.speed.towers import towers_of
from benchmarks.speed.workloads import RATE, SEED, VOCAB_FILE, Batch, Shape, trains_rows
from bert_mgpu.core.rows import Features, Ragged
from bert_mgpu.data import forward_batching, pipeline
from bert_mgpu.text.tokenization import Tokenizer

TYPES = "address book company game government movie name organization position scene"


@functools.cache
def _tags() -> list[str]:
    from bert_mgpu.tasks.tagging import bio

    return bio.tags_of(TYPES.split(), "bio")


def rows(split: str, length: int, crf: bool = False) -> Features:
    """The rows of a split, as a run reads them."""
    from bert_mgpu.config.finetuning import FinetuneConfig
    from bert_mgpu.tasks import reader, registry
    from bert_mgpu.tasks.tagging import dataset
    from bert_mgpu.tasks.tagging.family import FAMILY

    config = FinetuneConfig(task_name="cluener", repair_bio="begin")
    files = registry.find_task_files(config)
    path = SHARED / "data" / "cluener" / f"{split}.json"
    read = functools.partial(FAMILY.complete, files)
    examples = reader.read_examples(
        files, path, split, label=FAMILY.read_label, with_label=True, complete=read
    )
    return dataset.featurise(
        examples,
        Tokenizer(str(VOCAB_FILE)),
        _tags(),
        max_seq_length=length,
        doc_stride=length // 2,
        by_words=False,
        for_crf=crf,
    )


def _towers(shape: Shape, crf: bool, flags: dict[str, Any]) -> Any:
    from bert_mgpu.tasks.tagging.task import Tagging

    task = Tagging(
        "x",
        shape.config,
        _tags(),
        max_seq_length=shape.length,
        units="pieces",
        has_crf=crf,
    )
    return towers_of(task, shape, flags)


def ours_tags(
    shape: Shape, *, padding: str, crf: bool = False, **flags: Any
) -> Contestant:
    towers, numbers = _towers(shape, crf, flags), itertools.count()

    def step(batch: Batch) -> float:
        parts = {name: value[None] for name, value in batch.items()}
        return float(towers.train_step(parts, next(numbers), RATE).losses["loss"])

    return trains_rows(rows("train", shape.length, crf), shape, padding, step)


def ours_tags_predicts(shape: Shape, *, crf: bool = False) -> Contestant:
    """Predicts logits of the dev set, in batches as a run makes them, and the tags."""
    from bert_mgpu.tasks.tagging.decoding import TaggedSet

    towers, there = _towers(shape, crf, {}), rows("dev", shape.length)
    placements = forward_batching.forward_placements(
        there.lengths, 1, shape.batch, packs=True, max_length=shape.length
    )
    task = towers.task

    def step(_: None) -> float:
        towers.refresh()
        outputs = pipeline.forward_all(
            there,
            placements,
            towers.place_for_outputs,
            ask=towers.launch_outputs,
            token_outputs=task.token_outputs,
        )
        scored = TaggedSet(
            pipeline.in_order(outputs),
            there,
            task.labels,
            rules=task.rules,
            examples=list,
        )
        return float(scored.decoded[0].values.sum())

    return Contestant(step, lambda number: [None], [None], len(there))


def ours_decodes(sentences: int, units: int) -> Contestant:
    """Decodes random logits: the best tags, and the probability of each."""
    from bert_mgpu.model import crf
    from bert_mgpu.tasks.tagging import bio, decoding

    count = len(_tags())
    draw = np.random.default_rng(SEED)
    logits = Ragged(
        draw.normal(size=(sentences * units, count)).astype(np.float32),
        np.arange(0, sentences * units + 1, units),
    )
    rules = crf.Transitions(*bio.rules_of(_tags()))
    none = crf.Transitions(
        *(np.zeros(shape, np.float32) for shape in ((count, count), count, count))
    )

    def step(_: None) -> float:
        return float(decoding.decode(logits, none, rules)[0].values.sum())

    return Contestant(step, lambda number: [None], [None], sentences)


def _model(shape: Shape) -> Any:
    import torch
    import transformers as library

    from benchmarks.speed.transformers_torch import config_of

    torch.manual_seed(SEED)
    config = config_of(shape)
    config.num_labels = len(_tags())
    return library.BertForTokenClassification(config)


def _inputs(batch: Batch) -> dict[str, Any]:
    import torch

    arrays = {
        "input_ids": batch["input_ids"],
        "attention_mask": batch["input_mask"],
        "token_type_ids": batch["segment_ids"],
        "labels": np.where(batch["tag_ids"], batch["tag_ids"] - 1, -100),
    }
    return {name: torch.tensor(value).long() for name, value in arrays.items()}


def transformers_tags(
    shape: Shape, *, precision: str = "float32", compiled: bool = False
) -> Contestant:
    """BertForTokenClassification, on our batches of rows of similar length."""
    from benchmarks.speed.transformers_torch import trains

    step = trains(_model(shape), precision, compiled)
    there = rows("train", shape.length)
    return trains_rows(there, shape, "bucket", lambda batch: step(_inputs(batch)))


def transformers_tags_predicts(shape: Shape) -> Contestant:
    """Predicts the dev set, sorted by length: the likeliest tag of each token."""
    import torch

    model, there = _model(shape).eval(), rows("dev", shape.length)
    placements = forward_batching.forward_placements(
        there.lengths, 1, shape.batch, packs=False, max_length=shape.length
    )

    def step(_: None) -> float:
        total = 0.0
        with torch.inference_mode():
            for placement in placements:
                batch = {
                    name: value[0]
                    for name, value in pipeline.collate(there, placement).items()
                }
                inputs = _inputs(batch)
                units = inputs.pop("labels") >= 0
                total += float(model(**inputs).logits.argmax(-1)[units].sum())
        return total

    return Contestant(step, lambda number: [None], [None], len(there))


MAKERS = {
    "ours_tags": ours_tags,
    "ours_tags_predicts": ours_tags_predicts,
    "ours_decodes": ours_decodes,
    "transformers_tags": transformers_tags,
    "transformers_tags_predicts": transformers_tags_predicts,
}
