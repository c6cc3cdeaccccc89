"""Records of the tiny model's vocabulary, and the scores that a run wrote."""

import numpy as np

from bert_mgpu.data import tfrecord
from tests.support.tiny import VOCAB

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


SCORES = [
    *("global_step", "loss", "masked_lm_accuracy", "masked_lm_loss"),
    *("next_sentence_accuracy", "next_sentence_loss", "perplexity"),
]


def lines_of(path):
    return path.read_text().splitlines()


def scores_of(output_dir):
    path = output_dir / "eval_results.txt"
    return dict(line.split(" = ") for line in lines_of(path))
