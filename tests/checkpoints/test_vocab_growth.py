"""Weights of a vocabulary that has grown: what its new rows start from."""

import itertools
import json
import types

import numpy as np
import pytest

from bert_mgpu.checkpoints import (
    google_read,
    huggingface_write,
    pretrained,
    vocab_growth,
)
from bert_mgpu.checkpoints.initial_weights import first_weights
from bert_mgpu.config.finetuning import FinetuneConfig
from bert_mgpu.core.errors import UserError
from bert_mgpu.model import params as params_lib
from bert_mgpu.model.config import BertConfig
from bert_mgpu.runs import extract_features, resume
from bert_mgpu.text.tokenization import Tokenizer
from tests.support.tiny import CONFIG, VOCAB

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
OLD = [*SPECIAL, "[unused1]", "pub", "##g", "##ba", "##se", "a", "chic", "中"]
WORDS, BIAS = vocab_growth.TABLES
ROW = {token: row for row, token in enumerate(OLD)}
# A new token, and the old rows whose mean it is. WordPiece takes the longest first.
PIECES = {
    "pubg": ["pub", "##g"],
    "pubgbase": ["pub", "##g", "##ba", "##se"],
    "##base": ["##ba", "##se"],
    "Chic": ["chic"],
    "aché": ["[UNK]"],
    "á": ["a"],
    "中a": ["中", "a"],
    "☃": ["[UNK]"],
    "\u200b": ["[UNK]"],  # the tokenizer drops it: nothing is left to cut
}


@pytest.mark.parametrize("shape", [(13, 4), (13,)], ids=["table", "bias"])
def test_new_rows_are_means_and_all_others_stay(shape):
    old = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    table, actual = vocab_growth.grow(old, OLD, [*OLD, *PIECES], do_lower_case=True)
    assert actual == {
        len(OLD) + i: [ROW[piece] for piece in pieces]
        for i, pieces in enumerate(PIECES.values())
    }
    assert table[: len(OLD)].tobytes() == old.tobytes()
    for row, pieces in actual.items():
        wanted = sum(old[piece] for piece in pieces) / len(pieces)
        np.testing.assert_allclose(table[row], wanted, atol=1e-6)


def test_a_cased_vocabulary_keeps_case_and_accents():
    _, actual = vocab_growth.grow(
        np.zeros((13, 2)), OLD, [*OLD, "Chic", "á"], do_lower_case=False
    )
    assert actual == {13: [ROW["[UNK]"]], 14: [ROW["[UNK]"]]}


def test_a_token_in_a_free_place_and_one_that_moved():
    new = [*OLD[:5], "pubg", *OLD[6:11], "中", "chic"]
    old = np.arange(26, dtype=np.float32).reshape(13, 2)
    table, actual = vocab_growth.grow(old, OLD, new, do_lower_case=True)
    assert actual == {5: [6, 7], 11: [12], 12: [11]}
    wanted = old.copy()
    wanted[5], wanted[11], wanted[12] = (old[6] + old[7]) / 2, old[12], old[11]
    np.testing.assert_array_equal(table, wanted)


def test_rows_beyond_the_old_tokens_are_there_for_new_ones():
    old = np.arange(15, dtype=np.float32)[:, None]  # two more rows than tokens
    table, actual = vocab_growth.grow(old, OLD, [*OLD, "pubg"], do_lower_case=True)
    assert actual == {13: [6, 7]}
    wanted = old.copy()
    wanted[13] = (old[6] + old[7]) / 2
    np.testing.assert_array_equal(table, wanted)


def write_vocab(path, tokens):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{token}\n" for token in tokens))
    return path


class Setting:
    """Weights of a model with the vocabulary OLD, and runs that start from them."""

    def __init__(self, root):
        self.root = root
        self.weights = self.initialize(len(OLD), seed=1)
        google_read.write(root / "model" / "bert_model.ckpt", self.weights)
        write_vocab(root / "model" / "vocab.txt", OLD)

    @staticmethod
    def specs(rows):
        config = BertConfig(
            rows,
            8,
            1,
            num_attention_heads=2,
            intermediate_size=12,
            max_position_embeddings=16,
        )
        return params_lib.bert_specs(config) | {BIAS: ((rows,), "truncated_normal")}

    def initialize(self, rows, seed):
        return params_lib.initialize(self.specs(rows), 0.5, seed)

    def model(self, tokens, rows=None):
        file = write_vocab(self.root / "new.txt", tokens)
        return pretrained.Pretrained(
            BertConfig(rows or len(tokens)),
            "",
            Tokenizer(file, True),
            vocab_file=str(file),
            do_lower_case=True,
            labels=None,
        )

    def start(self, tokens, rows=None, path=None):
        """(first weights, what the log says, random weights)."""
        rows, model = rows or len(tokens), self.model(tokens, rows)
        random, output = self.initialize(rows, seed=2), []
        path = path or self.root / "model" / "bert_model.ckpt"
        weights = first_weights(
            self.specs(rows), random, str(path), say=output.append, model=model
        )
        return weights, "\n".join(output), random

    def check(self, weights, found):
        """New rows are means of `found`; all else is as it was, bit for bit."""
        for name, old in self.weights.items():
            if name not in vocab_growth.TABLES:
                assert weights[name].tobytes() == old.tobytes(), name
                continue
            kept = [row for row in range(len(old)) if row not in found]
            assert weights[name][kept].tobytes() == old[kept].tobytes()
            for row, pieces in found.items():
                wanted = np.mean([old[piece] for piece in pieces], 0)
                np.testing.assert_allclose(weights[name][row], wanted, atol=1e-6)


