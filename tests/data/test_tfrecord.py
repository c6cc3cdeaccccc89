"""Record files against TensorFlow's own readers and writers, and every damage."""

import numpy as np
import pytest
import tensorflow as tf

from bert_mgpu.core.errors import UserError
from bert_mgpu.core.rows import Ragged
from bert_mgpu.data import tfrecord

ROW = {
    "input_ids": np.array([101, 0, 127, 128, 16383, 16384, 21127, 102], np.int32),
    "masked_lm_weights": np.array([1.0, 0.0, 0.5], np.float32),
    "next_sentence_labels": np.array([1]),
}
RECORDS = [b"first record", b"", b"\0\xff" * 30]


def example(features):
    """As Google's script makes it."""
    lists = {
        name: tf.train.Feature(float_list=tf.train.FloatList(value=values))
        if values.dtype.kind == "f"
        else tf.train.Feature(int64_list=tf.train.Int64List(value=values))
        for name, values in features.items()
    }
    return tf.train.Example(features=tf.train.Features(feature=lists))


def write(path, records):
    path.write_bytes(b"".join(map(tfrecord.frame, records)))


def read(path, skip_bad=False):
    index = tfrecord.scan(path, skip_bad)
    with open(path, "rb") as file:
        actual = [
            tfrecord.read(file, offset, size)
            for offset, size in zip(
                index.offsets.tolist(), index.sizes.tolist(), strict=True
            )
        ]
    return actual, index.bad


@pytest.mark.parametrize(
    "features",
    [
        ROW,
        {"none": np.array([], np.int64), "no_floats": np.array([], np.float32)},
        {"signs": np.array([-1, 0, 1, -(2**63), 2**63 - 1])},
        {"sizes": np.array([2 ** (7 * i) - d for i in range(1, 9) for d in (1, 0)])},
        {"b" * 200: np.arange(300), "a": np.arange(40_000)},
        {"doubles": np.array([1e-40, 0.1, -np.inf])},
    ],
    ids=lambda features: ",".join(features)[:20],
)
def test_bytes_are_protobufs_own(features):
    expected = example(features).SerializeToString(deterministic=True)
    assert tfrecord.encode(features) == expected


def test_rows_together_are_rows_alone():
    rng = np.random.default_rng(0)
    lengths = [3, 0, 300, 1]
    ids = [rng.integers(0, 2 ** rng.integers(1, 40), n) for n in lengths]
    weights = [rng.random(n).astype(np.float32) for n in lengths]
    columns = {
        name: Ragged(np.concatenate(rows), np.cumsum([0, *lengths]))
        for name, rows in {"ids": ids, "weights": weights}.items()
    }
    expected = [
        example({"ids": a, "weights": b}).SerializeToString(deterministic=True)
        for a, b in zip(ids, weights, strict=True)
    ]
    assert tfrecord.encode_rows(columns) == expected


def test_tensorflow_reads_ours(tmp_path):
    other = {**ROW, "input_ids": ROW["input_ids"] + 1}
    write(tmp_path / "file", [tfrecord.encode(ROW), tfrecord.encode(other)])
    spec = {
        "input_ids": tf.io.FixedLenFeature([8], tf.int64),
        "masked_lm_weights": tf.io.FixedLenFeature([3], tf.float32),
        "next_sentence_labels": tf.io.FixedLenFeature([1], tf.int64),
    }
    records = list(tf.data.TFRecordDataset(str(tmp_path / "file")))
    parsed = tf.io.parse_example(records, spec)
    for name, (first, second) in {
        name: (values, other[name]) for name, values in ROW.items()
    }.items():
        np.testing.assert_array_equal(parsed[name].numpy(), [first, second])


def test_we_read_tensorflows(tmp_path):
    with tf.io.TFRecordWriter(str(tmp_path / "file")) as writer:
        for record in RECORDS:
            writer.write(record)
    assert read(tmp_path / "file") == (RECORDS, [])
    ours = b"".join(map(tfrecord.frame, RECORDS))
    assert ours == (tmp_path / "file").read_bytes()


def test_an_empty_file_has_no_records(tmp_path):
    (tmp_path / "file").touch()
    assert read(tmp_path / "file") == ([], [])


def starts():
    """Where each record begins, and where the file ends."""
    sizes = [tfrecord.HEADER + len(r) + tfrecord.FOOTER for r in RECORDS]
    return np.cumsum([0, *sizes]).tolist()


@pytest.mark.parametrize("bit", [0, 7])
def test_every_flipped_byte_is_found(tmp_path, bit):
    path = tmp_path / "file"
    whole = b"".join(map(tfrecord.frame, RECORDS))
    begins = starts()
    for at in range(len(whole)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1 << bit]) + whole[at + 1 :])
        number = sum(begin <= at for begin in begins) - 1
        place = f"{path} at byte {begins[number]}: "
        with pytest.raises(UserError, match="--skip_bad_records=true") as caught:
            tfrecord.scan(path)
        assert str(caught.value).startswith(place)
        actual, bad = read(path, skip_bad=True)
        in_head = at - begins[number] < tfrecord.HEADER
        rest = [] if in_head else RECORDS[number + 1 :]
        assert actual == RECORDS[:number] + rest
        assert len(bad) == 1 and bad[0].startswith(place)
        if in_head:
            assert f"the last {len(whole) - begins[number]} bytes" in bad[0]


def test_every_cut_is_found(tmp_path):
    path = tmp_path / "file"
    whole = b"".join(map(tfrecord.frame, RECORDS))
    begins = starts()
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        number = sum(begin <= size for begin in begins) - 1
        if size == begins[number]:  # as if it had been written so
            assert read(path) == (RECORDS[:number], [])
            continue
        with pytest.raises(UserError, match=f"at byte {begins[number]}: truncated"):
            tfrecord.scan(path)
        actual, bad = read(path, skip_bad=True)
        assert actual == RECORDS[:number]
        assert f"the last {size - begins[number]} bytes of the file are lost" in bad[0]


def test_what_is_no_record_file_is_refused(tmp_path):
    (tmp_path / "corpus.txt").write_text("This is a text, not a record file.\n")
    with pytest.raises(UserError, match=r"corpus\.txt at byte 0: not a TFRecord file"):
        tfrecord.scan(tmp_path / "corpus.txt")
    with pytest.raises(UserError, match="no such file"):
        tfrecord.scan(tmp_path / "nothing")


def test_a_file_that_shrinks_while_it_is_read_is_told(tmp_path):
    write(tmp_path / "file", RECORDS)
    index = tfrecord.scan(tmp_path / "file")
    with open(tmp_path / "file", "r+b") as file:
        file.truncate(index.offsets[2] + 5)
        with pytest.raises(UserError, match=r"file at byte \d+: the record of 60"):
            tfrecord.read(file, int(index.offsets[2]), int(index.sizes[2]))
