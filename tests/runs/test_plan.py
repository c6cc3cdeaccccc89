"""What a plan says of memory, time and length, as functions of a run without data."""

import dataclasses
import math
import pathlib
import re
import types

import numpy as np
import pytest

from bert_mgpu.checkpoints.pretrained import Pretrained
from bert_mgpu.config.finetuning import FinetuneConfig
from bert_mgpu.core import errors
from bert_mgpu.distributed import devices
from bert_mgpu.distributed.topology import single_process
from bert_mgpu.model.config import BertConfig
from bert_mgpu.runs import memory
from bert_mgpu.runs import plan as plan_lib
from bert_mgpu.runs.run import Run
from bert_mgpu.tasks.classification.task import Classification

SMALL = BertConfig(1000, 64, 4, num_attention_heads=4, intermediate_size=256)


def job_of(config=SMALL, **flags):
    """A job on the CPU, without data."""
    run = FinetuneConfig(**{"max_seq_length": 128, "train_batch_size": 8, **flags})
    task = Classification(
        "x", config, ["a", "b"], max_seq_length=128, recompute=run.recompute
    )
    model = Pretrained(
        config, "", None, vocab_file="", do_lower_case=True, labels=["a", "b"]
    )
    return Run(
        run,
        model,
        task,
        data=None,
        topology=single_process(run.n_gpus, ["CPU:0"]),
        output_dir=pathlib.Path(),
    )


def need(rows=8, length=128, **flags):
    return memory.by_part(job_of(**flags), rows, length)


def test_memory_follows_from_what_is_held():
    plain = need()
    values = sum(math.prod(s) for s, _ in job_of().task.param_specs().values())
    assert plain["weights"] == 4 * values
    assert plain["slots"] == 8 * values and plain["gradients"] == 4 * values
    assert need(optimizer="lion")["slots"] == 4 * values
    assert need(ema_decay=0.9)["slots"] == 12 * values
    kernels = 4 * (4 * 64 * 64 + 2 * 64 * 256) + 64 * 64  # with the pooler's
    small = need(slot_bits="8")["slots"]
    assert plain["slots"] - 6 * kernels <= small <= plain["slots"] - 5.9 * kernels
    frozen = need(freeze_layers="embeddings,0-3")
    assert frozen["weights"] == 4 * values
    assert frozen["slots"] == 2 * frozen["gradients"] < 0.1 * plain["slots"]


@pytest.mark.parametrize(
    ("layers", "hidden", "rows", "recompute", "peak"),
    [(4, 256, 32, "none", 2759), (12, 384, 8, "none", 5010)]
    + [(12, 384, 32, "block", 4697)],
)
def test_memory_is_near_measured_peaks(layers, hidden, rows, recompute, peak):
    """MB above weights and slots, rows of 512 tokens: "plan" in speed.json."""
    heads, inner = max(4, layers), 4 * hidden
    sizes = {"num_attention_heads": heads, "intermediate_size": inner}
    config = BertConfig(21128, hidden, layers, **sizes)
    flags = {"max_seq_length": 512, "recompute": recompute}
    parts = memory.by_part(job_of(config, **flags), rows, 512)
    steps = sum(parts.values()) - parts["weights"] - parts["slots"]
    assert steps / 2**20 == pytest.approx(peak, rel=0.1)


def test_memory_follows_from_the_batch():
    work = "activations and updates"
    plain = need(64)
    assert need(128)[work] == pytest.approx(2 * plain[work], rel=0.01)
    assert need(64, length=256)[work] > 2 * plain[work]
    assert need(64, recompute="block")[work] < 0.6 * plain[work]
    assert need(64, recompute="attention")[work] < plain[work]
    assert need(64, precision="bfloat16")[work] < 0.6 * plain[work]
    half = need(64, freeze_layers="embeddings,0-1")
    assert 0.3 * plain[work] < half[work] < 0.7 * plain[work]
    assert need(64, freeze_layers="1-2")[work] > 0.95 * plain[work]  # flows through
    turns = need(16, gradient_accumulation_steps=4)
    assert turns[work] < 0.3 * plain[work]
    # Sums of one and of two turns, and the third turn's own.
    assert turns["gradients"] == 3 * plain["gradients"]