@pytest.fixture
def setting(tmp_path):
    return Setting(tmp_path)


def test_appended_and_placed_tokens_start_from_their_pieces(setting):
    new = [*OLD[:5], "☃", *OLD[6:], "pubg", "pubgbase"]
    weights, output, _ = setting.start(new)
    setting.check(weights, {5: [1], 13: [6, 7], 14: [6, 7, 8, 9]})
    assert weights[WORDS].shape == (15, 8) and weights[BIAS].shape == (15,)
    assert (
        "tokens that the weights do not know: 3; each starts from the mean of its"
        " pieces:\n  ☃ ([UNK]), pubg (pub ##g), pubgbase (pub ##g ##ba ##se)" in output
    )


def test_all_of_them_are_told(setting):
    new = [f"pub{'g' * n}" for n in range(1, 12)]
    _, output, _ = setting.start([*OLD, *new])
    assert "do not know: 11;" in output and all(f"{token} (" in output for token in new)
    assert [text.count("(") for text in output.splitlines()[2:5]] == [5, 5, 1]


def test_rows_that_no_token_has_start_at_random(setting):
    weights, _, random = setting.start([*OLD, "pubg"], rows=20)
    setting.check(weights, {13: [6, 7]})
    for name in vocab_growth.TABLES:
        assert weights[name].shape[0] == 20
        assert weights[name][14:].tobytes() == random[name][14:].tobytes()


def test_weights_with_unused_rows(setting):
    """15 rows, 13 tokens: of two more tokens, each has a row already."""
    setting.weights = setting.initialize(15, seed=1)
    google_read.write(setting.root / "model" / "bert_model.ckpt", setting.weights)
    weights, output, _ = setting.start([*OLD, "pubg"], rows=15)
    setting.check(weights, {13: [6, 7]})
    assert "do not know: 1;" in output


def test_the_same_vocabulary_grows_nothing(setting):
    weights, output, _ = setting.start(OLD)
    setting.check(weights, {})
    assert "do not know" not in output


def test_without_a_vocabulary_beside_the_weights(setting):
    """Then theirs are the first tokens; so only appended ones can be known."""
    (setting.root / "model" / "vocab.txt").unlink()
    weights, output, _ = setting.start([*OLD, "pubg"])
    setting.check(weights, {13: [6, 7]})
    placed = [*OLD[:5], "pubg", *OLD[6:]]
    weights, output, _ = setting.start(placed)
    setting.check(weights, {})
    assert "do not know" not in output
    assert (
        f"no vocab.txt beside the weights: assuming that they know the first {len(OLD)}"
        in output
    )


@pytest.mark.parametrize("tokens", [[*OLD, "pubg"], SPECIAL], ids=["more", "fewer"])
def test_a_file_that_cannot_be_that_of_the_weights(setting, monkeypatch, tokens):
    """It has more tokens than they have rows, or far fewer."""
    monkeypatch.setattr(vocab_growth, "MAX_UNUSED_ROWS", 3)
    write_vocab(setting.root / "model" / "vocab.txt", tokens)
    weights, _, _ = setting.start([*OLD, "pubg"])
    setting.check(weights, {13: [6, 7]})


def test_another_vocabulary_is_refused(setting):
    beside = setting.root / "model" / "vocab.txt"
    shifted = [*SPECIAL, "new", *OLD[6:10], "x", "y", OLD[12]]
    message = (
        rf"new.txt:11: 'x', but 'a' in {beside}, which the weights .* 2 of 13 tokens"
        rf" differ: pass --vocab_file={beside}, or one that only adds"
    )
    with pytest.raises(UserError, match=message):
        setting.start(shifted)
    with pytest.raises(UserError, match="12 of 13 tokens differ"):
        setting.start(["new", *OLD])


def test_few_other_tokens_are_taken_as_new(setting):
    weights, output, _ = setting.start([*OLD[:11], "pubg", OLD[12]])  # 1 of 13
    setting.check(weights, {11: [6, 7]})
    assert "pubg (pub ##g)" in output


def test_free_places_do_not_count_as_other_tokens(setting):
    old = [*SPECIAL, *(f"[unused{i}]" for i in range(7)), "pub"]
    write_vocab(setting.root / "model" / "vocab.txt", old)
    new = [*SPECIAL, *(f"pubg{i}" for i in range(7)), "pub"]
    weights, _, _ = setting.start(new)
    setting.check(weights, {row: [1] for row in range(5, 12)})


