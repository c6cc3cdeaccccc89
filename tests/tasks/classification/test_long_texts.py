"""Classification of rows of several segments."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from bert_mgpu.config.finetuning import FinetuneConfig
from bert_mgpu.core.rows import Example, Features, Ragged
from bert_mgpu.core.task import DropoutKey
from bert_mgpu.data import packing, pipeline
from bert_mgpu.model import bert
from bert_mgpu.model import params as params_lib
from bert_mgpu.tasks.classification.rows import featurise
from bert_mgpu.tasks.classification.task import Classification
from bert_mgpu.text.tokenization import Tokenizer
from tests.support.tiny import VOCAB, small_config

CONFIG = small_config(dropout=0.0, vocab_size=97)
LABELS = ("a", "b", "c")
LENGTH, MOST = 8, 4
HOW = ("mean", "max", "attention")


def task_of(how="mean", most=MOST, config=CONFIG, **changed):
    return Classification(
        "x",
        config,
        LABELS,
        max_seq_length=LENGTH,
        max_segments=most,
        segment_pooling=how,
        **changed,
    )


def weights_of(task):
    """Nowhere zero."""
    values = params_lib.initialize(task.param_specs(), 0.3, seed=2)
    rng = np.random.default_rng(1)
    return {n: v + rng.normal(0, 0.1, v.shape).astype("f") for n, v in values.items()}


@pytest.fixture(scope="module")
def features():
    """Rows of 2 to 32 tokens, the first four of one segment."""
    rng = np.random.default_rng(0)
    lengths = [2, 5, 8, 3, *rng.integers(9, LENGTH * MOST + 1, 9)]
    ids = [rng.integers(1, 97, length).tolist() for length in lengths]
    columns = {
        "input_ids": Ragged.from_rows(ids),
        "segment_ids": Ragged.from_rows([[0] * len(row) for row in ids]),
    }
    labels = rng.integers(0, 3, len(ids)).astype(np.int32)
    return Features(columns, {"label_ids": labels}, np.arange(len(ids)))


def batch_of(features, numbers, width):
    placed = packing.one_per_row(np.array(numbers), 1, width)
    return {name: v[0] for name, v in pipeline.collate(features, placed).items()}


def logits_of(task, params, batch):
    return task.outputs(params, batch)["logits"].numpy()


@pytest.mark.parametrize("how", HOW)
def test_texts_of_one_segment_have_the_logits_of_today(features, how):
    """Bit for bit, whether longer rows are possible or not."""
    long, params = task_of(how), weights_of(task_of(how))
    batch = batch_of(features, range(4), LENGTH)
    today = logits_of(task_of(how, most=1), params, batch)
    assert np.array_equal(logits_of(long, params, batch), today)
    wide = batch_of(features, range(6), 30)
    np.testing.assert_allclose(logits_of(long, params, wide)[:4], today, atol=1e-5)


@pytest.mark.parametrize("how", HOW)
def test_logits_are_those_of_segments_read_alone(features, how):
    """By numpy from the encoder's vectors; benchmarks/parity asks transformers."""
    task = task_of(how)
    params = weights_of(task)
    actual = logits_of(task, params, batch_of(features, range(len(features)), 32))
    for number in range(len(features)):
        row = features.ragged["input_ids"].row(number)
        parts = [row[i : i + LENGTH] for i in range(0, len(row), LENGTH)]
        vectors = np.stack([first_state(params, part) for part in parts])
        if how == "attention":
            keys = vectors @ params["segments/dense/kernel"]
            keys = np.tanh(keys + params["segments/dense/bias"])
            shares = np.exp(keys @ params["segments/query"])
            vector = shares @ vectors / shares.sum()
        else:
            vector = getattr(vectors, how)(0)
        pooled = np.tanh(
            vector @ params["bert/pooler/dense/kernel"]
            + params["bert/pooler/dense/bias"]
        )
        wanted = pooled @ params["output_weights"].T + params["output_bias"]
        np.testing.assert_allclose(actual[number], wanted, atol=2e-5)


def first_state(params, ids):
    """The last hidden state of [CLS] of a row of its own."""
    columns = {"input_ids": ids[None], "segment_ids": 0 * ids[None]}
    mask = {"input_mask": np.ones_like(ids[None])}
    return bert.encode(params, CONFIG, columns | mask)[-1][0, 0].numpy()


def test_padding_and_order_change_nothing(features):
    task = task_of("attention")
    params, numbers = weights_of(task), [12, 3, 7, 0, 5]
    wanted = logits_of(task, params, batch_of(features, range(13), 32))
    for width in (32, 30, 40):
        batch = batch_of(features, numbers, width)
        actual = logits_of(task, params, batch)
        np.testing.assert_allclose(actual, wanted[numbers], atol=1e-5)


