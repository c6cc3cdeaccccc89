"""Resume is exact: kill -9 at any moment changes no bit of the result."""

import json
import random
import shutil
import signal
import time

import numpy as np
import pytest

from bert_mgpu.checkpoints import google_read
from tests.support import questions
from tests.support.marks import PLAIN_AND_RARELY_XLA, rarely
from tests.support.processes import process

# 600 steps of four towers on two devices, with dropout.
SETTINGS = {"n_gpus": 4, "cpu_devices": 2, "train_batch_size": 1, "log_steps": 1}
SETTINGS |= {"num_train_epochs": 100, "keep_checkpoint_max": 2}
SETTINGS |= {"save_checkpoints_steps": 4}
KILLS, IN_SAVES = 10, 3  # so many at least
MOST_STEPS = 30  # between a start and its kill


def flags(tiny, output_dir, **changed):
    return tiny.flags(output_dir, **{"do_train": True, **SETTINGS, **changed})


def final(output_dir):
    tensors = google_read.read(output_dir)
    del tensors["bert_mgpu/identity"]
    return tensors


def last_step(output_dir):
    return (output_dir / "metrics.jsonl").read_text().count("\n")


def killed(args, output_dir, inside_a_save, rng):
    """Starts the run, kills it after some steps; (did it hit, was it in a save)."""
    metrics, saving = output_dir / "metrics.jsonl", output_dir / ".saving"
    shutil.rmtree(saving, ignore_errors=True)  # of the kill before
    # The lines of metrics.jsonl are its steps; a kill may leave some behind the
    # checkpoint, which the run then makes again.
    before = metrics.stat().st_size if metrics.exists() else 0
    run = process(args)
    while run.poll() is None:
        if metrics.exists() and metrics.stat().st_size != before:
            break
        time.sleep(0.002)
    until = last_step(output_dir) + rng.randint(0, MOST_STEPS)
    while run.poll() is None and last_step(output_dir) < until:
        time.sleep(0.002)
    if inside_a_save:
        while run.poll() is None and not saving.exists():
            pass
    time.sleep(rng.uniform(0.0, 0.01))  # anywhere in a step, or in a save
    hit = run.poll() is None
    run.kill()
    run.communicate()
    return hit, saving.exists()


def assert_same_bits(straight, broken):
    """Of all tensors, and of every loss on the way."""
    wanted, actual = final(straight), final(broken)
    assert wanted.keys() == actual.keys()
    for name, value in wanted.items():
        assert np.array_equal(actual[name], value), name
    lines = (broken / "metrics.jsonl").read_text().splitlines()
    steps = [json.loads(line)["step"] for line in lines]
    assert steps == list(range(1, int(wanted["global_step"]) + 1))
    losses = [json.loads(line)["loss"] for line in lines]
    straight_lines = (straight / "metrics.jsonl").read_text().splitlines()
    assert losses == [json.loads(line)["loss"] for line in straight_lines]


def ended(args, output_dir, number):
    """A run that gets a signal after ten steps -> (exit code, standard error)."""
    metrics, code = output_dir / "metrics.jsonl", 0
    while code == 0:  # it was too quick for us: once more
        shutil.rmtree(output_dir, ignore_errors=True)
        run = process(args)
        while run.poll() is None:
            if metrics.exists() and last_step(output_dir) >= 10:
                break
            time.sleep(0.002)
        run.send_signal(number)
        _, err = run.communicate(timeout=240)
        code = run.returncode
    return code, err


FEW = {**SETTINGS, "num_train_epochs": 10}  # 60 steps


def test_killed_it_ends_with_the_same_bits(tiny, tmp_path, trained, script):
    """Where the towers stand may change when a run goes on."""
    broken = tmp_path / "broken"
    code, err = ended(flags(tiny, broken, **FEW), broken, signal.SIGKILL)
    assert code == -signal.SIGKILL, err
    code, _, err = script(flags(tiny, broken, **{**FEW, "cpu_devices": 4}))
    assert code == 0, err
    assert "resuming  from" in err and "with its weights, optimizer" in err
    assert_same_bits(trained(**FEW), broken)


