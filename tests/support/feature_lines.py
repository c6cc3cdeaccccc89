"""Lines for extract_features.py, and what its answers hold."""

import json
import pathlib

import numpy as np

from tests.support.tiny import rows

# Lines that Google's script reads in a way of its own.
ODD = [
    "",
    "   ",
    "sun joy",
    "\u3000 sun\tjoy \u3000",
    "sun ||| rain",
    "sun ||| rain ||| joy",
    "sun |||",
    "||| rain",
    "sun |||rain",
    "sun  |||  rain",
    " ||| ",
    "sun ||| \u200b",
    "\u200b ||| rain",
    "好新的坏 unknown suns",
    "sun\u2028joy \x0b in",
    "a " * 40,
    f"{'a ' * 20}||| {'sun ' * 9}",
    f"sun joy ||| {'rain ' * 30}",
]


def write_lines(path, count=30):
    drawn = [
        f"{a} ||| {b}" if n % 3 else a for n, (_, a, b) in enumerate(rows(count, 3))
    ]
    path.write_text("\n".join([*ODD, *drawn]) + "\nwithout an end")
    return len(ODD) + count + 1


def model_flags(model):
    return {
        "vocab_file": model / "vocab.txt",
        "bert_config_file": model / "bert_config.json",
        "init_checkpoint": model / "bert_model.ckpt",
        "max_seq_length": 16,
    }


def as_flags(flags):
    """--name=value of each, as a shell has them."""
    return [f"--{name}={value}" for name, value in flags.items()]


def read(path):
    return [json.loads(line) for line in pathlib.Path(path).open()]


def tokens_of(lines):
    return [[feature["token"] for feature in line["features"]] for line in lines]


def values_of(lines):
    """float64 [tokens, K, H]"""
    return np.array(
        [
            [one["values"] for one in feature["layers"]]
            for line in lines
            for feature in line["features"]
        ]
    )


def assert_same_lines(actual, wanted, atol=1e-5):
    assert [*actual[0]] == [*wanted[0]]
    for name in ("linex_index",):
        assert [one[name] for one in actual] == [one[name] for one in wanted]
    assert tokens_of(actual) == tokens_of(wanted)
    for one, other in zip(actual, wanted, strict=True):
        for feature, known in zip(one["features"], other["features"], strict=True):
            assert [*feature] == [*known] == ["token", "layers"]
            for layer, second in zip(feature["layers"], known["layers"], strict=True):
                assert [*layer] == [*second] and layer["index"] == second["index"]
    np.testing.assert_allclose(values_of(actual), values_of(wanted), rtol=0, atol=atol)
