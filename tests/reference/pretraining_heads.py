"""Names, shapes and outputs of the heads of pretraining, by those who defined them.

    python -m tests.reference.pretraining_heads

writes tests/golden/pretraining_heads.json. Needs bert-tensorflow, tf-keras, torch and
transformers. The weights follow from names and shapes alone (`make_tensors`), so that
the file holds only what transformers computed from them, in float64.
"""

import importlib.metadata
import json
import os
import tempfile
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from tests.reference import google_graph
from tests.support import paths
from tests.support.tiny import small_config

GOLDEN = paths.GOLDEN / "pretraining_heads.json"
PACKAGES = ("bert-tensorflow", "tensorflow", "torch", "transformers")
ARCHITECTURES = ("BertForPreTraining", "BertForMaskedLM")
# What is a second name of another tensor, in transformers' models.
COPIES = {
    "cls.predictions.decoder.weight": "bert.embeddings.word_embeddings.weight",
    "cls.predictions.decoder.bias": "cls.predictions.bias",
}
CONFIG = small_config(
    vocab_size=11,
    hidden_size=8,
    num_hidden_layers=1,
    num_attention_heads=2,
    intermediate_size=12,
    max_position_embeddings=6,
)
INPUT_IDS = [[2, 7, 4, 10, 3], [2, 1, 9, 5, 3]]


def make_tensors(shapes: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """float32 values for transformers' names; copies are copies."""
    tensors = {}
    for name, shape in shapes.items():
        random = np.random.RandomState(zlib.crc32(COPIES.get(name, name).encode()))
        tensors[name] = (0.5 * random.standard_normal(shape)).astype(np.float32)
    return tensors


def main() -> None:
    transformers = {name: of_transformers(name) for name in ARCHITECTURES}
    known = {
        "versions": {name: importlib.metadata.version(name) for name in PACKAGES},
        "google": of_google(),
        "transformers": transformers,
    }
    GOLDEN.write_text(json.dumps(known) + "\n")


def of_transformers(architecture: str) -> dict[str, Any]:
    """Shapes of all tensors, names of those in a file, and what the heads give."""
    import safetensors
    import torch
    import transformers

    from tests.reference import transformers_model

    model = transformers_model.build(CONFIG, 2, architecture)
    shapes = {name: list(value.shape) for name, value in model.state_dict().items()}
    tensors = make_tensors(shapes)
    model.load_state_dict({n: torch.tensor(value) for n, value in tensors.items()})
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        with safetensors.safe_open(f"{folder}/model.safetensors", "numpy") as file:
            saved = sorted(file.keys())
        loaded = getattr(transformers, architecture).from_pretrained(folder)
    for name, value in loaded.state_dict().items():
        assert np.array_equal(value.numpy(), tensors[name]), name
    with torch.no_grad():
        out = model.double().eval()(torch.tensor(INPUT_IDS), output_hidden_states=True)
        actual = {"hidden": out.hidden_states[-1]}  # [B, T, H]
        if architecture == "BertForPreTraining":
            actual["words"] = out.prediction_logits  # [B, T, V]
            actual["pooled"] = model.bert(torch.tensor(INPUT_IDS)).pooler_output
            actual["sentences"] = out.seq_relationship_logits  # [B, 2]
        else:
            actual["words"] = out.logits
    outputs = {name: value.numpy().round(7).tolist() for name, value in actual.items()}
    return {"shapes": shapes, "saved": saved, "outputs": outputs}


def of_google() -> dict[str, list[int]]:
    """Shapes of the variables that Google's run_pretraining.py trains."""
    os.environ["TF_USE_LEGACY_KERAS"] = "1"
    import tensorflow.compat.v1 as tf

    tf.disable_v2_behavior()
    google_graph.provide_contrib(tf)
    from bert import modeling, run_pretraining

    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        file.write(CONFIG.to_google_json())
        file.flush()
        config = modeling.BertConfig.from_json_file(file.name)
    with tf.Graph().as_default():
        model = modeling.BertModel(config, False, tf.constant(INPUT_IDS))
        ones = tf.ones([2, 1], tf.int32)
        run_pretraining.get_masked_lm_output(
            config,
            model.get_sequence_output(),
            model.get_embedding_table(),
            ones,
            ones,
            tf.ones([2, 1]),
        )
        run_pretraining.get_next_sentence_output(
            config, model.get_pooled_output(), ones
        )
        return {v.op.name: v.shape.as_list() for v in tf.trainable_variables()}


if __name__ == "__main__":
    main()
