"""--padding end to end: the same predictions, and training that resumes exactly."""

import json
import shutil

import numpy as np
import pytest

from bert_mgpu.data.batching import POLICIES
from tests.support.marks import rarely
from tests.support.runs import assert_same_run, resume_halfway


@pytest.fixture
def packed_run(trained, tmp_path):
    run = trained(n_gpus=2, num_train_epochs=3, padding="pack")
    return shutil.copytree(run, tmp_path / "packed")


def test_predictions_and_scores_do_not_depend_on_it(tiny, packed_run, inside):
    actual = {}
    for padding in POLICIES:
        flags = {"do_eval": True, "do_predict": True, "padding": padding}
        code, _, err = inside(tiny.flags(packed_run, **flags))
        assert code == 0, err
        scores = (packed_run / "eval_results.txt").read_text().splitlines()
        scores = dict(line.split(" = ") for line in scores)
        shares = np.loadtxt(packed_run / "test_results.tsv")
        classes = (packed_run / "predict.txt").read_text()
        actual[padding] = classes, float(scores["eval_loss"]), shares
    classes, loss, shares = actual["max_length"]
    for other in actual.values():
        assert other[0] == classes
        assert other[1] == pytest.approx(loss, rel=1e-5)
        np.testing.assert_allclose(other[2], shares, atol=1e-5)


def test_the_start_says_how_much_padding_each_policy_has(tiny, tmp_path, inside):
    flags = {"do_train": True, "do_eval": True, "padding": "bucket"}
    code, _, err = inside(tiny.flags(tmp_path / "out", **flags))
    assert code == 0, err
    (line,) = (
        line for line in err.splitlines() if "; padding's share of tokens" in line
    )
    assert "padding  bucket; " in line
    assert all(f"{padding} " in line for padding in POLICIES)
    assert "% padding" in err.split(" dev  ")[1]


@pytest.mark.parametrize(
    "padding", ["bucket", "pack", *rarely("max_length", "longest")]
)
def test_stopped_and_resumed_is_the_straight_run(tiny, tmp_path, inside, padding):
    """Bit for bit, in the middle of an epoch and with dropout."""
    epochs = {"num_train_epochs": 4, "padding": padding, "do_train": True}
    whole, copy, _ = resume_halfway(inside, tiny.flags, tmp_path, 5, **epochs)
    assert_same_run(whole, copy)


def test_a_run_is_resumed_with_its_own_padding_only(tiny, packed_run, inside):
    more = {"do_train": True, "n_gpus": 2, "num_train_epochs": 4}
    code, _, err = inside(tiny.flags(packed_run, padding="longest", **more))
    assert code == 2
    assert "padding (was pack, is longest)" in err
    saved = json.loads((packed_run / "run.json").read_text())
    assert saved["flags"]["padding"] == "pack"
