"""Tokens attend to their own example alone, in padded rows and in packed ones."""

import numpy as np
import pytest
import tensorflow as tf

from bert_mgpu.model import bert, params
from tests.support.tiny import small_config

CONFIG = small_config(num_hidden_layers=2)
FIRST, SECOND = [5, 9, 7], [11, 6]


@pytest.fixture(scope="module")
def encode():
    weights = params.initialize(params.bert_specs(CONFIG), 0.5, seed=3)
    tensors = {name: tf.constant(value) for name, value in weights.items()}

    def last(ids, mask, **more):
        columns = {"input_ids": ids, "input_mask": mask, "segment_ids": [0] * len(ids)}
        batch = {k: tf.constant([v], tf.int32) for k, v in (columns | more).items()}
        return bert.encode(tensors, CONFIG, batch)[-1].numpy()[0]

    return last


def test_padding_is_not_attended_to(encode):
    alone = encode(FIRST, [1, 1, 1])
    padded = encode([*FIRST, 8, 4], [1, 1, 1, 0, 0])
    np.testing.assert_allclose(padded[:3], alone, rtol=0, atol=1e-5)


def test_examples_of_a_packed_row_are_as_alone(encode):
    packed = encode([*FIRST, *SECOND], [1, 1, 1, 2, 2], position_ids=[0, 1, 2, 0, 1])
    np.testing.assert_allclose(packed[:3], encode(FIRST, [1] * 3), rtol=0, atol=1e-5)
    np.testing.assert_allclose(packed[3:], encode(SECOND, [1] * 2), rtol=0, atol=1e-5)
