"""The padding policies: the same training, for what is not padding."""

import numpy as np
import pytest

from bert_mgpu.core.rows import Features, Ragged
from bert_mgpu.data import batching, pipeline
from tests.support.batches import LABELS, LENGTH, NO_DROPOUT
from tests.support.compare import assert_close

# At ten times this rate the losses of some seeds differ by 4e-4: other shapes round
# gradients that nearly cancel otherwise, and Adam makes whole steps of them.
RATE = 3e-4


@pytest.fixture(scope="module")
def features():
    rng = np.random.default_rng(4)
    ids = [rng.integers(1, 61, rng.integers(2, 9)).tolist() for _ in range(50)]
    columns = {
        "input_ids": Ragged.from_rows(ids),
        "segment_ids": Ragged.from_rows([[0] * len(row) for row in ids]),
    }
    labels = rng.integers(0, 3, 50).astype(np.int32)
    return Features(columns, {"label_ids": labels}, np.arange(50))


@pytest.fixture(scope="module")
def train_on(features, first_params):
    """train_on(padding, towers, ...) -> (params, losses, shapes of the batches)."""
    from bert_mgpu.distributed import devices
    from bert_mgpu.tasks.classification.task import Classification
    from bert_mgpu.training.towers import Towers

    def run(padding, towers, *, steps=20, xla=False, config=NO_DROPOUT, devices_used=1):
        task = Classification("x", config, LABELS, max_seq_length=LENGTH)
        visible = devices.configure("cpu", devices_used)
        made = Towers(task, towers, visible, seed=3, xla=xla)
        made.load(first_params, made.initial_slots(first_params))
        order = batching.TrainingOrder(
            features.lengths,
            towers,
            12 // towers,
            padding=padding,
            max_length=LENGTH,
            seed=4,
        )
        losses, shapes = [], set()
        for step in range(steps):
            batch = pipeline.collate(features, order.placement(step))
            shapes.add(batch["input_ids"].shape)
            losses.append(float(made.train_step(batch, step, RATE).losses["loss"]))
        return made.snapshot()[0], losses, shapes

    return run


@pytest.mark.parametrize("padding", ["longest", "pack"])
@pytest.mark.parametrize("towers", [1, 3])
def test_trajectory_is_that_of_full_padding(train_on, padding, towers):
    """Without dropout: its masks follow the shape of the batch."""
    wanted, losses, _ = train_on("max_length", 1)
    params, mine, shapes = train_on(padding, towers)
    assert all(shape[2] != LENGTH for shape in shapes)
    np.testing.assert_allclose(mine, losses, rtol=1e-5)
    assert_close(params, wanted)
