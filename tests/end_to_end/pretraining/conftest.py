"""Records of a tiny model, and runs of run_pretraining_mgpu.py over them."""

import functools

import pytest

from tests.support.pretraining import LENGTH, MOST, records


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A folder for each kind of records; `both` is in two files."""
    root = tmp_path_factory.mktemp("records")
    kinds = {
        "both": {},
        "words": {"follows": False},
        "unmasked": {"masked": False},
        "single": {"masked": False, "follows": False, "pairs": False},
    }
    for name, kind in kinds.items():
        (root / name).mkdir()
        made = list(records(**kind))
        (root / name / "a.tfrecord").write_bytes(b"".join(made[:25]))
        (root / name / "b.tfrecord").write_bytes(b"".join(made[25:]))
        (root / name / "note.txt").write_text("no records")
    return root


@pytest.fixture
def flags(tiny, data):
    """flags(output_dir, kind, **changed) -> a command line of 12 steps of 2 towers."""

    def make(output_dir, kind="both", **changed):
        values = {
            "input_file": data / kind,
            "vocab_file": tiny.model / "vocab.txt",
            "bert_config_file": tiny.model / "bert_config.json",
            "init_checkpoint": tiny.model / "bert_model.ckpt",
            "output_dir": output_dir,
            "do_train": True,
            "max_seq_length": LENGTH,
            "max_predictions_per_seq": MOST,
            "num_train_steps": 12,
            "num_warmup_steps": 2,
            "train_batch_size": 4,
            "n_gpus": 2,
            "learning_rate": 1e-3,
            "dynamic_masking": kind in ("unmasked", "single") or None,
            "xla": "off",
            **changed,
        }
        return [
            f"--{name}={str(value).lower() if isinstance(value, bool) else value}"
            for name, value in values.items()
            if value is not None
        ]

    return make


@pytest.fixture
def pretrain(started):
    """pretrain(flags) -> (exit code, stdout, stderr), in this process."""
    from bert_mgpu.cli import run_pretraining

    return functools.partial(started, run_pretraining.main)
