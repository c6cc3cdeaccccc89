"""50 steps of training beside google-research/bert's own graph."""

import functools
import importlib.util

import numpy as np
import pytest

from bert_mgpu.distributed import devices
from bert_mgpu.model import params as params_lib
from bert_mgpu.tasks.classification.task import Classification
from bert_mgpu.training import schedule
from bert_mgpu.training.towers import Towers
from tests.reference import google_trajectory
from tests.support.batches import (
    LABELS,
    LENGTH,
    TWO_LAYERS_NO_DROPOUT,
    make_batch,
    split,
)
from tests.support.compare import assert_close
from tests.support.marks import PLAIN_AND_RARELY_XLA

STEPS, ROWS, PLANNED, WARMUP = 50, 8, 60, 10

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("bert") is None,
    reason="Google's code is not here: make test installs bert-tensorflow",
)


def ours(params, batches, peak, xla=False):
    """Two towers, with the schedule that Google's code builds into its graph."""
    task = Classification(
        "x",
        TWO_LAYERS_NO_DROPOUT,
        LABELS,
        max_seq_length=LENGTH,
        classifier_dropout=0.0,
    )
    two = Towers(task, 2, devices.configure("cpu", 2), seed=1, xla=xla)
    two.load(params, two.initial_slots(params))
    losses, norms = [], []
    for step in range(STEPS):
        batch = {name: value[step] for name, value in batches.items()}
        batch["is_real_example"] = np.ones(ROWS, np.float32)
        rate = schedule.learning_rate(step, peak, PLANNED, warmup=WARMUP)
        done = two.train_step(split(batch, 2), step, rate)
        losses.append(float(done.losses["loss"]))
        norms.append(float(done.norm))
    return two.snapshot()[0], np.array(losses), np.array(norms)


def made(deviation, seed=0):
    specs = Classification(
        "x", TWO_LAYERS_NO_DROPOUT, LABELS, max_seq_length=LENGTH
    ).param_specs()
    rng = np.random.default_rng(seed)
    rows = [make_batch(rng, ROWS, ragged=False) for _ in range(STEPS)]
    for row in rows:
        del row["is_real_example"]
    batches = {name: np.stack([row[name] for row in rows]) for name in rows[0]}
    return params_lib.initialize(specs, deviation, seed=5), batches


@functools.cache
def google(deviation, peak, how):
    """Weights and losses of Google's graph after the steps of `made`."""
    params, batches = made(deviation)
    plan = {"learning_rate": peak, "steps": PLANNED, "warmup": WARMUP}
    return google_trajectory.run(TWO_LAYERS_NO_DROPOUT, params, batches, plan, how)


@pytest.mark.parametrize("xla", PLAIN_AND_RARELY_XLA)
def test_equals_google_with_its_embedding_gradient_densified(xla):
    params, batches = made(deviation=0.2)
    wanted, wanted_losses = google(0.2, 1e-3, "densify")
    weights, losses, norms = ours(params, batches, 1e-3, xla)
    assert (norms > 1).sum() > STEPS / 2  # the clip is at work
    np.testing.assert_allclose(losses, wanted_losses, rtol=1e-4)
    assert_close(weights, wanted)


def test_equals_google_unmodified_where_the_clip_is_out_of_reach():
    params, batches = made(deviation=0.02)
    wanted, wanted_losses = google(0.02, 1e-4, "unmodified")
    weights, losses, norms = ours(params, batches, 1e-4)
    assert norms.max() < 1
    np.testing.assert_allclose(losses, wanted_losses, rtol=1e-5)
    assert_close(weights, wanted)


@pytest.mark.nightly
def test_raw_clip_of_google_differs():
    """The one deliberate difference: without it the first test would be idle."""
    wanted, _ = google(0.2, 1e-3, "densify")
    raw, _ = google(0.2, 1e-3, "unmodified")
    with pytest.raises(AssertionError):
        assert_close(raw, wanted)
