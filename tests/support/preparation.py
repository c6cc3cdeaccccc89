"""Runs of create_pretraining_data.py over a small text, and the records they make."""

import os
import subprocess
import sys

from tests.reference import instance_cases as cases
from tests.support.paths import ROOT

LENGTH, MOST = 32, 5
INT, FLOAT = "int64", "float32"
# As google-research/bert's run_pretraining.py reads them.
FEATURES = {
    "input_ids": ([LENGTH], INT),
    "input_mask": ([LENGTH], INT),
    "segment_ids": ([LENGTH], INT),
    "masked_lm_positions": ([MOST], INT),
    "masked_lm_ids": ([MOST], INT),
    "masked_lm_weights": ([MOST], FLOAT),
    "next_sentence_labels": ([1], INT),
}
MLM = {name: v for name, v in FEATURES.items() if name != "next_sentence_labels"}


def arguments(**changed):
    values = {
        "input_file": "text",
        "output_file": "out.tfrecord",
        "vocab_file": "vocab.txt",
        "max_seq_length": LENGTH,
        "max_predictions_per_seq": MOST,
        "dupe_factor": 2,
        "workers": 1,
        **changed,
    }
    return [
        f"--{name}={str(value).lower() if isinstance(value, bool) else value}"
        for name, value in values.items()
        if value is not None
    ]


def parse(path, features):
    import tensorflow as tf

    spec = {
        name: tf.io.FixedLenFeature(shape, tf.as_dtype(kind))
        for name, (shape, kind) in features.items()
    }
    records = list(tf.data.TFRecordDataset(str(path)).as_numpy_iterator())
    parsed = tf.io.parse_example(records, spec)
    return {name: value.numpy() for name, value in parsed.items()}


def names(path):
    """The features of all records of a file."""
    import tensorflow as tf

    actual = set()
    for record in tf.data.TFRecordDataset(str(path)).as_numpy_iterator():
        actual.add(tuple(sorted(tf.train.Example.FromString(record).features.feature)))
    return actual


def ragged(path, name):
    import tensorflow as tf

    return [
        list(
            tf.train.Example.FromString(record).features.feature[name].int64_list.value
        )
        for record in tf.data.TFRecordDataset(str(path)).as_numpy_iterator()
    ]


def restored(rows):
    """The ids of each row before they were masked, without padding."""
    for i, ids in enumerate(rows["input_ids"]):
        ids = ids.copy()
        masked = rows["masked_lm_weights"][i] > 0
        ids[rows["masked_lm_positions"][i][masked]] = rows["masked_lm_ids"][i][masked]
        yield ids[rows["input_mask"][i] > 0].tolist()


def sentences():
    ids = {token: number for number, token in enumerate(cases.vocabulary())}
    return [[ids[token] for token in s] for d in cases.documents() for s in d]


# A run with blocks of eight documents, each of which takes some time.
DRIVER = """
import functools, signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored by background jobs
from bert_mgpu.cli import create_pretraining_data
from bert_mgpu.data_prep import corpus, parts, prepare
cut = functools.partial(corpus.Cut, least=1)
prepare.Cut = lambda each_line, window: cut(each_line, 8)
parts._PART_BYTES = 1
make = parts.make
def slow(*args, **named):
    time.sleep({seconds})
    make(*args, **named)
if {seconds}:
    parts.make = slow
sys.exit(create_pretraining_data.main())
"""


def start(seconds=0.0, start_new_session=False, **changed):
    return subprocess.Popen(
        [sys.executable, "-c", DRIVER.format(seconds=seconds), *arguments(**changed)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=start_new_session,
    )
