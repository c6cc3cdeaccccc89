"""Rows of an exported model: texts are truncated and laid out as in a run."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from bert_mgpu.core.rows import Ragged
from bert_mgpu.export import saved_model
from bert_mgpu.text import truncation
from bert_mgpu.text.segments import Segments
from bert_mgpu.text.tokenization import Tokenizer

TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghijklmnop"]
LENGTHS = range(8)  # of each text


class Echo:
    """A task whose outputs are its inputs."""

    name = "echo"

    def __init__(self, max_seq_length, *segments):
        self.max_seq_length = max_seq_length
        self.segments = Segments(max_seq_length, *segments)

    def outputs(self, params, batch):
        return dict(batch)

    def answers(self, outputs):
        return outputs


def wanted(a, b, length, how):
    """[CLS] a [SEP], or [CLS] a [SEP] b [SEP], and the segment of each token."""
    if not b:
        ids = [2, *truncation.truncate(a, length - 2, how, head_tokens=2), 3]
        return ids, [0] * len(ids)
    size_a, size_b = truncation.truncate_pair_lengths(len(a), len(b), length - 3)
    first = [2, *a[:size_a], 3]
    return [*first, *b[:size_b], 3], [0] * len(first) + [1] * (size_b + 1)


@pytest.fixture
def tokenizer(tmp_path):
    (tmp_path / "vocab.txt").write_text("\n".join(TOKENS) + "\n")
    return Tokenizer(tmp_path / "vocab.txt", True)


@pytest.mark.parametrize("how", truncation.TRUNCATIONS)
@pytest.mark.parametrize(
    ("segments", "head"),
    [((5, 3), 2), ((6, 2, 1), 2), ((6, 4, 3), 2), ((5, 3), 99), ((9, 1), 7)],
    ids=str,
)
def test_long_texts_are_laid_out_as_in_a_run(tokenizer, segments, head, how):
    served = saved_model.Served(
        Echo(*segments), {}, tokenizer, truncation=how, head_tokens=head
    )
    drawn = np.random.default_rng(0).integers(5, len(TOKENS), (26, 25))
    texts = [ids[:size].tolist() for size, ids in enumerate(drawn)]
    as_text = [" ".join(TOKENS[i] for i in ids) for ids in texts]
    cut, told_head = Segments(*segments), served._truncation["head_tokens"]
    assert how != "head_tail" or told_head < cut.budget
    for first, last in ((0, 26), (3, 4), (25, 26)):  # rows of other widths
        answers = served.answers_for_texts(tf.constant(as_text[first:last]))
        batch = {name: value.numpy() for name, value in answers.items()}
        for row, ids in enumerate(texts[first:last]):
            kept = truncation.truncate(ids, cut.budget, how, head_tokens=head)
            # As clients do that read the facts and make ids themselves.
            told = truncation.truncate(ids, cut.budget, how, head_tokens=told_head)
            assert told == kept
            expected = cut.row(kept, 2, 3)
            size = batch["input_mask"][row].sum()
            assert batch["input_ids"][row][:size].tolist() == expected
            assert not batch["input_ids"][row][size:].any()
        assert not batch["segment_ids"].any()


@pytest.mark.parametrize("how", truncation.TRUNCATIONS)
@pytest.mark.parametrize("length", [5, 8, 9])
def test_texts_are_laid_out_as_in_a_run(tokenizer, length, how):
    served = saved_model.Served(
        Echo(length), {}, tokenizer, truncation=how, head_tokens=2
    )
    pairs = [
        (TOKENS[5 : 5 + m], TOKENS[12 : 12 + n])
        for m, n in itertools.product(LENGTHS, LENGTHS)
    ]
    texts = (tf.constant([" ".join(pair[i]) for pair in pairs]) for i in (0, 1))
    batch = {
        name: value.numpy() for name, value in served.answers_for_pairs(*texts).items()
    }
    for row, (text_a, text_b) in enumerate(pairs):
        a, b = ([TOKENS.index(token) for token in text] for text in (text_a, text_b))
        ids, segments = wanted(a, b, length, how)
        size = batch["input_mask"][row].sum()
        assert batch["input_ids"][row][:size].tolist() == ids
        assert batch["segment_ids"][row][:size].tolist() == segments
        assert not batch["input_ids"][row][size:].any()


def test_the_largest_gap_is_of_any_row_and_token():
    values = np.zeros((3, 2))
    assert saved_model.largest_gap(values, np.array([0, 2]), [[0, 0], [0, -0.5]]) == 0.5
    tokens = Ragged(np.zeros(5), np.array([0, 2, 5]))
    padded = np.array([[0, 0, 9], [0, 0, -0.25]])  # the 9 is padding
    assert saved_model.largest_gap(tokens, np.array([0, 1]), padded) == 0.25
