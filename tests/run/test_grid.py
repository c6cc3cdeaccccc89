"""Invariant 7, end to end: rows x batch x towers never change the predictions."""

import itertools

import numpy as np
import pytest

ROWS, BATCHES, TOWERS = (1, 2, 7, 13, 40), (1, 4, 9), (1, 3)  # 30 settings


@pytest.fixture(scope="module")
def model(tiny, tmp_path_factory):
    from bert_mgpu import run

    output = tmp_path_factory.mktemp("trained")
    assert run.main(["", *tiny.flags(output, do_train=True)], "usage") == 0
    return output


def lines_to_predict(count):
    """Blank and ragged lines among them: each gives one prediction."""
    words = ["sun joy", "rain loss fear", "", "the of a in it the of", "好 新 的"]
    header = "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String"
    rows = [
        f"?\t1\t2\t{words[i % 5] * (1 + i % 3)}\t{words[i % 3]}" for i in range(count)
    ]
    return "\n".join([header, *rows]) + "\n"


@pytest.mark.parametrize("rows", ROWS)
def test_predictions(tiny, model, tmp_path, inside, rows):
    path = tmp_path / "new.tsv"
    path.write_text(lines_to_predict(rows))
    wanted = None
    for batch, towers in itertools.product(BATCHES, TOWERS):
        args = tiny.flags(
            model,
            vocab_file=None,
            bert_config_file=None,
            init_checkpoint=None,
            do_predict=True,
            predict_file=path,
            predict_batch_size=batch,
            n_gpus=towers,
        )
        code, _, err = inside(args)
        assert code == 0, err
        classes = (model / "predict.txt").read_text().splitlines()
        shares = np.loadtxt(model / "test_results.tsv", ndmin=2)
        assert len(classes) == len(shares) == rows
        assert [str(c) for c in shares.argmax(-1)] == classes
        if wanted is None:
            wanted = shares
        np.testing.assert_allclose(shares, wanted, atol=1e-5)