@pytest.mark.parametrize(
    ("tokens", "rows"),
    [(OLD[:12], 12), (OLD, 20), ([*OLD[:12], "中"], 12)],
    ids=["fewer rows", "more rows without tokens", "fewer rows than tokens"],
)
def test_other_sizes_are_refused_as_ever(setting, tokens, rows):
    message = rf"word_embeddings has shape \[13, 8\], the model expects \[{rows}, 8\]"
    with pytest.raises(UserError, match=message):
        setting.start(tokens, rows)


@pytest.mark.parametrize("unused", [0, 6])
def test_what_is_only_used_grows_too(setting, unused):
    """Else a new word would have the vector of [unused1], or of nothing.

    unused: rows that no token has, which padding the vocabulary's size leaves.
    """
    tokens = [*OLD, "pubg"]
    wanted, _, _ = setting.start(tokens)
    path = setting.root / "model" / "bert_model.ckpt"
    found = resume.trained_state(
        FinetuneConfig(init_checkpoint=str(path)),
        setting.specs(len(tokens) + unused),
        {},
        output_dir=setting.root,
        model=setting.model(tokens),
    )
    specs = setting.specs(len(tokens) + unused)
    task = types.SimpleNamespace(param_specs=lambda: specs)
    vectors = extract_features.stored_params(str(path), task, setting.model(tokens))
    for params, (name, value) in itertools.product(
        (found.params, vectors), wanted.items()
    ):
        rows = len(value) if name in vocab_growth.TABLES else None
        np.testing.assert_array_equal(params[name][:rows], value)
        if rows:
            assert params[name][rows:].shape[0] == unused
            assert not params[name][rows:].any()


def test_an_earlier_vocabulary_loses_no_words(setting):
    """`[unused2]` again where the weights have learnt a word of the domain."""
    write_vocab(setting.root / "model" / "vocab.txt", [*OLD[:-1], "pubg"])
    with pytest.raises(UserError, match=":13: .*would be lost: pass --vocab_file="):
        setting.start([*OLD[:-1], "[unused2]"])


@pytest.mark.parametrize("what", ["folder", "file"])
def test_a_hugging_face_model_grows_too(setting, what):
    config = BertConfig(
        len(OLD),
        8,
        1,
        num_attention_heads=2,
        intermediate_size=12,
        max_position_embeddings=16,
    )
    head = {
        "cls/predictions/transform/dense/kernel": np.eye(8),
        "cls/predictions/transform/dense/bias": np.zeros(8),
        "cls/predictions/transform/LayerNorm/gamma": np.ones(8),
        "cls/predictions/transform/LayerNorm/beta": np.zeros(8),
    }
    folder, vocab = setting.root / "hf", setting.root / "model" / "vocab.txt"
    huggingface_write.export(
        folder,
        setting.weights | head,
        config,
        vocab_file=vocab,
        do_lower_case=True,
        labels=None,
    )
    path = folder if what == "folder" else folder / "model.safetensors"
    weights, output, random = setting.start([*OLD, "pubg"], path=path)
    assert (
        "new, initialised at random: bert/pooler/dense/bias" in output
    )  # it is not exported
    pooler = {name for name in random if name.startswith("bert/pooler")}
    setting.weights |= {name: random[name] for name in pooler}
    setting.check(weights, {13: [6, 7]})


def test_a_run_grows_once_and_what_comes_of_it_is_just_loaded(tiny, tmp_path, inside):
    vocab = write_vocab(tmp_path / "vocab.txt", [*VOCAB, "suns", "未"])
    config = tmp_path / "config.json"
    config.write_text(json.dumps({**CONFIG, "vocab_size": len(VOCAB) + 2}))
    settings = {"num_train_epochs": 0.2, "warmup_proportion": 1.0}  # a step at rate 0
    flags = {"vocab_file": vocab, "bert_config_file": config, **settings}
    out = tmp_path / "out"
    code, _, err = inside(tiny.flags(out, do_train=True, **flags))
    assert code == 0, err
    assert "do not know: 2;" in err and "suns (sun ##s), 未 ([UNK])" in err
    first = google_read.read(tiny.model / "bert_model.ckpt")[WORDS]
    now = google_read.read(out)[WORDS]
    sun, plural = VOCAB.index("sun"), VOCAB.index("##s")
    assert now[:-2].tobytes() == first.tobytes()
    np.testing.assert_allclose(now[-2], (first[sun] + first[plural]) / 2, atol=1e-6)
    assert now[-1].tobytes() == first[VOCAB.index("[UNK]")].tobytes()

    nothing = {"vocab_file": None, "bert_config_file": None, "init_checkpoint": out}
    again = tiny.flags(tmp_path / "again", do_train=True, **{**settings, **nothing})
    code, _, err = inside(again)
    assert code == 0, err
    assert "weights  25 of 25" in err and "do not know" not in err
    assert google_read.read(tmp_path / "again")[WORDS].tobytes() == now.tobytes()
