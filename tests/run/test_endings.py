"""Runs that cannot go on: out of memory (exit 4), diverged (exit 3)."""

import resource

import pytest

from bert_mgpu.interop import google_ckpt


def test_out_of_memory_says_what_to_do(tiny, tmp_path, script):
    def little_memory():
        resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))

    args = tiny.flags(
        tmp_path,
        do_train=True,
        xla="on",
        train_batch_size=100_000,
        num_train_epochs=10_000,
    )
    code, out, err = script(args, preexec_fn=little_memory)
    assert code == 4, err
    assert "Traceback" not in err
    last = err.splitlines()[-1]
    assert last.startswith("error: Out of memory while trying to allocate")
    assert "--train_batch_size" in last and "--gradient_accumulation_steps" in last


@pytest.mark.parametrize("save_every", [1, 1000])
def test_diverged_names_the_step_and_saves_nothing_of_it(
    tiny, tmp_path, inside, save_every
):
    args = tiny.flags(
        tmp_path,
        do_train=True,
        learning_rate=1e30,
        warmup_proportion=0.0,
        num_train_epochs=5,
        save_checkpoints_steps=save_every,
    )
    code, _, err = inside(args)
    assert code == 3
    last = err.splitlines()[-1]
    assert last.startswith("error: step 2: loss nan")
    assert "--learning_rate" in last
    saved = sorted(path.stem for path in tmp_path.glob("model.ckpt-*.index"))
    assert saved == (["model.ckpt-1"] if save_every == 1 else [])
    for path in saved:
        assert google_ckpt.read(tmp_path / path)["global_step"] == 1
