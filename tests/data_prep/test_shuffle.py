"""Every order of all rows is as likely, and no row is lost."""

import collections
import io
import random

import numpy as np
import tensorflow as tf

from bert_mgpu.data import tfrecord
from bert_mgpu.data_prep import shuffle


def test_every_order_is_as_likely(tmp_path):
    """Runs of one 0, two 1 and three 2, in two files: 60 orders."""
    rng = np.random.default_rng(1)
    one, two = tmp_path / "one", tmp_path / "two"
    size = len(tfrecord.frame(b"0"))
    one.write_bytes(tfrecord.frame(b"0"))
    two.write_bytes(b"".join(map(tfrecord.frame, (b"1", b"1", b"2", b"2", b"2"))))
    runs = [
        shuffle.ShuffledRun(one, 0, size, rows=1),
        shuffle.ShuffledRun(two, 0, 2 * size, rows=2),
        shuffle.ShuffledRun(two, 2 * size, 3 * size, rows=3),
    ]
    actual = collections.Counter()
    for _ in range(1200):
        file = io.BytesIO()
        assert shuffle.merge(runs, [file], rng, advance=lambda size: None) == [6]
        actual[file.getvalue()[tfrecord.HEADER :: size]] += 1
    assert len(actual) == 60
    # Chi-squared with 59 degrees of freedom: mean 59, variance 118.
    deviations = np.array(list(actual.values())) - 20
    assert abs((deviations**2 / 20).sum() - 59) < 4 * 118**0.5


def test_runs_hold_all_rows_in_random_order(tmp_path, monkeypatch):
    frames = [
        tfrecord.frame(b"%d" % n) for n in random.Random(1).sample(range(1000), 1000)
    ]
    rng = np.random.default_rng(1)
    runs = shuffle.write_runs(tmp_path / "a", frames, rng, most=len(frames[0]) * 300)
    assert len(runs) == 4 and sum(rows for *_, rows in runs) == 1000
    assert runs[0][2] >= 300
    content = (tmp_path / "a").read_bytes()
    assert content != b"".join(frames)
    made = [shuffle.ShuffledRun(tmp_path / "a", *run) for run in runs]
    monkeypatch.setattr(shuffle, "_DRAWS", 7)
    files = [open(tmp_path / name, "wb") for name in "bcd"]  # noqa: SIM115
    written = []
    counts = shuffle.merge(made, files, rng, advance=written.append)
    for file in files:
        file.close()
    assert counts == [334, 333, 333] and sum(written) == len(content)
    actual = [
        [
            int(r)
            for r in tf.data.TFRecordDataset(str(tmp_path / name)).as_numpy_iterator()
        ]
        for name in "bcd"
    ]
    assert list(map(len, actual)) == counts
    assert sorted(sum(actual, [])) == list(range(1000))


def test_small_buffers_and_more_rows_than_numpy_draws_from(tmp_path, monkeypatch):
    frames = [tfrecord.frame(b"x" * n) for n in range(400)]
    rng = np.random.default_rng(1)
    runs = shuffle.write_runs(tmp_path / "a", frames, rng, most=9000)
    made = [shuffle.ShuffledRun(tmp_path / "a", *run) for run in runs]
    monkeypatch.setattr(shuffle, "_BUFFERS", 0)
    monkeypatch.setattr(shuffle, "_LEAST_BUFFER", 20)
    monkeypatch.setattr(shuffle, "_MOST_ROWS", 50)
    monkeypatch.setattr(shuffle, "_DRAWS", 10)
    file = io.BytesIO()
    assert shuffle.merge(made, [file], rng, advance=lambda size: None) == [400]
    (tmp_path / "b").write_bytes(file.getvalue())
    assert sorted(tfrecord.scan(tmp_path / "b").sizes) == list(range(400))