@pytest.mark.parametrize("recompute", ["attention", "block"])
def test_gradients_do_not_depend_on_what_is_recomputed(features, recompute):
    batch, found = batch_of(features, range(13), 32), []
    for how in ("none", recompute):
        task = task_of("attention", recompute=how)
        params = {n: tf.constant(v) for n, v in weights_of(task).items()}
        with tf.GradientTape() as tape:
            tape.watch(params)
            loss = task.loss_sums(params, batch, None)["loss"]
        found.append(tape.gradient(loss, params))
    for name, value in found[0].items():
        np.testing.assert_allclose(
            tf.convert_to_tensor(found[1][name]),
            tf.convert_to_tensor(value),
            rtol=1e-4,
            atol=1e-5,
            err_msg=name,
        )


def test_rows_have_dropout_masks_of_their_own(features):
    """Those of a tower's rows: two halves of a batch drop what the whole does."""
    config = dataclasses.replace(
        CONFIG, hidden_dropout_prob=0.5, attention_probs_dropout_prob=0.5
    )
    task = task_of("attention", config=config)
    params = weights_of(task)
    batch = batch_of(features, range(12), 32)
    key = DropoutKey(tf.constant(7, tf.uint64), tf.constant(3, tf.int64), 0)

    def loss(first, last):
        part = {name: value[first:last] for name, value in batch.items()}
        moved = key._replace(first_row=tf.constant(first, tf.int64))
        return float(task.loss_sums(params, part, moved)["loss"])

    whole = loss(0, 12)
    assert loss(0, 6) + loss(6, 12) == pytest.approx(whole, rel=1e-5)
    rows = {name: np.repeat(value[5:6], 8, 0) for name, value in batch.items()}
    one = {name: value[:1] for name, value in rows.items()}
    zero = key._replace(first_row=tf.constant(0, tf.int64))
    repeated = float(task.loss_sums(params, rows, zero)["loss"])
    assert repeated != pytest.approx(
        8 * float(task.loss_sums(params, one, zero)["loss"])
    )


def test_features_have_segments_and_say_what_is_cut(tmp_path):
    vocab = tmp_path / "vocab.txt"
    vocab.write_text("".join(f"{token}\n" for token in VOCAB))
    tokenizer = Tokenizer(str(vocab), True)
    words = ["sun", "joy", "win", "rain", "loss", "fear", "the", "of", "in", "it"]
    texts = ["sun", " ".join(words[:3]), " ".join(words[:7]), " ".join(words)]
    examples = [Example(i, text, label="a", line=i) for i, text in enumerate(texts)]

    def rows(how, most=2, stride=None):
        made = featurise(
            examples,
            tokenizer,
            LABELS,
            max_seq_length=5,
            max_segments=most,
            doc_stride=stride,
            truncation=how,
            head_tokens=2,
        )
        ids = [made.ragged["input_ids"].row(i).tolist() for i in range(len(examples))]
        assert made.ragged["segment_ids"].values.sum() == 0
        tokens = [" ".join(tokenizer.tokens[i] for i in row) for row in ids]
        short = [row.replace("[CLS]", "<").replace("[SEP]", ">") for row in tokens]
        return short, made.notes["truncated"]

    one, two, seven, ten = range(4)
    found, cut = rows("head")
    assert found[one] == "< sun >" and found[two] == "< sun joy win >" and cut == 2
    assert found[seven] == found[ten] == "< sun joy win > < rain loss fear >"
    assert rows("tail")[0][ten] == "< loss fear the > < of in it >"
    assert rows("head_tail")[0][ten] == "< sun joy the > < of in it >"
    overlapping, cut = rows("head", stride=1)
    assert overlapping[ten] == "< sun joy win > < joy win rain >" and cut == 2
    assert rows("head", most=4)[0][ten].count("<") == 4 and rows("head", 4)[1] == 0


@pytest.mark.parametrize(("stride", "shown"), [(None, "26 (4 x 8)"), (4, "20 (4 x 8")])
def test_the_length_that_is_named_is_that_of_the_longest_text(tmp_path, stride, shown):
    """With one [CLS] and one [SEP]: a text of one token more is truncated."""
    path = tmp_path / "vocab.txt"
    path.write_text("".join(f"{token}\n" for token in VOCAB))
    flags = {"max_seq_length": LENGTH, "max_segments": MOST, "doc_stride": stride}
    config = FinetuneConfig(**flags)
    assert config.length_in_words.startswith(shown)
    most = int(config.length_in_words.split()[0])
    for length, truncated in ((most, 0), (most + 1, 1)):
        rows = featurise(
            [Example("", "sun " * (length - 2), label="a")],
            Tokenizer(path),
            LABELS,
            **flags,
            truncation="head",
            head_tokens=0,
        )
        assert rows.notes["truncated"] == truncated
