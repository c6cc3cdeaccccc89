"""Phrases that are ranked by the words that the model expects in their slots."""

import numpy as np
import pytest
import tensorflow as tf

from bert_mgpu.core.rows import POSITIONS, Example
from bert_mgpu.data import packing, pipeline
from bert_mgpu.model import bert, heads
from bert_mgpu.model import params as params_lib
from bert_mgpu.model.config import BertConfig
from bert_mgpu.tasks.classification import slot_words
from bert_mgpu.text.tokenization import Tokenizer

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
WORDS = [*SPECIAL, *"abcdefgh", "，", "。", "sun", "##s", "[", "]", "mask"]
CONFIG = BertConfig(
    len(WORDS),
    8,
    2,
    num_attention_heads=2,
    intermediate_size=16,
    max_position_embeddings=32,
    hidden_dropout_prob=0.0,
    attention_probs_dropout_prob=0.0,
)
LABELS = ("0", "1")
TASK = slot_words.SlotRanking("ad", CONFIG, LABELS, max_seq_length=32)
ROWS = (
    ("a b", "c ，““““。 d", "1"),
    ("suns", "““““，c ，“quoted” 。““““", "0"),  # twice the same segment
    ("b", "no slot ，e", "0"),
    ("", "f ，““。", "1"),  # a phrase without tokens
    ("e f g", "a b c d e f g h ，““““““。", "0"),
    ("g", "h [MASK] ，““。", "1"),  # of words, not of a slot
    ("a x b", "c ，““““““。", "0"),  # a word that the vocabulary lacks
    ("x y", "c ，““““。", "1"),  # nothing but such words
)


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    path = tmp_path_factory.mktemp("vocab") / "vocab.txt"
    path.write_text("".join(f"{word}\n" for word in WORDS), encoding="utf-8")
    return Tokenizer(path)


def featurise(tokenizer, rows=ROWS, length=32, how="head"):
    examples = [Example("", a, b, label=y, line=1) for a, b, y in rows]
    return slot_words.featurise(
        examples, tokenizer, LABELS, max_seq_length=length, how=how, head_tokens=2
    )


def read(features, tokenizer, row):
    """The words of a row, with the phrase's in brackets where they are masked."""
    words = [tokenizer.tokens[one] for one in features.ragged["input_ids"].row(row)]
    positions, ids = (column.row(row) for column in features.targets.values())
    for place, one in zip(positions, ids, strict=True):
        assert words[place] == "[MASK]"
        words[place] = f"<{tokenizer.tokens[one]}>"
    return " ".join(words)


def test_a_row_is_the_ad_with_a_mask_for_each_token_of_the_phrase(tokenizer):
    features = featurise(tokenizer)
    assert [read(features, tokenizer, row) for row in range(len(ROWS))] == [
        "[CLS] c ， <a> <b> 。 d [SEP]",
        "[CLS] <sun> <##s> ， c ， [UNK] [UNK] [UNK] 。 <sun> <##s> [SEP]",
        "[CLS] [UNK] [UNK] ， e [SEP]",
        "[CLS] f ， <[UNK]> 。 [SEP]",
        "[CLS] a b c d e f g h ， <e> <f> <g> 。 [SEP]",
        "[CLS] h [ mask ] ， <g> 。 [SEP]",
        "[CLS] c ， <a> [MASK] <b> 。 [SEP]",
        "[CLS] c ， <[UNK]> [MASK] 。 [SEP]",
    ]
    assert features.dense["label_ids"].tolist() == [1, 0, 0, 1, 0, 1, 0, 1]
    assert features.notes[slot_words.STRANGE_PHRASES] == 2
    assert not features.ragged["segment_ids"].values.any()
    assert features.notes["truncated"] == 0


@pytest.mark.parametrize(
    ("how", "wanted"),
    [
        ("head", "[CLS] a b c d e f g h ， <e> [SEP]"),
        ("tail", "[CLS] e f g h ， <e> <f> <g> 。 [SEP]"),
        ("tail", "[CLS] <f> <g> 。 [SEP]"),
        ("head_tail", "[CLS] a b f g h ， <e> <f> <g> 。 [SEP]"),
    ],
)
def test_what_is_cut_takes_its_words_along(tokenizer, how, wanted):
    length = len(wanted.split())
    features = featurise(tokenizer, ROWS[4:5], length=length, how=how)
    assert read(features, tokenizer, 0) == wanted
    assert features.notes["truncated"] == 1
    # Another --truncation is not proposed where it is in use.
    assert features.notes.get("truncation", True) == (how == "head")


def first_params(tokenizer, seed=3):
    """Those of a new run on ROWS."""
    task = slot_words.SlotRanking("ad", CONFIG, LABELS, max_seq_length=32)
    task.training_rows, task.unknown_id = featurise(tokenizer), tokenizer.unk_id
    params = params_lib.initialize(task.param_specs(), 0.5, seed)
    return params | task.first_values(params, {heads.WORD_BIAS, heads.SLOT_BIAS})


def shares_at_masks(features, row, params):
    """The probabilities of all words at the masks of a row: [N, V]."""
    ids = features.ragged["input_ids"].row(row)[None]
    batch = {"input_ids": ids, "segment_ids": 0 * ids, "input_mask": 0 * ids + 1}
    batch = {name: tf.constant(value) for name, value in batch.items()}
    hidden = bert.encode(params, CONFIG, batch)[-1][0]
    own = tf.gather(hidden, features.targets[POSITIONS].row(row))
    logits = heads.masked_lm_logits(params, CONFIG, own).numpy()
    return np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)


