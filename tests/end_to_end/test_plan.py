"""--plan: tells what a training would do and need, and leaves nothing behind."""

import re

import pytest

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
