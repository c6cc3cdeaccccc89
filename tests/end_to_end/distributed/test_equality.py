"""Several processes give what one process gives that has all of their towers."""

import json

import numpy as np
import pytest

from bert_mgpu.checkpoints import google_read
from bert_mgpu.core import tensor_names
from bert_mgpu.distributed import devices
from bert_mgpu.training import precision
from tests.support.marks import rarely
from tests.support.runs import assert_same_run, keep_only
from tests.support.tiny import VOCAB, edit_config, write_vocab

# Of 24 rows, 3 at a time on 4 towers; or 5, so that batches run across epochs' ends.
FLAGS = {"do_train": True, "do_eval": True, "do_predict": True, "log_steps": 1}
FLAGS |= {"num_train_epochs": 27, "train_batch_size": 3, "eval_batch_size": 2}
OUTPUTS = ("predict.txt", "test_results.tsv", "predictions.jsonl", "eval_results.txt")
TOWERS, STEPS = 4, 54


@pytest.fixture(scope="module")
def alone(tiny, tmp_path_factory, script):
    """One process with all the towers, without XLA and with it."""

    def made(name, **flags):
        output = tmp_path_factory.mktemp("alone") / name
        args = tiny.flags(output, **{**FLAGS, "n_gpus": TOWERS, **flags})
        code, _, err = script(args)
        assert code == 0, err
        return output

    return made


def losses(output):
    return [json.loads(line)["loss"] for line in (output / "metrics.jsonl").open()]


def evaluations(output):
    rows = [json.loads(line) for line in (output / "evaluations.jsonl").open()]
    assert [row["step"] for row in rows] == [20, 40, STEPS]
    return [{**row, "seconds": 0} for row in rows]


@pytest.mark.parametrize(
    ("processes", "flags"),
    [
        (2, {"n_gpus": 2}),
        *rarely(
            (4, {"n_gpus": 1, "xla": "on"}),
            (
                2,
                {
                    "n_gpus": 1,
                    "gradient_accumulation_steps": 2,
                    "padding": "pack",
                    "freeze_layers": "0",
                    "train_batch_size": 5,
                    "num_train_epochs": 45,
                },
            ),
        ),
    ],
    ids=["two of two", "four", "two in turn"],
)
def test_the_same_bits(tiny, tmp_path, alone, cluster, processes, flags):
    """Dropout on, more than 50 steps; files of evaluation and prediction as well.

    What is seen on the way is the same, too, and so is what is kept of it.
    """
    flags = {**flags, "eval_steps": 20, "report": True}
    turns = flags.get("gradient_accumulation_steps", 1)
    same = {k: v for k, v in flags.items() if k != "n_gpus"}
    wanted = alone("one", **same, n_gpus=TOWERS // turns)
    output = tmp_path / "several"
    code, out = cluster.run(processes, tiny.flags(output, **{**FLAGS, **flags}))
    assert code == 0, out
    assert google_read.read(output)["global_step"] == STEPS
    assert_same_run(wanted, output)
    assert losses(output) == losses(wanted) and len(losses(output)) == STEPS
    for name in OUTPUTS:
        assert (output / name).read_bytes() == (wanted / name).read_bytes(), name
    assert evaluations(output) == evaluations(wanted)
    assert_same_run(wanted / "best", output / "best")
    assert "naive Bayes" in (output / "report.html").read_text()


@pytest.mark.nightly
def test_the_same_bits_at_the_size_of_real_models(work, cluster, script):
    """Sums of millions of values are made in parts, products as well.

    By their threads: with others the last bits differ.
    """
    size = {"vocab_size": 21_128, "hidden_size": 256, "intermediate_size": 1024}
    edit_config(work, **size, num_attention_heads=4)
    unused = (f"[unused{number}]" for number in range(21_128 - len(VOCAB)))
    write_vocab(work, [*VOCAB, *unused])
    flags = {"do_train": True, "init_checkpoint": None, "log_steps": 1}
    flags |= {"train_batch_size": 3, "num_train_epochs": 8, "save_checkpoints_steps": 4}
    one, several = work.root / "one", work.root / "several"
    threads = {devices.THREADS: str(devices.threads(2))}
    args = work.flags(one, **flags, n_gpus=TOWERS)
    code, _, err = script(args, env=threads)
    assert code == 0, err
    args = work.flags(several, **flags, n_gpus=2)
    code, out = cluster.run(2, args)
    assert code == 0, out
    assert google_read.read(several)["global_step"] == 16
    assert_same_run(one, several)
    assert losses(several) == losses(one)


@pytest.mark.nightly
def test_three_processes_agree_up_to_rounding(tiny, tmp_path, alone, cluster):
    """The tolerance of weights after many steps: 1e-4 of the largest of a tensor."""
    flags = {"train_batch_size": 4, "num_train_epochs": 25}  # 50 steps of 12 rows
    wanted = google_read.read(alone("one", n_gpus=3, **flags))
    output = tmp_path / "several"
    args = tiny.flags(output, **{**FLAGS, "n_gpus": 1, **flags})
    code, out = cluster.run(3, args)
    assert code == 0, out
    actual = google_read.read(output)
    assert actual["global_step"] == 50 and actual.keys() == wanted.keys()
    for name, value in wanted.items():
        if name.startswith("bert/") and "self/key/bias" not in name:
            limit = 1e-4 * np.abs(value).max() + 1e-6
            np.testing.assert_allclose(actual[name], value, 0, limit, err_msg=name)


@pytest.mark.nightly
def test_float16_halves_the_bytes_and_changes_little(
    tiny, tmp_path, alone, cluster, inside
):
    flags = {"num_train_epochs": 2, "do_predict": False}
    flags |= {"save_checkpoints_steps": 2, "keep_checkpoint_max": 0}
    wanted, output = alone("one", **flags), tmp_path / "several"
    flags |= {"n_gpus": 2, "allreduce_dtype": "float16"}
    code, out = cluster.run(2, tiny.flags(output, **{**FLAGS, **flags}))
    assert code == 0, out
    assert losses(output)[0] == losses(wanted)[0]  # before the first update
    assert losses(output)[1:] != losses(wanted)[1:]  # it is rounded
    np.testing.assert_allclose(losses(output), losses(wanted), rtol=2e-3)
    records = [json.loads(line) for line in (output / "metrics.jsonl").open()]
    tensors = google_read.read(output)
    values = sum(v.size for n, v in tensors.items() if n.endswith("/adam_m"))
    assert {one.get("allreduce_bytes") for one in records[1:]} == {2 * values}
    assert all(one["allreduce_seconds"] > 0 for one in records[1:])
    # One process goes on from their checkpoint, and keeps what it says of the scale.
    keep_only(output, 2)
    code, _, err = inside(tiny.flags(output, **{**FLAGS, **flags, "n_gpus": TOWERS}))
    assert code == 0, err
    after = google_read.read(output)
    assert {name: after[name] for name in tensor_names.STATE} == {
        tensor_names.SCALE: precision.FIRST_SCALE,
        tensor_names.GOOD_STEPS: after["global_step"],
        tensor_names.SKIPS: 0,
        tensor_names.SKIPPED: 0,
    }
    np.testing.assert_allclose(losses(output), losses(wanted), rtol=2e-3)