def test_words_begin_with_their_mean_probability_in_slots(tokenizer, monkeypatch):
    features = featurise(tokenizer)
    params = first_params(tokenizer)
    masked = [shares_at_masks(features, row, params) for row in (0, 1, 3, 4, 5, 6, 7)]
    assert [len(shares) for shares in masked] == [2, 4, 1, 3, 1, 2, 1]
    wanted = -np.log(np.concatenate(masked).mean(0))
    wanted[tokenizer.unk_id] = np.log(1e-9)  # so that it comes last
    np.testing.assert_allclose(params[heads.WORD_BIAS], wanted, atol=1e-5)
    assert params[heads.SLOT_BIAS] == pytest.approx(np.log(5 / 5))
    monkeypatch.setattr(slot_words, "_BLOCK", 3)
    again = first_params(tokenizer)
    np.testing.assert_allclose(again[heads.WORD_BIAS], wanted, atol=1e-5)
    monkeypatch.setattr(slot_words, "_SAMPLE", 2)  # the first and the last
    two = -np.log(np.concatenate([masked[0], masked[-1]]).mean(0))
    two[tokenizer.unk_id] = np.log(1e-9)
    found = first_params(tokenizer)[heads.WORD_BIAS]
    np.testing.assert_allclose(found, two, atol=1e-5)


def test_a_trained_ranker_keeps_what_it_knows(tokenizer):
    task = slot_words.SlotRanking("ad", CONFIG, LABELS, max_seq_length=32)
    task.training_rows = featurise(tokenizer)
    params = params_lib.initialize(task.param_specs(), 0.5, 3)
    assert task.first_values(params, {"bert/pooler/dense/bias"}) == {}


def test_words_are_equal_where_no_row_has_a_slot(tokenizer):
    task = slot_words.SlotRanking("ad", CONFIG, LABELS, max_seq_length=32)
    task.training_rows = featurise(tokenizer, ROWS[2:3])
    params = params_lib.initialize(task.param_specs(), 0.5, 3)
    found = task.first_values(params, {heads.WORD_BIAS})
    np.testing.assert_allclose(found[heads.WORD_BIAS], 0, atol=1e-6)


def batch_of(features, placement):
    batch = pipeline.collate(features, placement)
    return {name: tf.constant(value[0]) for name, value in batch.items()}


def logits(features, placement, params):
    return TASK.outputs(params, batch_of(features, placement))["logits"].numpy()


def gradients(features, placement, params):
    own = {name: tf.Variable(value) for name, value in params.items()}
    with tf.GradientTape() as tape:
        sums = TASK.loss_sums(own, batch_of(features, placement), None)
    found = tape.gradient(sums["loss"], own, unconnected_gradients="zero")
    return {name: tf.convert_to_tensor(value).numpy() for name, value in found.items()}


def test_the_logit_is_the_mean_gain_of_the_phrases_words(tokenizer):
    """By a plain loop over rows and words, from the word head's logits."""
    params = first_params(tokenizer)
    params[heads.SLOT_BIAS] = np.float32(-0.7)
    features = featurise(tokenizer)
    placement = packing.one_per_row(np.arange(len(ROWS)), 1, 32)._replace(targets=4)
    found = logits(features, placement, params)
    assert not found[:, 0].any()
    for row, (phrase, _, _) in enumerate(ROWS):
        shares, ids = shares_at_masks(features, row, params), tokenizer.ids(phrase)
        unknown = tokenizer.unk_id
        ids = [one for one in ids if one != unknown] or [unknown]
        wanted = -0.7
        if len(shares) and ids:
            gains = [
                np.log(shares[:, one].mean()) + params[heads.WORD_BIAS][one]
                for one in ids
            ]
            wanted += np.mean(gains)
        assert found[row, 1] == pytest.approx(wanted, abs=1e-5), phrase


def test_packing_and_padding_change_no_logit_and_no_gradient(tokenizer):
    features, params = featurise(tokenizer), first_params(tokenizer)
    numbers = np.arange(len(ROWS))
    alone = packing.one_per_row(numbers, 1, 32)._replace(targets=6)
    shape = packing.packed_shape([features.lengths], 32)
    packed = packing.pack(numbers, features.lengths, 1, shapes=[shape])
    assert packed.numbers.shape[2] > 1
    most = packing.most_targets(packed.numbers, features.target_counts)
    packed = packed._replace(targets=most.row, real_targets=most.tower + 2)
    wanted, found = (logits(features, one, params) for one in (alone, packed))
    order = packed.numbers[packed.numbers != packing.EMPTY]
    is_real = batch_of(features, packed)["is_real_example"].numpy() > 0
    np.testing.assert_allclose(found[is_real], wanted[order], atol=1e-5)
    one, other = (gradients(features, place, params) for place in (alone, packed))
    assert np.abs(one[heads.WORD_BIAS]).max() > 0.01
    for name, value in one.items():
        np.testing.assert_allclose(other[name], value, atol=1e-5, err_msg=name)


def test_rows_without_any_slot_have_the_log_odds_of_the_labels(tokenizer):
    features, params = featurise(tokenizer, [ROWS[2]] * 2), first_params(tokenizer)
    placement = packing.one_per_row(np.arange(2), 1, 32)  # no place for targets
    found = logits(features, placement, params | {heads.SLOT_BIAS: np.float32(0.3)})
    np.testing.assert_allclose(found, [[0, 0.3]] * 2, atol=1e-7)
