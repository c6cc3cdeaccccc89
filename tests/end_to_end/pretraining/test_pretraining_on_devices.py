"""Pretraining on several devices whose sums are TensorFlow's own, as those of GPUs."""

import numpy as np
import pytest

from bert_mgpu.checkpoints import google_read
from bert_mgpu.distributed import strategies


@pytest.mark.nightly
@pytest.mark.parametrize("kind", ["both", "unmasked"])
def test_two_losses_of_unequal_weights(tmp_path, flags, pretrain, monkeypatch, kind):
    """Towers have more and fewer masked words; the global weights are the same."""
    asked = {"n_gpus": 4, "train_batch_size": 2, "do_eval": True}
    assert pretrain(flags(tmp_path / "one", kind, **asked))[0] == 0
    monkeypatch.setattr(strategies, "make_strategy", strategies.mirrored)
    code, _, err = pretrain(flags(tmp_path / "four", kind, cpu_devices=4, **asked))
    assert code == 0, err
    wanted = google_read.read(tmp_path / "one")
    actual = google_read.read(tmp_path / "four")
    for name, value in wanted.items():
        if name.startswith(("bert/", "cls/")) and "self/key/bias" not in name:
            limit = 1e-5 * np.abs(value).max()
            np.testing.assert_allclose(actual[name], value, 0, limit, err_msg=name)
