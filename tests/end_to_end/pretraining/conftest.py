"""Records of a tiny model, and runs of run_pretraining_mgpu.py over them."""

import functools

import numpy as np
import pytest

from bert_mgpu.data import tfrecord
from tests.conftest import VOCAB

LENGTH, MOST, ROWS = 16, 3, 40
CLS, SEP = VOCAB.index("[CLS]"), VOCAB.index("[SEP]")


def padded(values, size):
    return np.concatenate(
        [values, np.zeros(size - len(values), np.asarray(values).dtype)]
    )


def records(masked=True, follows=True, pairs=True, rows=ROWS, most=MOST):
    """most: masks of a row; with 0 it has places for them all the same."""
    rng = np.random.default_rng(11)
    for _ in range(rows):
        length = int(rng.integers(6, LENGTH + 1))
        ids = rng.integers(5, len(VOCAB), length)
        ids[0], ids[-1] = CLS, SEP
        segments = ((np.arange(length) > length // 3) & pairs).astype(int)
        features = {"input_ids": ids, "segment_ids": segments}
        if masked:
            count = int(rng.integers(min(1, most), most + 1))
            places = np.sort(rng.choice(np.arange(1, length - 1), count, False))
            features = {name: padded(v, LENGTH) for name, v in features.items()}
            features["input_mask"] = padded(np.ones(length, int), LENGTH)
            features["masked_lm_positions"] = padded(places, MOST)
            features["masked_lm_ids"] = padded(ids[places], MOST)
            features["masked_lm_weights"] = padded(np.ones(count, np.float32), MOST)
            features["input_ids"][places] = VOCAB.index("[MASK]")
        if follows:
            features["next_sentence_labels"] = rng.integers(0, 2, 1)
        yield tfrecord.frame(tfrecord.encode(features))


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

    return functools.partial(started, run_pretraining.run)


SCORES = [
    *("global_step", "loss", "masked_lm_accuracy", "masked_lm_loss"),
    *("next_sentence_accuracy", "next_sentence_loss", "perplexity"),
]


def lines_of(path):
    return path.read_text().splitlines()


def scores_of(output_dir):
    path = output_dir / "eval_results.txt"
    return dict(line.split(" = ") for line in lines_of(path))
