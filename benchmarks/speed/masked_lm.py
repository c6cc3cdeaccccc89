"""Contestants that pretrain: masked LM and next-sentence prediction on a real corpus.

All get the same records, of Chinese laws and a newspaper, with masks drawn beforehand.
"""

from __future__ import annotations

import itertools
import pathlib
import subprocess
import sys
from typing import Any

import numpy as np

from benchmarks.corpora import write
from benchmarks.harness import ROOT, Contestant
from benchmarks.speed.workloads import (
    RATE,
    SEED,
    VOCAB,
    VOCAB_FILE,
    Batch,
    Shape,
    trains_rows,
)
from bert_mgpu.core.rows import Features, Ragged

MASKED = 20  # at most so many words of a row
_CLS_ROWS = ("input_ids", "input_mask", "segment_ids")
NEXT = "next_sentence_labels"
_TARGETS = ("masked_lm_positions", "masked_lm_ids", "masked_lm_weights")


def records(length: int) -> pathlib.Path:
    """The file of records, made once by data_prep/create_pretraining_data.py."""
    folder = ROOT / "build" / "bench"
    path = folder / f"pretraining-{length}.tfrecord"
    if not path.exists():
        texts = ",".join(str(write(name, folder)) for name in ("news", "laws"))
        command = [sys.executable, ROOT / "data_prep" / "create_pretraining_data.py"]
        flags = {"input_file": texts, "output_file": path, "vocab_file": VOCAB_FILE}
        flags |= {"max_seq_length": length, "max_predictions_per_seq": MASKED}
        flags |= {"dupe_factor": 1}
        command += [f"--{name}={value}" for name, value in flags.items()]
        subprocess.run(command, check=True, stdout=sys.stderr)
    return path


def rows(length: int) -> Any:
    """The records as a run reads them."""
    from bert_mgpu.data import pretraining_records, record_rows

    path = records(length)
    form = pretraining_records.RecordSchema(
        length, MASKED, VOCAB, segments=2, dynamic=False
    )
    index = pretraining_records.index(
        str(path), form, False, cache=path.parent / "cache"
    )
    return record_rows.RecordRows([str(path)], [index])


def in_memory(length: int) -> Features:
    """Like `rows`, without TensorFlow 2, which Google's code turns off."""
    path = records(length).with_suffix(".npz")
    if not path.exists():
        program = [sys.executable, "-m", "benchmarks.speed.masked_lm"]
        subprocess.run([*program, str(length), path], cwd=ROOT, check=True)
    with np.load(path) as archive:
        found = dict(archive)
    ragged = {
        name: Ragged(found[name], found[f"{name}/offsets"])
        for name in ("input_ids", "segment_ids", *_TARGETS[:2])
    }
    targets = {name: ragged.pop(name) for name in _TARGETS[:2]}
    dense = {NEXT: found[NEXT]}
    return Features(ragged, dense, np.arange(len(dense[NEXT])), targets=targets)


def _save(length: int, path: str) -> None:
    there = rows(length)
    features = there.take(np.arange(len(there)))
    arrays = dict(features.dense)
    for name, column in (features.ragged | features.targets).items():
        arrays |= {name: column.values, f"{name}/offsets": column.offsets}
    np.savez(path, **arrays)


