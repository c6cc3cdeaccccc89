"""30 steps of pretraining beside google-research/bert's own graph."""

import importlib.util

import numpy as np
import pytest

from bert_mgpu.distributed import devices
from bert_mgpu.model import params as params_lib
from bert_mgpu.tasks.masked_lm.task import Pretraining
from bert_mgpu.training import schedule
from bert_mgpu.training.towers import Towers
from tests.reference import google_trajectory
from tests.support.batches import LENGTH, TWO_LAYERS_NO_DROPOUT, make_batch, split
from tests.support.compare import assert_close
from tests.support.marks import rarely

STEPS, ROWS, MOST, PLANNED, WARMUP = 30, 8, 4, 40, 6

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("bert") is None,
    reason="Google's code is not here: make test installs bert-tensorflow",
)


def made(deviation):
    """First weights and batches [steps, B, ...]; rows have 1 to 4 masked tokens."""
    specs = Pretraining(TWO_LAYERS_NO_DROPOUT, LENGTH, True).param_specs()
    rng = np.random.default_rng(3)
    batches = []
    for _ in range(STEPS):
        batch = make_batch(rng, ROWS, ragged=False)
        lengths = batch["input_mask"].sum(1)
        shape = (ROWS, MOST)
        counts = rng.integers(1, MOST + 1, (ROWS, 1))
        used = np.arange(MOST) < counts
        positions = (rng.random(shape) * lengths[:, None]).astype(np.int32)
        batch["masked_lm_positions"] = positions * used
        batch["masked_lm_ids"] = rng.integers(0, 61, shape).astype(np.int32) * used
        batch["masked_lm_weights"] = used.astype(np.float32)
        batch["next_sentence_labels"] = rng.integers(0, 2, ROWS).astype(np.int32)
        del batch["label_ids"], batch["is_real_example"]
        batches.append(batch)
    stacked = {n: np.stack([batch[n] for batch in batches]) for n in batches[0]}
    return params_lib.initialize(specs, deviation, seed=5), stacked


def ours(params, batches, peak):
    """Two towers whose numbers of masked tokens differ."""
    task = Pretraining(TWO_LAYERS_NO_DROPOUT, LENGTH, next_sentence=True)
    two = Towers(task, 2, devices.configure("cpu", 2), seed=1, xla=False)
    two.load(params, two.initial_slots(params))
    losses, norms = [], []
    for step in range(STEPS):
        batch = {name: value[step] for name, value in batches.items()}
        batch["is_real_example"] = np.ones(ROWS, np.float32)
        rate = schedule.learning_rate(step, peak, PLANNED, warmup=WARMUP)
        done = two.train_step(split(batch, 2), step, rate)
        losses.append(sum(map(float, done.losses.values())))
        norms.append(float(done.norm))
    return two.snapshot()[0], np.array(losses), np.array(norms)


@pytest.mark.parametrize(
    ("deviation", "peak", "how"),
    [(0.02, 1e-4, "unmodified"), *rarely((0.2, 1e-3, "densify"))],
)
def test_equals_googles_graph(deviation, peak, how):
    """Densified where the clip is at work; unmodified where it is out of reach."""
    params, batches = made(deviation)
    if how == "unmodified":  # a gentle head: its gradient is small
        params["cls/predictions/transform/LayerNorm/gamma"] *= 0.1
    plan = {"learning_rate": peak, "steps": PLANNED, "warmup": WARMUP}
    wanted, wanted_losses = google_trajectory.run(
        TWO_LAYERS_NO_DROPOUT, params, batches, plan, how
    )
    weights, losses, norms = ours(params, batches, peak)
    assert (norms > 1).sum() > STEPS / 2 if how == "densify" else norms.max() < 1
    np.testing.assert_allclose(losses, wanted_losses, rtol=1e-4)
    assert weights.keys() == wanted.keys()
    assert_close(weights, wanted)
