"""Rewriting is learnt; towers, paddings and resumes change nothing."""

import json

import numpy as np

from tests.support import rewriting
from tests.support.runs import assert_same_run, resume_halfway


def scores(out):
    lines = (out / "eval_results.txt").read_text().splitlines()
    return {key: float(value) for key, value in (line.split(" = ") for line in lines)}


def test_a_rule_is_learnt_and_applied(rewriter):
    out = rewriter()
    found = scores(out)
    assert found["exact_match"] > 60 and found["edit_f0.5"] > 60
    lines = (out / "predict.txt").read_text().splitlines()
    records = [json.loads(line) for line in (out / "predictions.jsonl").open()]
    rows = [*rewriting.pairs(9, 2)]
    assert len(lines) == len(records) == 9
    right = sum(line == row["target"] for line, row in zip(lines, rows, strict=True))
    assert right >= 6
    for line, row, record in zip(lines, rows, records, strict=True):
        assert record["text"] == line == record["candidates"][0]["text"]
        text = row["source"]
        for start, end, old, new in reversed(record["edits"]):
            assert text[start:end] == old
            text = text[:start] + new + text[end:]
        assert text == line


def test_the_best_weights_and_the_report(rewriter):
    """The scores of copying stand beside, and the worst texts have their edits."""
    out = rewriter(eval_steps=60, num_train_epochs=3, report=True)
    history = [json.loads(line) for line in (out / "evaluations.jsonl").open()]
    best = json.loads((out / "best" / "best.json").read_text())
    assert best["metric"] == "sari" and best["value"] == max(h["sari"] for h in history)
    copied = json.loads((out / "baseline.json").read_text())["dev"]
    assert copied["changed"] == copied["edit_recall"] == 0 < copied["sari"]
    page = (out / "report.html").read_text()
    assert "[-" in page and "{+" in page and "keep_bias" in page
    assert "BLEU: nrefs:1|case:mixed" in page
    assert ">Training</h2>" in page and "loss and examples/s over steps" in page


def test_four_towers_are_one_batch(flags, inside, tmp_path):
    """The same rows and masks, whichever tower has them; losses by all of theirs."""
    losses = []
    for towers, size in ((1, 16), (4, 4)):
        out = tmp_path / str(towers)
        changed = {"n_gpus": towers, "train_batch_size": size, "cpu_devices": 2}
        changed |= {"do_train": True, "log_steps": 1, "max_train_steps": 12}
        code, _, err = inside(flags(out, **changed))
        assert code == 0, err
        assert (
            "WARNING a random masked-word head: what it writes starts from noise"
            in " ".join(err.split())
        )
        lines = [json.loads(line) for line in (out / "metrics.jsonl").open()]
        losses.append([(line["tag_loss"], line["masked_lm_loss"]) for line in lines])
    assert len(losses[0]) > 10
    np.testing.assert_allclose(losses[0][0], losses[1][0], atol=1e-5)
    np.testing.assert_allclose(*losses, atol=2e-4)


def test_a_resume_changes_no_bit(flags, inside, tmp_path):
    """In the middle of an epoch; the masks of all that follows are drawn again."""
    changed = {"do_train": True, "n_gpus": 2, "padding": "pack", "max_train_steps": 40}
    changed["train_batch_size"] = 8  # an epoch has 26 steps
    whole, copy, _ = resume_halfway(inside, flags, tmp_path, 31, **changed)
    assert_same_run(whole, copy)