def ours_pretrains(shape: Shape, *, padding: str, **flags: Any) -> Contestant:
    """Pretrains as a run does."""
    from bert_mgpu.checkpoints.pretrained import Pretrained
    from bert_mgpu.config.pretraining import PretrainConfig
    from bert_mgpu.distributed import devices, topology
    from bert_mgpu.model import params as params_lib
    from bert_mgpu.runs.run import Run, make_towers
    from bert_mgpu.tasks.masked_lm.task import Pretraining

    run = PretrainConfig(seed=SEED, max_seq_length=shape.length, **flags)
    model = Pretrained(
        shape.config, "", None, vocab_file=None, do_lower_case=True, labels=None
    )
    task = Pretraining(model.bert_config, shape.length, next_sentence=True)
    world = topology.single_process(run.n_gpus, devices.configure("auto", 1))
    job = Run(run, model, task, data=None, topology=world, output_dir=pathlib.Path())
    towers = make_towers(job)
    params = params_lib.initialize(task.param_specs(), 0.02, SEED)
    towers.load(params, towers.initial_slots(params))
    numbers = itertools.count()

    def step(batch: Batch) -> float:
        parts = {name: value[None] for name, value in batch.items()}
        losses = towers.train_step(parts, next(numbers), RATE).losses
        return float(sum(map(float, losses.values())))

    return trains_rows(rows(shape.length), shape, padding, step)


def google_pretrains(shape: Shape) -> Contestant:
    """run_pretraining.py's model and optimizer, unchanged."""
    import tensorflow.compat.v1 as tf

    tf.disable_v2_behavior()
    from tests.reference.google_graph import provide_contrib

    provide_contrib(tf)
    from bert import modeling, optimization, run_pretraining

    config = modeling.BertConfig.from_dict(shape.google_config)
    sizes = dict.fromkeys(_CLS_ROWS, shape.length) | dict.fromkeys(_TARGETS, MASKED)
    fed = {
        name: tf.placeholder(
            tf.float32 if name.endswith("weights") else tf.int32, [shape.batch, size]
        )
        for name, size in sizes.items()
    }
    fed[NEXT] = tf.placeholder(tf.int32, [shape.batch])
    bert = modeling.BertModel(config, True, *(fed[name] for name in _CLS_ROWS))
    masked, _, _ = run_pretraining.get_masked_lm_output(
        config,
        bert.get_sequence_output(),
        bert.get_embedding_table(),
        *(fed[name] for name in _TARGETS),
    )
    following, _, _ = run_pretraining.get_next_sentence_output(
        config, bert.get_pooled_output(), fed[NEXT]
    )
    loss = masked + following
    tf.train.get_or_create_global_step()
    train = optimization.create_optimizer(loss, RATE, 1000, 100, False)
    session = tf.Session()
    session.run(tf.global_variables_initializer())

    def step(batch: Batch) -> float:
        feed = {place: batch[name] for name, place in fed.items()}
        for name in _TARGETS:  # padded to max_predictions_per_seq, as in its records
            spare = MASKED - batch[name].shape[1]
            feed[fed[name]] = np.pad(batch[name], ((0, 0), (0, spare)))
        return float(session.run([loss, train], feed)[0])

    return trains_rows(in_memory(shape.length), shape, "max_length", step)


def transformers_pretrains(shape: Shape, *, compiled: bool = False) -> Contestant:
    """BertForPreTraining, which computes vocabulary logits for all tokens."""
    import torch
    import transformers as library

    from benchmarks.speed.transformers_torch import config_of, trains

    def inputs(batch: Batch) -> dict[str, Any]:
        labels = np.full(batch["input_ids"].shape, -100)  # ignored by the loss
        used = batch["masked_lm_weights"] > 0
        row = np.repeat(np.arange(len(labels)), used.sum(1))
        labels[row, batch["masked_lm_positions"][used]] = batch["masked_lm_ids"][used]
        arrays = {
            "input_ids": batch["input_ids"],
            "attention_mask": batch["input_mask"],
            "token_type_ids": batch["segment_ids"],
            "labels": labels,
            "next_sentence_label": batch[NEXT],
        }
        return {name: torch.tensor(value).long() for name, value in arrays.items()}

    model = library.BertForPreTraining(config_of(shape))
    step = trains(model, compiled=compiled)
    there = in_memory(shape.length)
    return trains_rows(there, shape, "longest", lambda batch: step(inputs(batch)))


if __name__ == "__main__":
    _save(int(sys.argv[1]), sys.argv[2])
