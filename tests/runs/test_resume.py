"""What a run starts from: its newest checkpoint, first weights, or a trained model."""

import json
import types

import numpy as np
import pytest

from bert_mgpu.checkpoints import google_read, train_state
from bert_mgpu.checkpoints.pretrained import Pretrained
from bert_mgpu.config.finetuning import FinetuneConfig
from bert_mgpu.core import log
from bert_mgpu.core.errors import UserError
from bert_mgpu.core.task import TrainState
from bert_mgpu.model import params as params_lib
from bert_mgpu.model.config import BertConfig
from bert_mgpu.runs import resume
from bert_mgpu.training.optimizers import Optimizer

CONFIG = BertConfig(
    7, 8, 1, num_attention_heads=2, intermediate_size=12, max_position_embeddings=6
)
SPECS = params_lib.bert_specs(CONFIG) | params_lib.classifier_specs(CONFIG, 2)
MODEL = Pretrained(
    CONFIG, "config", None, vocab_file=None, do_lower_case=True, labels=None
)
IDENTITY = {"seed": 42}
HEAD, ADVICE = "output_weights", "train the head alone first"
BIAS = np.array([0.5, -2], np.float32)
TASK = types.SimpleNamespace(
    param_specs=lambda: SPECS,
    first_values=lambda params, new: {"output_bias": BIAS} if HEAD in new else {},
    labels=(),
    new_head_warnings={HEAD: ADVICE},
)


@pytest.fixture
def said(monkeypatch):
    lines = []
    monkeypatch.setattr(log.tqdm.tqdm, "write", lambda line, file: lines.append(line))
    return lines


def weights(seed=1):
    return params_lib.initialize(SPECS, 0.3, seed=seed)


def save(folder, step=3, seed=1, slots=True, **changed):
    """A checkpoint of a run -> its state."""
    params = weights(seed) | changed
    zeros = Optimizer().zero_slots(params) if slots else {}
    own = {name: value + np.array(step, value.dtype) for name, value in zeros.items()}
    state = TrainState(params, own, step, identity=IDENTITY)
    train_state.save(folder, state, 5)
    return state


def start(folder, identity=IDENTITY, optimizer="adamw_google", **flags):
    run = FinetuneConfig(optimizer=optimizer, **flags)
    first = Optimizer(optimizer).zero_slots
    return resume.training_state(
        run,
        TASK,
        MODEL,
        identity=identity,
        output_dir=folder,
        initial_slots=first,
    )


def assert_same(actual, wanted):
    assert actual.keys() == wanted.keys()
    for name, value in wanted.items():
        assert np.array_equal(actual[name], value), name


def test_the_newest_checkpoint_goes_on(tmp_path, said):
    save(tmp_path, 3, seed=1)
    wanted = save(tmp_path, 5, seed=2)
    state = start(tmp_path)
    assert state.step == 5 and state.identity == IDENTITY
    assert_same(state.params, wanted.params)
    assert_same(state.slots, wanted.slots)
    assert "step 5 with its weights, optimizer and position in the data" in said[-1]


def test_without_one_the_seed_gives_the_first_weights(tmp_path, said):
    one, same, other = (start(tmp_path, seed=seed) for seed in (1, 1, 2))
    assert one.step == 0
    assert_same(one.params, same.params)
    assert np.array_equal(one.params["output_bias"], BIAS)  # of the task
    assert "set from the training rows: output_bias" in said[-1]
    name = "bert/pooler/dense/kernel"
    assert not np.array_equal(one.params[name], other.params[name])
    assert all(not value.any() for value in one.slots.values())


def test_a_new_head_on_a_trained_encoder_has_a_warning(tmp_path, said):
    checkpoint = str(tmp_path / "bert_model.ckpt")

    def warns(params, **flags):
        google_read.write(checkpoint, params)
        start(tmp_path / "out", init_checkpoint=checkpoint, **flags)
        warned = any(line.split() == ["WARNING", *ADVICE.split()] for line in said)
        said.clear()
        return warned

    whole = weights()
    encoder = {name: one for name, one in whole.items() if name.startswith("bert/")}
    assert warns(encoder)
    assert not warns(encoder, freeze="^bert/")
    assert not warns(whole)
    state = start(tmp_path / "out", init_checkpoint=checkpoint)
    assert np.array_equal(state.params["output_bias"], whole["output_bias"])
    said.clear()
    start(tmp_path / "out")  # all weights are new
    assert not any(ADVICE in line for line in said)


