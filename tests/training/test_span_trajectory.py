"""30 steps of answering questions beside google-research/bert's own graph."""

import importlib.util

import numpy as np
import pytest
import tensorflow as tf

from bert_mgpu.config.span_qa import Choice
from bert_mgpu.distributed import devices
from bert_mgpu.model import params as params_lib
from bert_mgpu.tasks.span_qa.task import SpanQa
from bert_mgpu.training import schedule
from bert_mgpu.training.towers import Towers
from tests.reference import google_trajectory
from tests.support.batches import LENGTH, TWO_LAYERS_NO_DROPOUT, make_batch, split
from tests.support.compare import assert_close
from tests.support.marks import rarely

STEPS, ROWS, PLANNED, WARMUP = 30, 8, 40, 6
PEAK = 3e-4
TASK = SpanQa(
    "x",
    TWO_LAYERS_NO_DROPOUT,
    max_seq_length=LENGTH,
    choice=Choice(20, 30, False, null_score_diff_threshold=0.0),
)
# They shift the logits of all tokens alike: their gradient is rounding noise, as keys'.
SHIFTS = {"bert/encoder/layer_1/output/LayerNorm/beta", "cls/squad/output_bias"}

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("bert") is None,
    reason="Google's code is not here: make test installs bert-tensorflow",
)


def made(deviation):
    """First weights and batches [steps, B, ...] of full rows: Google's softmax is over
    padding, too.
    """
    rng = np.random.default_rng(3)
    batches = []
    for _ in range(STEPS):
        batch = make_batch(rng, ROWS, ragged=False)
        batch["input_mask"][:] = 1
        places = np.sort(rng.integers(0, LENGTH, (ROWS, 2)), 1).astype(np.int32)
        batch["start_positions"], batch["end_positions"] = places.T
        del batch["label_ids"], batch["is_real_example"]
        batches.append(batch)
    stacked = {n: np.stack([batch[n] for batch in batches]) for n in batches[0]}
    # Google's graph has a pooler, which its loss does not depend on.
    specs = TASK.param_specs() | params_lib.bert_specs(TWO_LAYERS_NO_DROPOUT)
    return params_lib.initialize(specs, deviation, seed=5), stacked


def ours(params, batches):
    two = Towers(TASK, 2, devices.configure("cpu", 2), seed=1, xla=False)
    own = {name: params[name] for name in TASK.param_specs()}
    two.load(own, two.initial_slots(own))
    losses, norms = [], []
    for step in range(STEPS):
        batch = {name: value[step] for name, value in batches.items()}
        batch["is_real_example"] = np.ones(ROWS, np.float32)
        rate = schedule.learning_rate(step, PEAK, PLANNED, warmup=WARMUP)
        done = two.train_step(split(batch, 2), step, rate)
        losses.append(float(done.losses["loss"]))
        norms.append(float(done.norm))
    return two.snapshot()[0], np.array(losses), np.array(norms)


@pytest.mark.parametrize(
    ("deviation", "scale", "how"),
    [(0.2, 0.1, "unmodified"), *rarely((0.02, 3.0, "densify"))],
)
def test_equals_googles_graph(deviation, scale, how):
    """Densified where the clip is at work; unmodified where it is out of reach.

    The logits of Google's trained weights are the same here, too.
    """
    params, batches = made(deviation)
    params["cls/squad/output_weights"] *= scale
    if how == "unmodified":  # a gentle head: its gradient is small
        params["bert/encoder/layer_1/output/LayerNorm/gamma"] *= scale
    plan = {"learning_rate": PEAK, "steps": PLANNED, "warmup": WARMUP}
    wanted, wanted_losses = google_trajectory.run(
        TWO_LAYERS_NO_DROPOUT, params, batches, plan, how
    )
    theirs = wanted.pop(google_trajectory.SPAN_LOGITS)
    weights, losses, norms = ours(params, batches)
    assert (norms > 1).sum() > STEPS / 2 if how == "densify" else norms.max() < 1
    np.testing.assert_allclose(losses, wanted_losses, rtol=1e-4)
    assert {*wanted} - {*weights} == {
        "bert/pooler/dense/kernel",
        "bert/pooler/dense/bias",
    }
    compared = [name for name in weights if name not in SHIFTS]
    assert_close(*({name: own[name] for name in compared} for own in (weights, wanted)))
    last = {name: tf.constant(value[-1]) for name, value in batches.items()}
    logits = TASK.outputs({name: wanted[name] for name in weights}, last)["logits"]
    np.testing.assert_allclose(logits, theirs, atol=1e-5)


@pytest.mark.nightly  # `make test` does not install torch
def test_transformers_has_the_logits_of_googles_weights():
    """After 30 steps of Google's graph."""
    import torch

    from tests.reference import transformers_model

    params, batches = made(0.2)
    plan = {"learning_rate": PEAK, "steps": PLANNED, "warmup": WARMUP}
    trained, _ = google_trajectory.run(
        TWO_LAYERS_NO_DROPOUT, params, batches, plan, "unmodified"
    )
    wanted = trained.pop(google_trajectory.SPAN_LOGITS)  # [B, T, 2]
    weights = "cls/squad/output_weights"
    assert np.abs(trained[weights] - params[weights]).max() > 1e-3
    model = transformers_model.build(
        TWO_LAYERS_NO_DROPOUT, 2, "BertForQuestionAnswering"
    )
    transformers_model.fill(model, trained)
    names = {"input_ids": "input_ids", "input_mask": "attention_mask"}
    names["segment_ids"] = "token_type_ids"
    with torch.no_grad():
        output = model.eval()(
            **{
                theirs: torch.tensor(batches[own][-1]).long()
                for own, theirs in names.items()
            }
        )
    actual = np.stack([output.start_logits, output.end_logits], -1)
    np.testing.assert_allclose(actual, wanted, atol=1e-5)
