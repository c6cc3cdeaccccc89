"""--plan: tells what a training would do and need, and leaves nothing behind."""

import re

import pytest

from tests.run.conftest import tree


def sections(err):
    """The plan's lines by their heading."""
    found, name = {}, None
    for line in err.splitlines():
        heading, text = line[:15].strip(), line[17:]
        if line.startswith(" ") and line[15:17] == "  ":
            name = heading or name
            found.setdefault(name, []).append(text)
        else:
            name = None
    return {name: " ".join(texts) for name, texts in found.items()}


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
    told = plan(**flags)
    assert told["batch"] == "4 rows x 2 towers = 8 examples a step"
    assert told["steps"] == "9: 24 rows, 3 epochs"
    assert told["learning rate"] == "5e-05 after 0 steps of warm-up"
    _, _, err = inside(tiny.flags(tmp_path / "real", do_train=True, **flags))
    (shares,) = re.findall(r"tokens that are padding: (.*): --padding", err)
    assert told["padding"].startswith(shares)
    assert "steps 1 to 9," in err
    assert "hours" in told["time"] or "minutes" in told["time"] or "sec" in told["time"]


def test_warns_where_rate_and_batch_do_not_fit(plan):
    told = plan(n_gpus=4, train_batch_size=1, learning_rate=2e-4)
    assert "WARNING: above 0.0001" in told["learning rate"]
    assert "WARNING: 4 towers make 4 times the batch" in told["learning rate"]
    told = plan(n_gpus=4, train_batch_size=1, learning_rate=2e-5, lr_scaling="sqrt")
    assert "WARNING" not in told["learning rate"]


def test_proposes_length_and_padding(plan):
    told = plan(max_seq_length=32, padding="max_length")
    assert "32: 0.0% of the rows are truncated" in told["max_seq_length"]
    assert "--max_seq_length=24 keeps 99 %" in told["max_seq_length"]
    assert re.search(r"--padding=\w+ saves \d+% of the tokens", told["padding"])
    told = plan(max_seq_length=16)
    assert "25.0% of the rows are truncated" in told["max_seq_length"]


def test_counts_what_is_trained_and_what_it_needs(plan):
    whole = plan()["parameters"]
    total = int(whole.split()[0].replace(",", ""))
    assert f"{total:,} of them trained" in whole
    frozen = plan(freeze_layers="embeddings,0-1")["parameters"]
    head = 32 * 32 + 32 + 2 * 32 + 2  # pooler and classifier
    assert frozen == f"{total:,} values, {head:,} of them trained"


def test_knows_what_output_dir_holds(resumed, inside):
    """Six steps are done: the rest is planned, and refused with other settings."""
    out = resumed.root / "out"
    before = tree(out)
    flags = {"do_train": True, "plan": True, "num_train_epochs": 2}
    code, _, err = inside(resumed.flags(out, **flags))
    assert code == 0, err
    told = sections(err)
    assert told["steps"] == "12: 24 rows, 2 epochs; 6 are done"
    assert " for 6 steps of " in told["time"]
    code, _, err = inside(resumed.flags(out, seed=1, **flags))
    assert code == 2 and "seed (was 42, is 1)" in err
    assert tree(out) == before


def test_reads_what_it_would_start_from(work, expect_refused):
    expect_refused(work, "nowhere", plan=True, init_checkpoint="nowhere")


@pytest.mark.parametrize("flags", [{"do_train": False, "do_eval": True}])
def test_needs_a_training(work, expect_refused, flags):
    expect_refused(work, "--plan", "--do_train=true", plan=True, **flags)
