"""The configuration: gelu by its origin, values that cannot be, Google's file."""

import json

import pytest

from bert_mgpu.core.errors import UserError
from bert_mgpu.model.config import BertConfig

SIZES = {"vocab_size": 30, "hidden_size": 12, "num_attention_heads": 3}


@pytest.mark.parametrize(
    ("more", "activation"),
    [
        ({"hidden_act": "gelu"}, "gelu_tanh"),
        ({"hidden_act": "gelu", "model_type": "bert"}, "gelu_erf"),
        ({"hidden_act": "gelu_new", "model_type": "bert"}, "gelu_tanh"),
        ({}, "gelu_tanh"),
    ],
)
def test_gelu_is_that_of_its_origin(more, activation):
    assert BertConfig.from_dict(SIZES | more, "x").hidden_act == activation


def test_a_flag_overrides_the_activation():
    assert BertConfig.from_dict(SIZES, "x", "relu").hidden_act == "relu"


@pytest.mark.parametrize(
    ("more", "error"),
    [
        ({"num_attention_heads": 5}, "12 is not a multiple of num_attention_heads 5"),
        ({"hidden_dropout_prob": 1.0}, "hidden_dropout_prob is 1.0, not in"),
        ({"num_hidden_layers": 0}, "num_hidden_layers is 0, not positive"),
        ({"hidden_size": 12.0}, "hidden_size is 12.0, not a value of type int"),
        ({"hidden_act": "swish"}, "hidden_act 'swish' is not known"),
    ],
)
def test_values_that_cannot_be_are_refused(more, error):
    with pytest.raises(UserError, match=error):
        BertConfig.from_dict(SIZES | more, "x.json")


@pytest.mark.parametrize("name", ["config.json", "bert_config.json"])
@pytest.mark.parametrize("beside", ["model.safetensors", "bert_model.ckpt.index"])
def test_config_json_beside_safetensors_is_hugging_faces(tmp_path, name, beside):
    (tmp_path / name).write_text('{"vocab_size": 9, "hidden_act": "gelu"}')
    (tmp_path / beside).touch()
    theirs = (name, beside) == ("config.json", "model.safetensors")
    found = BertConfig.from_json_file(tmp_path / name).hidden_act
    assert found == ("gelu_erf" if theirs else "gelu_tanh")


@pytest.mark.parametrize(
    ("activation", "written"), [("gelu_tanh", "gelu"), ("gelu_erf", "gelu_erf")]
)
def test_google_would_not_take_an_erf_gelu_for_its_own(activation, written):
    text = BertConfig.from_dict(SIZES, "x", activation).to_google_json()
    assert json.loads(text)["hidden_act"] == written
    assert BertConfig.from_dict(json.loads(text), "x").hidden_act == activation
