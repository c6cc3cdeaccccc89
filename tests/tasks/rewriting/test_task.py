"""The two losses of a rewriting, and its parameters."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from bert_mgpu.core.rows import Example
from bert_mgpu.data import pipeline
from bert_mgpu.model import params as params_lib
from bert_mgpu.tasks.rewriting import dataset
from bert_mgpu.tasks.rewriting.task import MASKED_LOSS, TAG_LOSS
from tests.support.rewriting import (
    CONFIG,
    LENGTH,
    MOST,
    forward_of,
    placed,
    rewriting,
    weights,
)

PAIRS = [
    ("sun win joy", "sun rain joy", "the win"),
    ("joy", "joy", None),
    ("win win sun", "sun of the", ""),
    ("rain joy it", "rain [SLOT] it", None),
    (None, "a new sun", None),
]


@pytest.fixture
def rows(tokenizer):
    examples = [Example("", *texts, label=label) for label, *texts in PAIRS]
    return dataset.featurise(
        examples,
        tokenizer,
        max_seq_length=LENGTH,
        max_insert=MOST,
        slot_marker="[SLOT]",
    )


def batch_of(rows, *, packed=False):
    batch = pipeline.collate(rows, placed(rows, packed=packed))
    return {name: values[0] for name, values in batch.items()}


def sums(task, batch):
    made = {name: tf.constant(values) for name, values in batch.items()}
    found = task.loss_sums(weights(task), made, None)
    return {name: float(value) for name, value in found.items()}


def test_packed_rows_have_the_losses_and_outputs_of_rows_alone(rows, tokenizer):
    task = rewriting(tokenizer)
    alone, packed = batch_of(rows), batch_of(rows, packed=True)
    assert len(packed["input_ids"]) == len(alone["input_ids"])
    assert packed["first_tokens"].shape[1] > 1 and packed["input_mask"].max() > 1
    one, other = sums(task, alone), sums(task, packed)
    assert one == pytest.approx(other, rel=1e-5) and min(one.values()) > 1
    assert task.loss_weights(alone) == task.loss_weights(packed)
    forward = [forward_of(task, weights(task), packed=p)(rows) for p in (False, True)]
    for name in task.token_outputs:
        one, other = (outputs[name] for outputs in forward)
        np.testing.assert_array_equal(one.offsets, other.offsets)
        np.testing.assert_allclose(one.values, other.values, atol=1e-5)


def test_each_loss_has_the_number_of_what_it_sums(rows, tokenizer):
    """By the tags and masks of PAIRS: 3 + 1 + 3 tokens and ends, and one slot."""
    found = rewriting(tokenizer).loss_weights(batch_of(rows))
    assert found == {TAG_LOSS: 4 + 2 + 4 + 1, MASKED_LOSS: 1 + 2 + 1}


def test_the_losses_follow_from_the_outputs(rows, tokenizer):
    """-log p of the tags, and of the words at the masks."""
    task = rewriting(tokenizer)
    outputs = forward_of(task, weights(task))(rows)
    found = sums(task, batch_of(rows))
    tags = rows.ragged["tag_ids"].values
    scores = outputs["tag_scores"].values
    np.testing.assert_allclose(np.exp(scores).sum(1), 1.0, atol=1e-5)
    wanted = -scores[tags > 0, tags[tags > 0] - 1].sum()
    assert found[TAG_LOSS] == pytest.approx(wanted, rel=1e-5)
    losses = outputs["word_losses"].values
    assert found[MASKED_LOSS] == pytest.approx(losses.sum(), rel=1e-5)
    assert (losses != 0).sum() == 4


def test_a_batch_without_masks(rows, tokenizer):
    """There a loss is 0 and weighs nothing; outputs are the same by name."""
    task = rewriting(tokenizer)
    tagged = rows.take(np.flatnonzero(rows.target_counts == 0))
    batch = batch_of(tagged)
    assert "masked_lm_positions" not in batch
    assert sums(task, batch)[MASKED_LOSS] == 0 == task.loss_weights(batch)[MASKED_LOSS]
    outputs = forward_of(task, weights(task))(tagged)
    assert {*outputs} == task.token_outputs and not outputs["words"].values.any()


@pytest.mark.parametrize("source", ["vocabulary", "input"])
def test_rows_of_the_embedding_beyond_the_vocabulary_are_never_written(
    rows, tokenizer, source
):
    """A model may have some: its vocabulary is shorter, or was padded."""
    size = len(tokenizer.tokens) + 40
    config = dataclasses.replace(CONFIG, vocab_size=size)
    task = rewriting(tokenizer, config, insert_from=source)
    params = weights(task)
    bias = np.zeros(size, "f")
    bias[len(tokenizer.tokens) :] = 50
    params["cls/predictions/output_bias"] = tf.constant(bias)
    found = forward_of(task, params)(rows)
    assert 0 < found["words"].values.max() < len(tokenizer.tokens)


def test_parameters_are_those_of_pretraining_and_of_a_tagger(tokenizer):
    found = rewriting(tokenizer).param_specs()
    pretraining = params_lib.pretraining_specs(CONFIG, next_sentence=False)
    assert pretraining.items() <= found.items()
    assert found["output_weights"][0] == (2 * (MOST + 1), CONFIG.hidden_size)
    assert not [name for name in found if "pooler" in name]