@pytest.mark.nightly
@pytest.mark.parametrize("kind", ["questions", "long texts"])
def test_rows_of_several_windows_or_segments(tiny, tmp_path, script, kind):
    """Killed, they too end with the same bits."""
    if kind == "questions":
        parts = {"train": questions.small(64, 1), "dev": questions.small(8, 2)}
        folder = questions.write(tmp_path / "data", "squad", parts)
        own = {"data_dir": folder, "max_seq_length": 24, "doc_stride": 8}
        task, own = "squad", {**own, "max_query_length": 4, "num_train_epochs": 4}
    else:
        own = {"max_seq_length": 8, "max_segments": 3, "segment_pooling": "attention"}
        task = "own"
    straight, broken = tmp_path / "straight", tmp_path / "broken"

    def asked(out):
        return tiny.flags(out, task, **{"do_train": True, **FEW, **own})

    code, _, err = script(asked(straight))
    assert code == 0, err
    code, err = ended(asked(broken), broken, signal.SIGKILL)
    assert code == -signal.SIGKILL, err
    code, _, err = script(asked(broken))
    assert code == 0 and "with its weights, optimizer" in err, err
    assert_same_bits(straight, broken)


@pytest.mark.nightly
def test_killed_at_random_it_ends_with_the_same_bits(tiny, tmp_path, script):
    straight, broken = tmp_path / "straight", tmp_path / "broken"
    # Saving less often changes no bit either.
    code, _, err = script(flags(tiny, straight, save_checkpoints_steps=1000))
    assert code == 0, err
    rng = random.Random(20)
    hits, in_saves = 0, 0
    while hits < KILLS or in_saves < IN_SAVES:
        # Where the towers stand may change whenever a run goes on.
        args = flags(tiny, broken, cpu_devices=(2, 1, 4)[hits % 3])
        hit, in_save = killed(args, broken, hits % 2 == 1, rng)
        print(f"killed after step {last_step(broken)}, in a save: {in_save}")
        assert hit, "the run ended before it could be killed: make it longer"
        hits, in_saves = hits + hit, in_saves + in_save
    code, _, err = script(flags(tiny, broken))
    assert code == 0, err
    assert "resuming  from" in err and "with its weights, optimizer" in err
    assert_same_bits(straight, broken)


@pytest.mark.parametrize("xla", PLAIN_AND_RARELY_XLA)
def test_terminated_run_is_saved_and_goes_on(tiny, tmp_path, trained, script, xla):
    """No save was due."""
    same = {**FEW, "xla": "on"} if xla else FEW
    settings, broken = {**same, "save_checkpoints_steps": 1000}, tmp_path / "broken"
    code, err = ended(flags(tiny, broken, **settings), broken, signal.SIGTERM)
    assert code == 75, err
    assert err.splitlines()[-1].startswith("stopped: step ")
    code, _, err = script(flags(tiny, broken, **settings))
    assert code == 0, err
    assert_same_bits(trained(**same), broken)


def test_finished_run_says_so_and_more_epochs_go_on(tiny, tmp_path, inside):
    settings = {"cpu_devices": 1, "num_train_epochs": 1}
    assert inside(flags(tiny, tmp_path, **settings))[0] == 0
    weights = final(tmp_path)
    code, _, err = inside(flags(tiny, tmp_path, **settings))
    assert code == 0
    assert "nothing left to train: step 6 of 6 is done" in err
    assert all(np.array_equal(final(tmp_path)[k], v) for k, v in weights.items())
    code, _, err = inside(flags(tiny, tmp_path, **{**settings, "num_train_epochs": 2}))
    assert code == 0
    assert "training  steps 7 to 12" in err
    assert final(tmp_path)["global_step"] == 12


@pytest.mark.parametrize("damage", ["data", *rarely("index")])
def test_damaged_newest_checkpoint_gives_way_to_the_one_before(
    tiny, tmp_path, inside, damage
):
    settings = {"cpu_devices": 1, "num_train_epochs": 2}
    assert inside(flags(tiny, tmp_path, **settings))[0] == 0
    wanted = final(tmp_path)
    suffix = {"data": ".data-00000-of-00001", "index": ".index"}[damage]
    newest = tmp_path / f"model.ckpt-12{suffix}"
    content = bytearray(newest.read_bytes())
    content[len(content) // 2] ^= 4
    newest.write_bytes(content)
    code, _, err = inside(flags(tiny, tmp_path, **settings))
    assert code == 0, err
    assert "trying the checkpoint before it" in err
    assert "step 8 with" in err
    actual = final(tmp_path)
    assert all(np.array_equal(actual[name], wanted[name]) for name in wanted)
