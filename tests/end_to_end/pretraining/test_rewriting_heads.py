"""A masked-word head from pretraining to rewriting, and back."""

import numpy as np

from bert_mgpu.checkpoints import google_read
from tests.support import rewriting

HEAD = "cls/predictions/transform/dense/kernel"


def test_what_pretraining_leaves_writes_and_what_rewriting_leaves_is_pretrained(
    tiny, tmp_path, flags, pretrain, inside
):
    code, _, err = pretrain(flags(tmp_path / "words", "words", num_train_steps=2))
    assert code == 0, err
    rewriting.write_task(tmp_path / "data", counts=(16, 4, 4))
    args = tiny.flags(
        tmp_path / "rewriter",
        "mine",
        data_dir=tmp_path / "data",
        init_checkpoint=tmp_path / "words",
        vocab_file=None,
        bert_config_file=None,
        do_train=True,
        max_train_steps=2,
    )
    code, _, err = inside(args)
    assert code == 0, err
    # All but the tags: nothing is said of a random head.
    assert "weights  26 of 28 loaded from" in err, err
    assert "new, initialised at random: output_bias, output_weights" in err
    assert "starts from noise" not in err
    changed = {"init_checkpoint": tmp_path / "rewriter", "num_train_steps": 2}
    code, _, err = pretrain(flags(tmp_path / "again", "words", **changed))
    assert code == 0 and "weights  26 of 28 loaded from" in err, err
    # Which masked words do not need.
    assert "at random: bert/pooler/dense/bias, bert/pooler/dense/kernel\n" in err
    assert "--freeze=^bert/" not in err
    saved = [google_read.read(tmp_path / n)[HEAD] for n in ("words", "rewriter")]
    assert np.abs(saved[0] - saved[1]).max() < 0.1  # two steps apart
