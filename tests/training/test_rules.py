"""Which parameters learn more slowly, and which not at all."""

import re

import pytest

from bert_mgpu.model import params as params_lib
from bert_mgpu.model.config import BertConfig
from bert_mgpu.training import rules

LAYERS = 12
CONFIG = BertConfig(
    vocab_size=9,
    hidden_size=4,
    num_hidden_layers=LAYERS,
    num_attention_heads=2,
    intermediate_size=8,
    max_position_embeddings=6,
)
NAMES = [*(params_lib.bert_specs(CONFIG) | params_lib.classifier_specs(CONFIG, 2))]


def part_of(name):
    """What a name belongs to: "embeddings", "pooler", "head" or a layer's number."""
    parts = name.split("/")
    if parts[0] != "bert":
        return "head"
    return int(parts[2].removeprefix("layer_")) if parts[1] == "encoder" else parts[1]


def names_of(*parts):
    return [name for name in NAMES if part_of(name) in parts]


def test_rate_falls_by_one_factor_a_layer():
    """BEiT, optim_factory.py: 14 groups for 12 layers, the head's has the full rate."""
    factors = rules.resolve(rules.layer_decay(LAYERS, 0.9), NAMES)
    assert factors.keys() == set(NAMES)
    below = {"head": 0, "pooler": 0, "embeddings": 13}
    below |= {
        11: 1,
        10: 2,
        9: 3,
        8: 4,
        7: 5,
        6: 6,
        5: 7,
        4: 8,
        3: 9,
        2: 10,
        1: 11,
        0: 12,
    }
    for name, factor in factors.items():
        assert factor == pytest.approx(0.9 ** below[part_of(name)], rel=1e-12), name
    assert len(set(factors.values())) == 14


def test_the_head_has_a_factor_of_its_own():
    factors = rules.resolve(rules.layer_decay(LAYERS, 0.9, 100.0), NAMES)
    heads = {factor for name, factor in factors.items() if part_of(name) == "head"}
    assert heads == {100.0}
    usual = rules.resolve(rules.layer_decay(LAYERS, 0.9), NAMES)
    rest = [name for name in NAMES if part_of(name) != "head"]
    assert [factors[name] for name in rest] == [usual[name] for name in rest]


def test_a_table_for_fewer_layers_does_not_fit():
    with pytest.raises(ValueError, match="layer_11/"):
        rules.resolve(rules.layer_decay(11, 0.9), NAMES)


@pytest.mark.parametrize("decay", [0.0, -0.5, 1.1])
def test_factor_that_is_none(decay):
    with pytest.raises(ValueError, match=f"decay of {decay}: pass"):
        rules.layer_decay(LAYERS, decay)


@pytest.mark.parametrize(
    ("layers", "parts"),
    [
        ("1", [1]),  # and neither 10 nor 11
        ("embeddings", ["embeddings"]),
        ("embeddings,0-5", ["embeddings", 0, 1, 2, 3, 4, 5]),
        (" pooler , 11 ", ["pooler", 11]),
        ("3-3,2,2", [2, 3]),
        ("0-11", range(12)),
        ("embeddings,0-11,pooler", ["embeddings", *range(12), "pooler"]),
    ],
)
def test_parts_of_the_encoder_freeze(layers, parts):
    assert rules.frozen(NAMES, None, layers, count=LAYERS) == names_of(*parts)


def test_patterns_freeze_what_they_occur_in():
    frozen = rules.frozen(NAMES, r"layer_1/|LayerNorm/beta$", None, count=LAYERS)
    assert frozen == [
        name for name in NAMES if part_of(name) == 1 or name.endswith("LayerNorm/beta")
    ]
    both = rules.frozen(NAMES, r"^output", "0", count=LAYERS)
    assert both == [n for n in NAMES if part_of(n) in (0, "head")]
    assert rules.frozen(NAMES, None, None, count=LAYERS) == []


