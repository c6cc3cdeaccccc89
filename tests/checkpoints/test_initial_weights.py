"""First weights of a run: what is loaded, what starts at random, what is refused."""

import dataclasses

import numpy as np
import pytest

from bert_mgpu.checkpoints import google_read, huggingface_write, initial_weights
from bert_mgpu.checkpoints.pretrained import Pretrained
from bert_mgpu.core.errors import UserError
from bert_mgpu.model import params as params_lib
from bert_mgpu.model.config import BertConfig

CONFIG = BertConfig(
    7, 8, 1, num_attention_heads=2, intermediate_size=12, max_position_embeddings=6
)
SPECS = params_lib.bert_specs(CONFIG) | params_lib.classifier_specs(CONFIG, 2)
WEIGHTS = params_lib.initialize(SPECS, 0.3, seed=1)
RANDOM = params_lib.initialize(SPECS, 0.3, seed=2)
KERNEL = "bert/encoder/layer_0/attention/self/query/kernel"
MODEL = Pretrained(
    CONFIG, "", None, vocab_file=None, do_lower_case=True, labels=["no", "yes"]
)


@pytest.fixture
def start(tmp_path):
    """start(tensors, ...) -> (first weights from them, lines of the log)."""

    def run(tensors, specs=SPECS, **facts):
        google_read.write(tmp_path / "bert_model.ckpt", tensors)
        lines = []
        path = str(tmp_path / "bert_model.ckpt")
        weights = initial_weights.first_weights(
            specs, RANDOM, path, say=lines.append, **facts
        )
        return weights, lines

    return run


def assert_same(actual, wanted):
    assert actual.keys() == wanted.keys()
    for name, value in wanted.items():
        assert actual[name].tobytes() == value.tobytes(), name


def test_all_weights_are_loaded_and_nothing_of_a_training(start):
    of_training = {
        "global_step": np.int64(3),
        f"{KERNEL}/adam_m": WEIGHTS[KERNEL],
        "bert_mgpu/identity": np.array(b"{}", object),
    }
    weights, lines = start({**WEIGHTS, **of_training})
    assert_same(weights, WEIGHTS)
    assert lines[0].startswith(f"{len(SPECS)} of {len(SPECS)} loaded from")
    assert len(lines) == 1


def test_both_formats_give_the_same_weights(start, tmp_path):
    (tmp_path / "vocab.txt").write_text("[PAD]\n")
    huggingface_write.export(
        tmp_path / "hf",
        WEIGHTS,
        CONFIG,
        vocab_file=tmp_path / "vocab.txt",
        do_lower_case=True,
        labels=["no", "yes"],
    )
    weights, _ = start(WEIGHTS)
    folder = str(tmp_path / "hf")
    copies = initial_weights.first_weights(SPECS, RANDOM, folder, say=lambda text: None)
    assert_same(copies, weights)
    assert_same(initial_weights.read_all(folder), WEIGHTS)
    assert_same(initial_weights.read_all(str(tmp_path / "bert_model.ckpt")), WEIGHTS)
    specs = initial_weights.open_weights(folder).specs
    assert specs[KERNEL] == ((8, 8), np.float32)


def test_averages_of_a_run_are_its_weights(start, tmp_path):
    average = {f"{KERNEL}/ExponentialMovingAverage": WEIGHTS[KERNEL] + 1}
    weights, _ = start(WEIGHTS | average)
    assert_same(weights, WEIGHTS | {KERNEL: WEIGHTS[KERNEL] + 1})
    again = initial_weights.read_all(str(tmp_path / "bert_model.ckpt"))
    assert_same(again, weights)


def test_a_new_head_is_random(start):
    encoder = {name: v for name, v in WEIGHTS.items() if name.startswith("bert/")}
    weights, lines = start(encoder)
    head = {name: RANDOM[name] for name in ("output_weights", "output_bias")}
    assert_same(weights, WEIGHTS | head)
    assert "new, initialised at random: output_bias, output_weights" in lines


@pytest.mark.parametrize("labels", [["yes", "no"], ["no", "yes"]])
def test_a_head_of_other_labels_is_not_loaded(start, labels):
    weights, lines = start(WEIGHTS, model=MODEL, labels=labels)
    loaded = weights["output_weights"].tobytes() == WEIGHTS["output_weights"].tobytes()
    assert loaded == (labels == MODEL.labels)
    assert any("has other labels: no, yes" in line for line in lines) != loaded


@pytest.mark.parametrize(
    "name", ["bert/embeddings/LayerNorm/beta", "bert/encoder/layer_0/output/dense/bias"]
)
def test_an_encoder_is_whole_or_refused(start, name):
    with pytest.raises(
        UserError, match=f"lacks 1 of the model's weights, such as {name}"
    ):
        start({other: v for other, v in WEIGHTS.items() if other != name})


def test_sizes_are_the_models(start):
    wide = dataclasses.replace(CONFIG, intermediate_size=16)
    message = r"has shape \[12\], the model expects \[16\]: pass the --bert_config_file"
    with pytest.raises(UserError, match=message):
        start(WEIGHTS, specs=params_lib.bert_specs(wide))


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_values_that_are_no_numbers_are_refused(start, value):
    damaged = WEIGHTS[KERNEL].copy()
    damaged[3, 4] = value
    with pytest.raises(UserError, match=f"{KERNEL} holds NaN or infinite values"):
        start(WEIGHTS | {KERNEL: damaged})
