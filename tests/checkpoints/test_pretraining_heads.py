"""The heads of pretraining under transformers' names and Google's, both ways."""

import json

import numpy as np
import pytest
import safetensors.numpy

from bert_mgpu.checkpoints import huggingface_read, huggingface_write
from bert_mgpu.checkpoints.initial_weights import first_weights
from bert_mgpu.core.errors import UserError
from bert_mgpu.model import params as params_lib
from tests.reference import pretraining_heads
from tests.reference.pretraining_heads import CONFIG, COPIES
from tests.support.paths import GOLDEN
from tests.support.tensors import assert_bit_equal, save

GOLDEN = json.loads((GOLDEN / "pretraining_heads.json").read_text())
ARCHITECTURES = list(GOLDEN["transformers"])
HEADS = {name: shape for name, shape in GOLDEN["google"].items() if name[:3] == "cls"}
TOLERANCE = 1e-5


def tensors_of(architecture, all_names=False):
    """What a file of transformers holds; copies are left out unless asked for."""
    golden = GOLDEN["transformers"][architecture]
    tensors = pretraining_heads.make_tensors(golden["shapes"])
    kept = golden["shapes"] if all_names else golden["saved"]
    return {name: tensors[name] for name in kept}


def vocab_file(folder):
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdef"]
    (folder / "vocab.txt").write_text("".join(f"{word}\n" for word in words))
    return folder / "vocab.txt"


@pytest.mark.parametrize("all_names", [False, True], ids=["saved", "all names"])
def test_pretraining_is_read_under_the_names_of_googles_graph(tmp_path, all_names):
    tensors = tensors_of("BertForPreTraining", all_names)
    actual = huggingface_read.read(save(tmp_path, tensors))
    shapes = {name: list(value.shape) for name, value in actual.items()}
    assert shapes == GOLDEN["google"]


@pytest.mark.parametrize("all_names", [False, True], ids=["saved", "all names"])
def test_masked_words_alone_lack_pooler_and_next_sentence(tmp_path, all_names):
    actual = huggingface_read.read(
        save(tmp_path, tensors_of("BertForMaskedLM", all_names))
    )
    lacking = GOLDEN["google"].keys() - actual.keys()
    assert sorted(lacking) == [
        "bert/pooler/dense/bias",
        "bert/pooler/dense/kernel",
        "cls/seq_relationship/output_bias",
        "cls/seq_relationship/output_weights",
    ]
    assert actual.keys() < GOLDEN["google"].keys()


def gelu(x):
    """The tanh form (Hendrycks and Gimpel 2016)."""
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def word_logits(params, hidden):
    """Google's get_masked_lm_output in numpy: [..., H] -> [..., V]."""
    transform = "cls/predictions/transform"
    x = hidden @ params[f"{transform}/dense/kernel"]
    x = gelu(x + params[f"{transform}/dense/bias"])
    x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-12)
    x = x * params[f"{transform}/LayerNorm/gamma"]
    x = x + params[f"{transform}/LayerNorm/beta"]
    table = params["bert/embeddings/word_embeddings"]
    return x @ table.T + params["cls/predictions/output_bias"]


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_googles_formulas_on_what_is_read_give_the_logits_of_transformers(
    tmp_path, architecture
):
    params = huggingface_read.read(save(tmp_path, tensors_of(architecture)))
    golden = {
        name: np.array(value)
        for name, value in GOLDEN["transformers"][architecture]["outputs"].items()
    }
    words = word_logits(params, golden["hidden"])
    assert np.abs(words - golden["words"]).max() < TOLERANCE
    if architecture == "BertForPreTraining":
        scope = "cls/seq_relationship"
        sentences = golden["pooled"] @ params[f"{scope}/output_weights"].T
        sentences += params[f"{scope}/output_bias"]
        assert np.abs(sentences - golden["sentences"]).max() < TOLERANCE


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_an_export_is_the_file_that_transformers_writes(tmp_path, architecture):
    tensors = tensors_of(architecture)
    params = huggingface_read.read(save(tmp_path, tensors))
    if architecture == "BertForMaskedLM":  # ours has a pooler, untrained
        params["bert/pooler/dense/kernel"] = np.ones((8, 8), np.float32)
    exported = tmp_path / "export"
    vocab = vocab_file(tmp_path)
    huggingface_write.export(
        exported, params, CONFIG, vocab_file=vocab, do_lower_case=True, labels=None
    )
    assert_bit_equal(
        safetensors.numpy.load_file(exported / "model.safetensors"), tensors
    )
    config = json.loads((exported / "config.json").read_text())
    assert config["architectures"] == [architecture]
    assert config["tie_word_embeddings"] is True
    assert "id2label" not in config
    assert type(CONFIG).from_json_file(exported / "config.json") == CONFIG


def test_an_export_with_half_a_head_is_refused(tmp_path):
    specs = params_lib.bert_specs(CONFIG)
    params = {name: np.zeros(shape, np.float32) for name, (shape, _) in specs.items()}
    params["cls/predictions/output_bias"] = np.zeros(CONFIG.vocab_size, np.float32)
    message = "the model has no cls/predictions/transform/dense/kernel, which BertForM"
    with pytest.raises(UserError, match=message):
        huggingface_write.export(
            tmp_path / "export",
            params,
            CONFIG,
            vocab_file=vocab_file(tmp_path),
            do_lower_case=True,
            labels=None,
        )
    assert not (tmp_path / "export").exists()


def start_from(folder):
    """The first weights of a pretraining, and what the log says of them."""
    specs = params_lib.bert_specs(CONFIG)
    specs |= {name: (tuple(shape), "zeros") for name, shape in HEADS.items()}
    random = params_lib.initialize(specs, 0.02, seed=1)
    output = []
    return first_weights(specs, random, str(folder), say=output.append), "\n".join(
        output
    )


def test_a_start_takes_the_heads_and_a_tied_decoder_needs_no_word(tmp_path):
    tensors = tensors_of("BertForPreTraining", all_names=True)
    weights, output = start_from(save(tmp_path, tensors))
    assert f"{len(GOLDEN['google'])} of {len(GOLDEN['google'])}" in output
    assert "not used" not in output and "random" not in output
    kernel = tensors["cls.predictions.transform.dense.weight"].T
    assert np.array_equal(weights["cls/predictions/transform/dense/kernel"], kernel)


def test_a_decoder_of_its_own_is_said_to_be_left_out(tmp_path):
    tensors = tensors_of("BertForPreTraining", all_names=True)
    copy, original = list(COPIES.items())[0]
    tensors[copy] = tensors[copy] + 1
    weights, output = start_from(save(tmp_path, tensors))
    assert f"in the checkpoint but not used: {copy}" in output
    words = weights["bert/embeddings/word_embeddings"]
    assert np.array_equal(words, tensors[original])