@pytest.mark.parametrize(
    ("pattern", "layers", "error"),
    [
        ("layer_[", None, r"--freeze=layer_[ is not a regular expression"),
        ("layer_12/", None, "--freeze=layer_12/ freezes none of the 201 parameters"),
        ("", None, "all 201 parameters are frozen: leave some to train"),
        (".", "0", "--freeze=. and --freeze_layers=0: all 201 parameters are frozen"),
        (None, "embedding", "'embedding': pass embeddings, pooler, layers"),
        (None, "", "'': pass embeddings"),
        (None, "0,,3", "'': pass embeddings"),
        (None, "-3", "'-3': pass embeddings"),
        (None, "5-", "'5-': pass embeddings"),
        (None, "٣", "'٣': pass embeddings"),
        (None, "12", "there is no layer 12: pass layers from 0 to 11"),
        (None, "10-12", "there is no layer 12: pass layers from 0 to 11"),
        (None, "5-0", "range 5-0, which runs backwards: pass 0-5"),
    ],
)
def test_what_cannot_be_meant_is_refused(pattern, layers, error):
    with pytest.raises(ValueError, match=re.escape(error)) as raised:
        rules.frozen(NAMES, pattern, layers, count=LAYERS)
    assert "\n" not in str(raised.value)


def test_a_part_that_the_model_does_not_have():
    names = [name for name in NAMES if part_of(name) != "pooler"]
    with pytest.raises(ValueError, match="--freeze_layers=pooler freezes none of"):
        rules.frozen(names, None, "0,pooler", count=LAYERS)


def test_embeddings_alone_keep_32_bits():
    bits = rules.resolve(rules.SLOT_BITS, NAMES)
    assert {name for name in NAMES if bits[name] == 32} == {
        f"bert/embeddings/{kind}_embeddings"
        for kind in ("word", "position", "token_type")
    }


def test_layers_adapt_but_for_biases_and_layer_norms():
    """google-research/albert, lamb_optimizer.py: exclude_from_layer_adaptation."""
    adapts = rules.resolve(rules.LAYER_ADAPTATION, NAMES)
    assert {name for name in NAMES if not adapts[name]} == {
        name for name in NAMES if "bias" in name or "LayerNorm" in name
    }
    assert len(set(adapts.values())) == 2


@pytest.mark.parametrize(
    ("frozen", "layers"),
    [
        (None, 0),
        ("embeddings", 0),
        ("0", 0),  # the embeddings below it are trained
        ("embeddings,0", 1),
        ("embeddings,1", 0),
        ("embeddings,0-1", 2),
        ("embeddings,0-1,pooler", 2),
    ],
)
def test_layers_that_nothing_flows_back_through(two_layer_params, frozen, layers):
    names = rules.frozen([*two_layer_params], None, frozen, count=2) if frozen else []
    assert rules.frozen_layers(two_layer_params.keys() - set(names), 2) == layers


@pytest.mark.parametrize(
    ("pattern", "layers", "parts"),
    [
        (None, "embeddings,0-8", ["embeddings", "layers 0-8"]),
        (None, "0", ["layer 0"]),
        (None, "11,0-2,7,pooler", ["layers 0-2,7,11", "pooler"]),
        ("^bert/", None, ["embeddings", "layers 0-11", "pooler"]),
        ("^output_bias", "embeddings", ["embeddings", "output_bias"]),
        ("layer_1/attention/self/query", None, ["bert/encoder/layer_1/attention"]),
    ],
)
def test_what_is_frozen_is_told_by_its_parts(pattern, layers, parts):
    frozen = rules.frozen(NAMES, pattern, layers, count=LAYERS)
    told = rules.frozen_in_words(frozen, NAMES, LAYERS)
    assert [part.split("/self")[0] for part in told[: len(parts)]] == parts
    single = [name for name in told if name in NAMES]
    assert len(told) == len(parts) or len(single) == 2  # kernel and bias
