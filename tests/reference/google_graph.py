"""Runs google-research/bert's own graph (PyPI bert-tensorflow) on a checkpoint.

In a process of its own: the package wants TensorFlow 1 behaviour and
tensorflow.contrib, which is gone; of that it calls one function, layer_norm.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import types
from collections.abc import Mapping
from typing import Any

import numpy as np

from bert_mgpu.checkpoints import google_read
from bert_mgpu.model.config import BertConfig
from tests.support.paths import ROOT

Outputs = dict[str, np.ndarray]


def run(
    config: BertConfig,
    params: Mapping[str, np.ndarray],
    batches: Mapping[str, Mapping[str, np.ndarray]],
) -> tuple[dict[str, Outputs], dict[str, tuple[int, ...]]]:
    """Outputs of each batch by its name, and the graph's variables.

    Outputs: hidden [layers + 1, B, T, H], pooled [B, H], logits [B, C].
    """
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        (folder / "bert_config.json").write_text(config.to_google_json())
        google_read.write(folder / "model.ckpt", params)
        np.savez(
            folder / "inputs.npz",
            **{
                f"{batch}/{name}": value
                for batch, inputs in batches.items()
                for name, value in inputs.items()
            },
        )
        subprocess.run(
            [sys.executable, "-m", "tests.reference.google_graph", scratch],
            cwd=ROOT,
            check=True,
            capture_output=True,
            env={
                **os.environ,
                "CUDA_VISIBLE_DEVICES": "",
                "TF_USE_LEGACY_KERAS": "1",
            },
        )
        variables = json.loads((folder / "variables.json").read_text())
        outputs: dict[str, Outputs] = {batch: {} for batch in batches}
        with np.load(folder / "outputs.npz") as archive:
            for key in archive.files:
                batch, name = key.split("/")
                outputs[batch][name] = archive[key]
    return outputs, {name: tuple(s) for name, s in variables.items()}


def _main(folder: pathlib.Path) -> None:
    import tensorflow.compat.v1 as tf

    tf.disable_v2_behavior()
    provide_contrib(tf)
    from bert import modeling, run_classifier

    built = []

    class Recorded(modeling.BertModel):  # type: ignore[misc]
        """create_model keeps its encoder to itself."""

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            built.append(self)

    modeling.BertModel = Recorded
    config = modeling.BertConfig.from_json_file(str(folder / "bert_config.json"))
    checkpoint = str(folder / "model.ckpt")
    labels = tf.train.load_variable(checkpoint, "output_bias").shape[0]
    outputs = {}
    with np.load(folder / "inputs.npz") as archive:
        inputs = dict(archive)
    for batch in sorted({key.split("/")[0] for key in inputs}):
        with tf.Graph().as_default(), tf.Session() as session:
            ids = tf.constant(inputs[f"{batch}/input_ids"])
            _, _, logits, _ = run_classifier.create_model(
                config,
                False,
                ids,
                tf.constant(inputs[f"{batch}/input_mask"]),
                tf.constant(inputs[f"{batch}/segment_ids"]),
                tf.zeros(ids.shape[:1], tf.int32),
                labels,
                False,
            )
            variables = tf.trainable_variables()
            assignments, _ = modeling.get_assignment_map_from_checkpoint(
                variables, checkpoint
            )
            left = {v.op.name for v in variables} - set(assignments)
            if left:
                raise ValueError(f"Google's code finds no {sorted(left)}")
            tf.train.init_from_checkpoint(checkpoint, assignments)
            session.run(tf.global_variables_initializer())
            encoder = built[-1]
            states = [
                encoder.get_embedding_output(),
                *encoder.get_all_encoder_layers(),
            ]
            fetched = session.run(
                {
                    "hidden": tf.stack(states),
                    "pooled": encoder.get_pooled_output(),
                    "logits": logits,
                }
            )
            shapes = {v.op.name: v.shape.as_list() for v in variables}
        outputs |= {f"{batch}/{key}": value for key, value in fetched.items()}
    np.savez(folder / "outputs.npz", **outputs)
    (folder / "variables.json").write_text(json.dumps(shapes))


def provide_contrib(tf: Any) -> None:
    """tensorflow.contrib.layers.layer_norm as BERT calls it: last axis only."""

    def layer_norm(
        inputs: Any, begin_norm_axis: int, begin_params_axis: int, scope: str
    ) -> Any:
        if (begin_norm_axis, begin_params_axis) != (-1, -1):
            raise ValueError("Google's BERT normalises over the last axis only")
        with tf.variable_scope(scope, default_name="LayerNorm"):
            beta, gamma = (
                tf.get_variable(name, inputs.shape[-1:], initializer=first)
                for name, first in (
                    ("beta", tf.zeros_initializer()),
                    ("gamma", tf.ones_initializer()),
                )
            )
        mean, variance = tf.nn.moments(inputs, [-1], keepdims=True)
        return tf.nn.batch_normalization(inputs, mean, variance, beta, gamma, 1e-12)

    layers = types.ModuleType("tensorflow.contrib.layers")
    layers.layer_norm = layer_norm  # type: ignore[attr-defined]
    contrib = types.ModuleType("tensorflow.contrib")
    contrib.layers = layers  # type: ignore[attr-defined]
    sys.modules["tensorflow.contrib"] = contrib
    sys.modules["tensorflow.contrib.layers"] = layers


if __name__ == "__main__":
    _main(pathlib.Path(sys.argv[1]))
