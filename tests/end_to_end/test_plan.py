"""--plan: tells what a training would do and need, and leaves nothing behind."""

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
from tests.support.runs import tree
from tests.support.tiny import edit_config


def sections(err):
    """The plan's lines by their heading."""
    actual, name = {}, None
    for line in err.splitlines():
        heading, text = line[:14].strip(), line[16:]
        if line[14:16] == "  ":
            name = heading or name
            actual.setdefault(name, []).append(text)
        else:
            name = None
    return {name: " ".join(texts) for name, texts in actual.items()}


@pytest.fixture
def plan(work, inside):
    def call(**flags):
        out = work.root / "out"
        before = tree(out)
        code, _, err = inside(work.flags(out, do_train=True, plan=True, **flags))
        assert code == 0, err
        assert tree(out) == before
        return sections(err)

    return call


def test_says_steps_rate_and_shares(plan, tiny, tmp_path, inside):
    flags = {"n_gpus": 2, "num_train_epochs": 3, "learning_rate": 5e-5}
    reported = plan(**flags)
    assert reported["batch"] == "4 examples x 2 towers = 8 per step"
    assert reported["steps"] == "9: 24 rows, 3 epochs"
    assert reported["learning rate"] == "5e-05"
    _, _, err = inside(tiny.flags(tmp_path / "real", do_train=True, **flags))
    (shares,) = re.findall(r"padding  .*; padding's share of tokens: (.*)", err)
    assert reported["padding"].startswith(shares)
    assert "steps 1 to 9," in err
    assert (
        "hours" in reported["time"]
        or "minutes" in reported["time"]
        or "sec" in reported["time"]
    )


def test_says_the_disk_that_checkpoints_take(plan, tiny, tmp_path, inside):
    """As they take it in the training itself; one more lies there while it is saved."""
    flags = {"num_train_epochs": 3, "save_checkpoints_steps": 3}
    flags |= {"keep_checkpoint_max": 2}
    assert "best/" not in plan(**flags)["disk"]
    flags |= {"do_eval": True, "eval_steps": 9}
    planned = " ".join(plan(**flags)["disk"].split())
    out = tmp_path / "real"
    code, _, err = inside(tiny.flags(out, do_train=True, **flags))
    assert code == 0, err

    def size(folder):
        files = [path for path in folder.iterdir() if "model.ckpt-" in path.name]
        return sum(path.stat().st_size for path in files)

    form = r"{} a checkpoint, {} for 2 and one being written; best/ {}"
    sizes = re.fullmatch(form.format(*[r"([\d.]+ [kM]B)"] * 3), planned).groups()
    actual = [
        float(size.split()[0]) * {"kB": 1e3, "MB": 1e6}[size.split()[1]]
        for size in sizes
    ]
    wanted = [size(out) / 2, 1.5 * size(out), size(out / "best")]
    assert actual == pytest.approx(wanted, rel=0.05, abs=5e4)  # 0.1 MB, rounded


def test_warns_where_rate_and_batch_do_not_fit(plan):
    high = {"n_gpus": 4, "train_batch_size": 1, "learning_rate": 2e-4}
    reported = plan(**high, optimizer="adamw")
    assert "above 0.0001 BERT often diverges" in reported["WARNING"]
    assert "4 towers make 4 times the batch" in reported["WARNING"]
    reported = plan(n_gpus=2, train_batch_size=1, gradient_accumulation_steps=2)
    assert "2 towers x 2 accumulation steps make 4 times" in reported["WARNING"]
    scaled = {"n_gpus": 4, "train_batch_size": 1, "lr_scaling": "sqrt"}
    scaled |= {"learning_rate": 2e-5}
    reported = plan(**scaled)["WARNING"]
    assert "--lr_scaling=sqrt loses more accuracy" in reported
    assert "--lr_scaling" not in plan(optimizer="adamw", **scaled).get("WARNING", "")


def test_warns_of_steps_that_are_too_long(plan):
    """As the training itself does; a head alone learns at such rates."""
    high = {"learning_rate": 1e-4, "warmup_proportion": 1.0}
    warned = plan(**high)["WARNING"]
    assert "the largest update of --optimizer=adamw_google will equal AdamW's" in warned
    assert "the warm-up never ends: lower --warmup_proportion" in warned
    assert "above 0.0001" not in plan(**high | {"learning_rate": 2e-4})["WARNING"]
    head = plan(learning_rate=1e-3, freeze="^bert/").get("WARNING", "")
    assert "above 0.0001" not in head and "largest update" not in head


def test_proposes_length_and_padding(plan):
    reported = plan(max_seq_length=32, padding="max_length")
    assert "32: 0.0% of the rows are truncated" in reported["max_seq_length"]
    assert "--max_seq_length=24 keeps 99 %" in reported["max_seq_length"]
    assert re.search(r"--padding=\w+ saves \d+% of the tokens", reported["padding"])
    reported = plan(max_seq_length=32)
    assert "--max_seq_length=24 keeps 99 %" in reported["max_seq_length"]
    reported = plan(max_seq_length=16)
    assert "truncated: raise --max_seq_length" in reported["WARNING"]
    assert "25.0% of the rows are truncated" in reported["max_seq_length"]


def test_proposes_no_length_that_the_model_cannot_take(work, plan):
    edit_config(work, max_position_embeddings=16)
    flags = {"init_checkpoint": None, "max_seq_length": 16}
    whole = plan(**flags)
    assert "truncated: the model takes no longer ones" in whole["WARNING"]
    reported = whole["max_seq_length"]  # of pairs, which it does not help
    assert "99 % of the rows have up to 20 tokens, the model takes 16" in reported
    assert "keeps 99 %" not in reported and "--truncation" not in reported
    edit_config(work, max_position_embeddings=8)
    flags |= {"task": "cola", "max_seq_length": 8}
    reported = plan(**flags)["max_seq_length"]
    assert "the model takes 8" in reported and "--truncation=head_tail" in reported
    reported = plan(**flags, truncation="tail")["max_seq_length"]
    assert "the model takes 8" in reported and "head_tail" not in reported


def test_counts_what_is_trained_and_what_it_needs(plan):
    whole = plan()["parameters"]
    total = int(whole.split()[0].replace(",", ""))
    assert f"{total:,} of them trained" in whole
    frozen = plan(freeze_layers="embeddings,0")["parameters"]
    head = 32 * 32 + 32 + 2 * 32 + 2  # pooler and classifier
    assert frozen == f"{total:,} values, {head:,} of them trained"


def test_knows_what_output_dir_holds(resumed, inside):
    """Six steps are done: the rest is planned, and refused with other settings."""
    out = resumed.root / "out"
    before = tree(out)
    flags = {"do_train": True, "plan": True, "num_train_epochs": 2}
    code, _, err = inside(resumed.flags(out, **flags))
    assert code == 0, err
    reported = sections(err)
    assert reported["steps"].startswith(
        "12: 24 rows, 2 epochs; 6 are done (the changes"
    )
    assert " for 6 steps of " in reported["time"]
    code, _, err = inside(resumed.flags(out, seed=1, **flags))
    assert code == 2 and "seed (was 42, is 1)" in err
    assert tree(out) == before


def test_reads_what_it_would_start_from(work, expect_refused):
    expect_refused(work, "nowhere", plan=True, init_checkpoint="nowhere")


@pytest.mark.parametrize("flags", [{"do_train": False, "do_eval": True}])
def test_needs_a_training(work, expect_refused, flags):
    expect_refused(work, "--plan", "--do_train=true", plan=True, **flags)


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
