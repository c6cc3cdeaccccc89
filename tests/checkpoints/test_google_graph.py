"""google-research/bert itself loads what we write, in a process of its own."""

import importlib.util

import numpy as np
import pytest
import tensorflow as tf

from bert_mgpu.model import bert, heads, params
from tests.reference import cases, google_graph

INSTALLED = all(importlib.util.find_spec(name) for name in ("bert", "tf_keras"))


@pytest.mark.skipif(
    not INSTALLED, reason="Google's code is in bert-tensorflow, it needs tf-keras"
)
def test_googles_graph_computes_our_logits_from_our_checkpoint():
    config = cases.MODEL
    specs = params.bert_specs(config)
    specs |= params.classifier_specs(config, cases.NUM_LABELS)
    weights = cases.make_params({name: shape for name, (shape, _) in specs.items()})
    slots = {f"{name}/adam_m": value for name, value in weights.items()}
    inputs = cases.make_inputs(19)
    theirs, variables = google_graph.run(
        config, {**weights, **slots, "global_step": np.int64(3)}, {"19": inputs}
    )
    assert variables == {name: shape for name, (shape, _) in specs.items()}

    batch = {name: tf.constant(value) for name, value in inputs.items()}
    states = bert.encode(weights, config, batch)
    logits = heads.classification_logits(
        weights, bert.pool(weights, states[-1][:, 0]), 0.0
    )
    difference = np.abs(logits.numpy() - theirs["19"]["logits"]).max()
    assert difference <= cases.TOLERANCE
