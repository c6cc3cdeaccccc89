"""A small model on logical CPU devices, trained by towers of any layout."""

import dataclasses

import numpy as np
import pytest

from bert_mgpu.model.config import BertConfig

CONFIG = BertConfig(
    vocab_size=61,
    hidden_size=32,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=64,
    max_position_embeddings=16,
)
NO_DROPOUT = dataclasses.replace(
    CONFIG, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0
)
LABELS = ("a", "b", "c")
LENGTH = 12
RATE = 3e-3


def make_batch(rng, rows, *, ragged):
    """Arrays [rows, ...] under Google's names; ragged: some rows count nothing."""
    lengths = rng.integers(3, LENGTH + 1, (rows, 1))
    places = np.arange(LENGTH)
    mask = (places < lengths).astype(np.int32)
    weights = np.ones(rows, np.float32)
    if ragged:
        weights[rng.random(rows) < 0.4] = 0
        weights[-rows // 4 :] = 0  # with 4 towers, the last one is empty
        weights[0] = 1
    return {
        "input_ids": rng.integers(1, 61, (rows, LENGTH)).astype(np.int32) * mask,
        "input_mask": mask,
        "segment_ids": ((places > lengths // 2) * mask).astype(np.int32),
        "label_ids": rng.integers(0, 3, rows).astype(np.int32),
        "is_real_example": weights,
    }


def split(batch, towers):
    return {
        name: value.reshape(towers, -1, *value.shape[1:])
        for name, value in batch.items()
    }


@pytest.fixture(scope="session")
def first_params():
    from bert_mgpu.model import params
    from bert_mgpu.tasks.classification.task import Classification

    specs = Classification("x", CONFIG, LABELS, LENGTH).param_specs()
    return params.initialize(specs, 0.1, seed=5)


@pytest.fixture(scope="session")
def train(first_params):
    """train(n_towers, n_devices, batches, ...) -> (params, losses, norms)."""
    from bert_mgpu.distributed import devices
    from bert_mgpu.tasks.classification.task import Classification
    from bert_mgpu.training.towers import Towers

    def run(
        n_towers,
        n_devices,
        batches,
        *,
        parts=None,
        xla=False,
        config=CONFIG,
        seed=42,
        rate=RATE,
        **settings,
    ):
        visible = devices.configure("cpu", n_devices)
        task = Classification("x", config, LABELS, LENGTH)
        towers = Towers(task, n_towers, visible, seed, xla, **settings)
        towers.load(first_params, towers.first_slots(first_params))
        losses, norms = [], []
        for step, batch in enumerate(batches):
            done = towers.train_step(split(batch, parts or n_towers), step, rate)
            losses.append(float(done.losses["loss"]))
            norms.append(float(done.norm))
        return towers.snapshot()[0], losses, norms

    return run
