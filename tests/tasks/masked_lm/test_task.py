"""Masked words and next sentences: packed or not, the same losses and gradients."""

import numpy as np
import pytest
import tensorflow as tf

from bert_mgpu.core.rows import Features, Ragged
from bert_mgpu.data import packing, pipeline
from bert_mgpu.model import params as params_lib
from bert_mgpu.tasks.masked_lm.pseudo_perplexity import Scoring
from bert_mgpu.tasks.masked_lm.task import MASKED, NEXT, Pretraining
from tests.support.marks import GRAPH_AND_RARELY_XLA
from tests.support.tiny import small_config

CONFIG = small_config(dropout=0.0, vocab_size=97, max_position_embeddings=40)
ROWS, LONGEST = 37, 24
BOTH = pytest.mark.parametrize("next_sentence", [True, False], ids=["nsp", "mlm"])


@pytest.fixture(scope="module")
def features():
    """Pairs of 4 to 24 tokens, 1 to 4 of them masked."""
    rng = np.random.default_rng(0)
    ids, segments, places, words = [], [], [], []
    for _ in range(ROWS):
        length = int(rng.integers(4, LONGEST + 1))
        ids.append(rng.integers(1, 97, length).tolist())
        split = int(rng.integers(1, length))
        segments.append([0] * split + [1] * (length - split))
        masked = rng.choice(length, int(rng.integers(1, 5)), replace=False)
        places.append(np.sort(masked).tolist())
        words.append(rng.integers(0, 97, len(masked)).tolist())
    columns = {"input_ids": ids, "segment_ids": segments}
    targets = {"masked_lm_positions": places, "masked_lm_ids": words}
    return Features(
        {name: Ragged.from_rows(rows) for name, rows in columns.items()},
        {"next_sentence_labels": rng.integers(0, 2, ROWS).astype(np.int32)},
        np.arange(ROWS),
        targets={name: Ragged.from_rows(rows) for name, rows in targets.items()},
    )


def placements(features):
    """One a row, and packed; both have places for targets to spare.

    Of the packed ones, only those that may be real are computed.
    """
    numbers = np.arange(ROWS)
    shape = packing.packed_shape([features.lengths], LONGEST)
    packed = packing.pack(numbers, features.lengths, 1, shapes=[shape])
    most = packing.most_targets(packed.numbers, features.target_counts)
    assert packed.numbers.shape[2] > 1 and most.row > 4
    alone = packing.one_per_row(numbers, 1, LONGEST)
    few = packed._replace(targets=most.row + 3, real_targets=most.tower + 2)
    assert few.most_real_targets < len(packed.numbers[0]) * few.targets
    return alone._replace(targets=6), few


def one_tower(features, placement):
    batch = pipeline.collate(features, placement)
    return {name: tf.constant(value[0]) for name, value in batch.items()}


def by_row(values, placement):
    numbers = placement.numbers.reshape(-1)
    actual = np.empty((ROWS, *values.shape[1:]), values.dtype)
    actual[numbers[numbers >= 0]] = values[numbers >= 0]
    return actual


def weights_of(task):
    specs = task.param_specs()
    weights = params_lib.initialize(specs, 0.3, seed=2)
    return {name: tf.constant(value) for name, value in weights.items()}


@BOTH
@pytest.mark.parametrize("compiled", GRAPH_AND_RARELY_XLA)
def test_packed_rows_give_the_losses_of_single_ones(features, next_sentence, compiled):
    task = Pretraining(CONFIG, LONGEST, next_sentence)
    tensors = weights_of(task)

    @tf.function(jit_compile=compiled, autograph=False)
    def everything(params, batch):
        with tf.GradientTape() as tape:
            tape.watch(params)
            sums = task.loss_sums(params, batch, None)
            loss = tf.add_n([*sums.values()])
        grads = tape.gradient(loss, params, unconnected_gradients="zero")
        return task.outputs(params, batch), sums, grads

    def found_by(placement):
        batch = one_tower(features, placement)
        outputs, sums, grads = tf.nest.map_structure(
            lambda value: tf.convert_to_tensor(value).numpy(),
            everything(tensors, batch),
        )
        return outputs, sums, task.loss_weights(batch), grads

    alone_and_packed = map(found_by, placements(features))
    (outputs, sums, counts, grads), (packed, *others) = alone_and_packed
    alone, together = placements(features)
    for name, values in outputs.items():
        wanted, actual = by_row(values, alone), by_row(packed[name], together)
        np.testing.assert_allclose(actual, wanted, rtol=0, atol=1e-5)
    assert counts[MASKED] == others[1][MASKED] == features.target_counts.sum()
    assert (NEXT in counts) == next_sentence
    for name, value in sums.items():
        assert others[0][name] == pytest.approx(value, rel=1e-6)
        assert name != NEXT or counts[NEXT] == others[1][NEXT] == ROWS
    for name, grad in grads.items():
        if not name.endswith("key/bias"):
            limit = 1e-5 * np.abs(grad).max() + 1e-6
            assert np.abs(others[2][name] - grad).max() <= limit, name