def test_another_run_is_refused_by_what_differs(tmp_path, said):
    save(tmp_path)
    with pytest.raises(UserError, match=r"seed \(was 42, is 43\)"):
        start(tmp_path, identity={"seed": 43})


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (np.zeros((3, 8), "f"), r"shape \[2, 8\], the checkpoint has \[3, 8\]"),
        (np.zeros((2, 8)), "shape .*, the checkpoint has .*, float64"),
    ],
)
def test_weights_that_do_not_fit_are_refused(tmp_path, said, value, words):
    save(tmp_path, output_weights=value)
    with pytest.raises(UserError, match=f"output_weights: expected {words}"):
        start(tmp_path)


def test_a_weight_that_lacks_is_named(tmp_path, said):
    state = save(tmp_path)
    del state.params["output_bias"]
    prefix = tmp_path / "model.ckpt-3"
    stored = google_read.read(prefix)
    google_read.write(prefix, {n: v for n, v in stored.items() if n != "output_bias"})
    with pytest.raises(UserError, match="output_bias: .* has no such weight"):
        start(tmp_path)


def test_slots_that_lack_start_afresh_where_no_steps_are_counted(tmp_path, said):
    """As those of TF1 code do, which are under other names."""
    save(tmp_path, slots=False)
    state = start(tmp_path)
    assert all(not value.any() for value in state.slots.values())
    assert any("optimizer slots are missing and start afresh" in one for one in said)
    with pytest.raises(UserError, match="has no slots of --optimizer=adamw, which"):
        start(tmp_path, optimizer="adamw")


@pytest.mark.parametrize(
    ("began", "given", "words"),
    [
        ("/a/start", "/a/start", "was read when the run began, not now"),
        ("/a/start", "/another", "WARNING  --init_checkpoint=/another is not read"),
        (None, "/a/start", "was read when the run began, not now"),
    ],
)
def test_a_start_that_is_given_again_is_not_read(tmp_path, said, began, given, words):
    save(tmp_path)
    if began:
        facts = {"flags": {"init_checkpoint": began}}
        (tmp_path / "run.json").write_text(json.dumps(facts))
    start(tmp_path, init_checkpoint=given)
    assert words in said[-1]


def test_a_trained_model_is_used_with_its_average(tmp_path, said):
    optimizer = Optimizer(ema_decay=0.9)
    params = weights()
    slots = optimizer.zero_slots(params)
    name = "output_bias"
    average = next(one for one in slots if one.startswith(f"{name}/Exponential"))
    slots[average] = np.array([5, 6], "f")
    train_state.save(tmp_path, TrainState(params, slots, 4, identity=IDENTITY), 5)
    actual = resume.trained_state(
        FinetuneConfig(), SPECS, IDENTITY, output_dir=tmp_path
    )
    assert actual.params[name].tolist() == [5, 6] and actual.slots == {}


def test_random_results_are_never_given(tmp_path, said):
    """Neither without a model nor with one whose head is not trained."""
    out = tmp_path / "out"
    out.mkdir()
    with pytest.raises(UserError, match="no trained model: pass --do_train=true"):
        resume.trained_state(FinetuneConfig(), SPECS, IDENTITY, output_dir=out)
    encoder = {name: v for name, v in weights().items() if name.startswith("bert/")}
    google_read.write(tmp_path / "bert_model.ckpt", encoder)
    run = FinetuneConfig(init_checkpoint=str(tmp_path / "bert_model.ckpt"))
    with pytest.raises(UserError, match="output_weights is not trained for this task|"
                       "output_bias is not trained for this task"):  # fmt: skip
        resume.trained_state(run, SPECS, IDENTITY, output_dir=out)
    # What no result depends on may be missing.
    head = SPECS.keys() - encoder.keys()
    found = resume.trained_state(run, SPECS, IDENTITY, output_dir=out, unused=head)
    assert found.params.keys() == SPECS.keys()
    assert all(np.isfinite(value).all() for value in found.params.values())
