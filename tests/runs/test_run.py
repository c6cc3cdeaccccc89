"""The parts of a run that follow from its flags."""

import types

import pytest

from bert_mgpu.config.finetuning import FinetuneConfig
from bert_mgpu.core.errors import UserError
from bert_mgpu.distributed.topology import single_process
from bert_mgpu.runs.run import Run

NAMES = ["bert/embeddings/word_embeddings", "bert/encoder/layer_0/x", "head", "unused"]


def make(device="CPU:0", **flags):
    task = types.SimpleNamespace(
        param_specs=lambda: dict.fromkeys(NAMES), unused_params=frozenset({"unused"})
    )
    model = types.SimpleNamespace(
        bert_config=types.SimpleNamespace(num_hidden_layers=1)
    )
    topology = single_process(2, [device])
    config = FinetuneConfig(**flags, given=frozenset(flags))
    return Run(config, model, task, data=None, topology=topology, output_dir=None)


@pytest.mark.parametrize(
    ("flags", "frozen"),
    [
        ({}, ["unused"]),
        ({"freeze": "^head"}, ["head", "unused"]),
        ({"freeze_layers": "0"}, [NAMES[1], "unused"]),
    ],
)
def test_unused_parameters_are_frozen_too(flags, frozen):
    """Weight decay would wear them down."""
    assert make(**flags).frozen == frozen


def test_something_that_is_used_is_left_to_train():
    with pytest.raises(UserError, match="all parameters that the task uses"):
        _ = make(freeze="bert/|head").frozen


def test_a_mistaken_freeze_is_a_users_error():
    with pytest.raises(UserError):
        _ = make(freeze_layers="9").frozen


@pytest.mark.parametrize(
    ("device", "flags", "passes", "after"),
    [
        ("CPU:0", {}, True, None),
        ("CPU:0", {"precision": "bfloat16"}, False, None),
        ("GPU:0", {"precision": "bfloat16"}, True, None),
        ("CPU:0", {"precision": "bfloat16", "xla": "on"}, True, None),
        ("GPU:0", {"predict_file": "-"}, False, 50),
        ("CPU:0", {"predict_file": "-", "precision": "bfloat16"}, False, None),
        ("GPU:0", {"predict_file": "-", "xla": "on"}, True, None),
        ("GPU:0", {"predict_file": "-", "xla": "off"}, False, None),
        ("GPU:0", {"xla": "off"}, False, None),
    ],
)
def test_xla_compiles_where_it_is_faster(device, flags, passes, after):
    update = flags.get("xla") != "off"
    assert make(device, **flags).compilation == (passes, update, after)


def test_the_batch_is_in_the_log():
    run = make(train_batch_size=4, gradient_accumulation_steps=3)
    assert run.batch == 24
    assert run.batch_in_words == (
        "4 examples x 2 towers x 3 accumulation steps = 24 per step"
    )


@pytest.mark.parametrize(
    ("device", "predicting", "flags", "rows"),
    [
        ("CPU:0", False, {}, 8),
        ("GPU:0", False, {}, 64),
        ("GPU:0", False, {"eval_batch_size": 4}, 4),
        ("GPU:0", False, {"predict_batch_size": 4}, 64),
        ("GPU:0", True, {"predict_batch_size": 4}, 4),
        ("GPU:0", True, {"eval_batch_size": 4}, 4),
        ("CPU:0", True, {"eval_batch_size": 4, "predict_batch_size": 3}, 3),
    ],
)
def test_a_gpu_takes_64_rows_where_no_flag_says_how_many(
    device, predicting, flags, rows
):
    run = make(device, **flags, max_seq_length=9)
    settings = run.forward_settings("x", predicting=predicting)
    assert (settings.batch_size, settings.max_length) == (rows, 9)