@BOTH
def test_outputs_are_the_sums_of_each_row(features, next_sentence):
    """Row by row, in numpy, from the logits of the whole vocabulary."""
    from bert_mgpu.model import bert, heads

    task = Pretraining(CONFIG, LONGEST, next_sentence)
    params = weights_of(task)
    alone, _ = placements(features)
    outputs = task.outputs(params, one_tower(features, alone))
    actual = {name: value.numpy() for name, value in outputs.items()}
    for row in range(ROWS):
        length = int(features.lengths[row])
        batch = {name: c.row(row)[None] for name, c in features.ragged.items()}
        batch["input_mask"] = np.ones((1, length), np.int32)
        last = bert.encode(params, CONFIG, batch)[-1][0]
        masked, words = (features.targets[n].row(row) for n in features.targets)
        logits = heads.masked_lm_logits(params, CONFIG, tf.gather(last, masked)).numpy()
        shares = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
        losses = -np.log(shares[np.arange(len(words)), words])
        assert actual["masked_lm_losses"][row] == pytest.approx(losses.sum(), abs=1e-4)
        hits = (logits.argmax(-1) == words).sum()
        assert actual["masked_lm_hits"][row] == hits
        assert actual["masked_lm_counts"][row] == len(words)
        if next_sentence:
            following = heads.next_sentence_logits(params, bert.pool(params, last[:1]))[
                0
            ]
            label = features.dense["next_sentence_labels"][row]
            log = following.numpy() - np.log(np.exp(following.numpy()).sum())
            loss = actual["next_sentence_losses"][row]
            assert loss == pytest.approx(-log[label], abs=1e-5)
            hit = int(following.numpy().argmax() == label)
            assert actual["next_sentence_hits"][row] == hit


def test_the_losses_of_each_masked_piece_stand_in_its_row(features):
    """Also where only the places that may be real are computed."""
    task = Scoring(CONFIG, LONGEST, pieces=6)
    params = weights_of(task)
    alone, _ = placements(features)
    total = int(features.target_counts.sum())
    few = alone._replace(real_targets=total + 3)
    assert few.real_targets < ROWS * few.targets
    wanted, actual = (
        task.outputs(params, one_tower(features, placed))["losses"].numpy()
        for placed in (alone, few)
    )
    np.testing.assert_allclose(actual, wanted, rtol=0, atol=1e-5)
    assert ((actual > 0).sum(1) == features.target_counts).all()


@BOTH
def test_a_batch_without_masks_is_one_of_rows_without_any(features, next_sentence):
    """Where no row that fits its width has one, it lacks their columns."""
    task = Pretraining(CONFIG, LONGEST, next_sentence)
    params = weights_of(task)
    alone, _ = placements(features)
    with_places = one_tower(features, alone)
    none = tf.zeros_like(with_places["masked_lm_weights"])
    with_places = {**with_places, "masked_lm_weights": none}
    without = one_tower(features, alone._replace(targets=0))
    assert "masked_lm_positions" not in without
    for counted in (task.loss_weights, lambda own: task.loss_sums(params, own, None)):
        wanted, actual = (
            {name: float(value) for name, value in counted(own).items()}
            for own in (with_places, without)
        )
        assert actual == pytest.approx(wanted) and actual[MASKED] == 0
    wanted, actual = (task.outputs(params, own) for own in (with_places, without))
    assert actual.keys() == wanted.keys()
    for name, values in wanted.items():
        np.testing.assert_allclose(actual[name], values, rtol=0, atol=1e-5)


def test_scores_are_means_over_masked_words_and_over_rows():
    task = Pretraining(CONFIG, LONGEST, next_sentence=True)
    outputs = {
        "masked_lm_losses": np.array([2.0, 6.0], np.float32),
        "masked_lm_hits": np.array([1.0, 0.0], np.float32),
        "masked_lm_counts": np.array([1.0, 3.0], np.float32),
        "next_sentence_losses": np.array([0.5, 1.5], np.float32),
        "next_sentence_hits": np.array([1.0, 0.0], np.float32),
    }
    scores = task.scores(task.scored_rows(outputs, [None, None], list))
    assert scores == {
        "loss": 3.0,
        "masked_lm_accuracy": 0.25,
        "masked_lm_loss": 2.0,
        "next_sentence_accuracy": 0.5,
        "next_sentence_loss": 1.0,
        "perplexity": pytest.approx(np.e**2),
    }
    assert list(scores)[:5] == sorted(list(scores)[:5])  # Google's order


def test_the_pooler_is_not_worn_down_where_nothing_reads_it():
    mlm = Pretraining(CONFIG, LONGEST, next_sentence=False)
    assert mlm.unused_params == {n for n in mlm.param_specs() if "pooler" in n}
    assert not any("seq_relationship" in name for name in mlm.param_specs())
    assert not Pretraining(CONFIG, LONGEST, next_sentence=True).unused_params