@pytest.mark.parametrize(
    ("rows", "turns", "fit", "said"),
    [
        (8, 1, 8, None),
        (8, 1, 2, "WARNING: too much: --train_batch_size=2 .*steps=4 would fit"),
        (8, 1, 0, "WARNING: one row at a time is too much: pass --recompute=block"),
        (2, 4, 4, "--train_batch_size=4 --gradient_accumulation_steps=2 fits too"),
    ],
)
def test_proposes_a_batch_that_fits(monkeypatch, rows, turns, fit, said):
    """Room is what so many rows at a time need."""
    flags = {"train_batch_size": rows, "gradient_accumulation_steps": turns}
    job = job_of(**flags)
    room = 0
    if fit:
        other = {"train_batch_size": fit, "gradient_accumulation_steps": 8 // fit}
        parts = need(fit, **other)
        room = sum(parts.values()) / 0.9 - parts["weights"] - parts["slots"] + 1
    monkeypatch.setattr(plan_lib.devices, "free_memory", lambda names: room)
    lines = [*plan_lib._memory(job, rows, 128)][2:]
    assert len(lines) == (said is not None)
    assert said is None or re.match(said, lines[0])


def test_proposes_no_batch_where_no_memory_is_known(monkeypatch):
    monkeypatch.setattr(plan_lib.devices, "free_memory", lambda names: None)
    lines = [*plan_lib._memory(job_of(), 8, 128)]
    assert len(lines) == 2 and re.fullmatch(r"about [\d.]+ [MG]B a device:", lines[0])


def test_room_is_shared_by_the_devices_of_a_cpu():
    one, four = (
        devices.free_memory(["CPU:0"]),
        devices.free_memory([f"CPU:{n}" for n in range(4)]),
    )
    assert 0.8 < one / (4 * four) < 1.25 and one > 100_000_000


def test_proposes_what_is_faster_where_a_cpu_would_take_days(monkeypatch):
    times = {"seconds": 60.0}
    probe = lambda *_: ((20.0, 31.0), times["seconds"])  # noqa: E731
    monkeypatch.setattr(plan_lib, "_probe", probe)
    batch = {"input_ids": np.zeros((1, 8, 128), np.int32)}
    towers = types.SimpleNamespace(devices=["CPU:0"])

    def told(job, ratio=1.0):
        return " ".join(
            plan_lib._time(job, towers, [batch], steps=2000, ratio=ratio, shapes=1)
        )

    text = told(job_of())
    assert "about 33.3 hours for 2000 steps of 60.00 s" in text
    assert "about 8.3 hours for 2000 steps of 15.00 s" in told(job_of(), ratio=0.25)
    assert "--freeze_layers=embeddings,0-1" in text
    assert "4 layers x 256" not in text  # this one is smaller
    base = job_of()
    model = dataclasses.replace(base.model, bert_config=BertConfig(1000))
    base = dataclasses.replace(base, model=model)
    assert re.search(r"4 layers x 256: about \d% of that", told(base))
    times["seconds"] = 1.0
    assert "freeze" not in told(job_of())


@pytest.mark.parametrize(
    ("steps", "done", "told"), [(105, 0, 11), (105, 30, 8), (105, 105, 0), (50, 100, 0)]
)
def test_counts_the_evaluations_that_are_left(steps, done, told):
    job = job_of(eval_steps=10, do_train=True)
    lines = [*plan_lib._steps(job, steps, done, rows=80)]
    assert lines[1].startswith(f"{told} evaluation")


@pytest.mark.parametrize("count", [1, 4])
def test_says_what_compilation_takes(monkeypatch, count):
    monkeypatch.setattr(plan_lib, "_probe", lambda *_: ((20.0, 31.0), 2.0))
    towers = types.SimpleNamespace(devices=["CPU:0"] * count)
    text = " ".join(
        plan_lib._time(job_of(), towers, [], steps=100, ratio=1.0, shapes=3)
    )
    assert "20 s of compilation for each of 3 shapes of batches" in text
    every = "each of 4 devices compiles for itself: 31 s of processor time in all"
    assert (every in text) == (count == 4)
    job = job_of(xla="off")
    text = " ".join(plan_lib._time(job, towers, [], steps=9, ratio=1.0, shapes=3))
    assert "after 20 s for the first one" in text and "compil" not in text


def test_counts_what_evaluations_on_the_way_keep():
    """Kernels and biases of the encoder in 16 bits, and nothing without them."""
    name, flags = "copies for evaluation", {"precision": "bfloat16"}
    job = job_of(eval_steps=5, do_train=True, **flags)
    shapes = job.task.param_specs()
    low = [
        math.prod(shape)
        for key, (shape, _) in shapes.items()
        if key.startswith("bert/encoder/") and key.endswith(("/kernel", "/bias"))
    ]
    assert memory.by_part(job, 8, 128)[name] == 2 * sum(low)
    assert name not in memory.by_part(job_of(**flags), 8, 128)
    assert name not in memory.by_part(job_of(eval_steps=5, do_train=True), 8, 128)


def test_says_where_a_step_does_not_fit(monkeypatch):
    def full(*_):
        raise MemoryError

    monkeypatch.setattr(plan_lib, "_probe", full)
    towers = types.SimpleNamespace(out_of_memory=errors.out_of_memory)
    lines = [*plan_lib._time(job_of(), towers, [], steps=10, ratio=1.0, shapes=1)]
    assert lines[0] == "a step does not fit: out of memory"
    assert "--recompute=block" in lines[-1]


def test_segments_need_the_memory_of_as_many_rows():
    """Attention is within a segment: a row of four is four rows."""
    several = need(2, 4 * 128, max_segments=4, max_seq_length=128)
    assert several == need(8, 128, max_seq_length=128)
    one = need(2, 100, max_segments=4, max_seq_length=128)
    assert one == need(2, 100, max_seq_length=128)


@pytest.mark.parametrize("takes", [True, False])
def test_truncation_is_named_where_it_does_something(takes):
    model = types.SimpleNamespace(
        bert_config=BertConfig(9, max_position_embeddings=128)
    )
    config = FinetuneConfig(max_seq_length=64)
    run = types.SimpleNamespace(config=config, model=model, segment=None)
    notes = {"truncated": 1, "rows": 2, "length_percentiles": {"99": 400}}
    notes |= {} if takes else {"truncation": False}
    text = " ".join(plan_lib._length(run, notes))
    assert "50.0% of the rows are truncated" in text and "the model takes 128" in text
    assert ("--truncation" in text) == takes
