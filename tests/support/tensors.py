"""Names of real graphs, and Hugging Face files of random tensors."""

import json

import numpy as np
import safetensors.numpy

from tests.support.paths import GOLDEN

GOLDEN = json.loads((GOLDEN / "names.json").read_text())
VOCAB = "[UNK]\n[PAD]\n[CLS]\n[SEP]\n[MASK]\n中\nab\n"


def random_tensors(shapes):
    rng = np.random.default_rng(0)
    return {
        name: rng.standard_normal(shape).astype(np.float32)
        for name, shape in shapes.items()
    }


def save(folder, tensors, name="model.safetensors"):
    safetensors.numpy.save_file(
        {key: np.ascontiguousarray(value) for key, value in tensors.items()},
        folder / name,
    )
    return folder


def assert_bit_equal(actual, wanted):
    assert actual.keys() == wanted.keys()
    for name, value in wanted.items():
        assert actual[name].dtype == np.float32
        assert actual[name].tobytes() == value.tobytes(), name
