"""What a pretraining says of weights that learn nothing, and of others."""

import pytest


@pytest.mark.parametrize("rate", [1e-9, 3e-3])
def test_a_pretraining_that_learns_nothing_says_so(flags, pretrain, tmp_path, rate):
    few = {"init_checkpoint": None, "learning_rate": rate, "log_steps": 1}
    more = {"num_train_steps": 40, "optimizer": "adamw", "n_gpus": 1}
    code, _, err = pretrain(flags(tmp_path / "out", "words", **few | more))
    assert code == 0, err
    words = " ".join(err.split())
    failed = rate < 1e-4
    assert ("the training loss did not fall: " in words) == failed
    assert ("equal probabilities for all words would have " in words) == failed
    assert ("to try: a higher --learning_rate than 1e-09: " in words) == failed
