"""Pretraining by several processes gives what one process with all towers gives."""

import pytest

from bert_mgpu.checkpoints import google_read
from tests.support.processes import PRETRAINING
from tests.support.runs import assert_same_run

STEPS = 50


def test_the_same_bits(flags, data, tmp_path, cluster, script):
    """Both losses, masks drawn anew, unequal numbers of them on the towers; scores.

    Of the last batch that is evaluated, the second process has no row.
    """
    text = tmp_path / "lines.txt"
    text.write_text("sun joy the rain\nloss of fear\nwin\n")
    asked = {"num_train_steps": STEPS, "train_batch_size": 3, "do_eval": True}
    asked |= {"do_predict": True, "predict_file": text, "padding": "pack"}
    asked |= {"eval_batch_size": 7}
    one, several = tmp_path / "one", tmp_path / "several"
    args = flags(one, "unmasked", **asked, n_gpus=4)
    code, _, err = script(args, program=PRETRAINING)
    assert code == 0, err
    args = flags(several, "unmasked", **asked, n_gpus=2)
    code, out = cluster.run(2, args, program=PRETRAINING)
    assert code == 0, out
    assert google_read.read(several)["global_step"] == STEPS
    assert_same_run(one, several)
    for name in ("eval_results.txt", "test_results.json", "predictions.jsonl"):
        assert (several / name).read_bytes() == (one / name).read_bytes(), name
    assert "40 rows of" in out and "fewer files" not in out


@pytest.mark.nightly
def test_fewer_files_than_processes_are_shared_by_rows(flags, tmp_path, cluster):
    """Two files for three processes, whose towers get unequal numbers of rows."""
    asked = {"num_train_steps": 4, "n_gpus": 1, "train_batch_size": 3}
    args = flags(tmp_path / "out", "both", **asked)
    code, out = cluster.run(3, args, program=PRETRAINING)
    assert code == 0 and "fewer files than 3 processes" in out, out
