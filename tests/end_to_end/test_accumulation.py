"""--gradient_accumulation_steps end to end: turns are towers that take turns."""

from bert_mgpu.checkpoints import google_read
from tests.support.runs import assert_same_run, keep_only


def test_turns_and_towers_are_one_run(tiny, tmp_path, inside):
    """2 towers, then 1 tower that takes 2 turns: the same bits, resumed half-way."""
    flags = {"do_train": True, "train_batch_size": 2, "num_train_epochs": 4}
    straight, changed = tmp_path / "straight", tmp_path / "changed"
    code, _, err = inside(tiny.flags(straight, n_gpus=2, **flags))
    assert code == 0 and "2 examples x 2 towers = 4 per step" in err
    turns = {"gradient_accumulation_steps": 2, "save_checkpoints_steps": 7}
    assert inside(tiny.flags(changed, **turns, **flags))[0] == 0
    keep_only(changed, 7)
    code, _, err = inside(tiny.flags(changed, n_gpus=2, **flags))
    assert code == 0 and "resuming  from" in err and "step 7" in err
    # int(24 rows / (2 x 2) x 4 epochs)
    assert google_read.read(straight)["global_step"] == 24
    assert_same_run(straight, changed)


def test_effective_batch_is_told(tiny, tmp_path, inside):
    flags = {"train_batch_size": 2, "n_gpus": 3, "gradient_accumulation_steps": 2}
    code, _, err = inside(tiny.flags(tmp_path / "out", do_train=True, **flags))
    assert code == 0, err
    reported = "2 examples x 3 towers x 2 accumulation steps = 12 per step"
    assert f"batch  {reported}" in err
