"""Words of the counter generator, beside its authors' and TensorFlow's."""

import numpy as np
import pytest
import tensorflow as tf

from bert_mgpu.core.rng import philox
from bert_mgpu.core.rng.philox import Purpose, Stream

# Random123, tests/kat_vectors: philox4x32 10, counter, key, words.
KNOWN = [
    (
        *((0, 0, 0, 0), (0, 0)),
        (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8),
    ),
    (
        *((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2),
        (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD),
    ),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


@pytest.mark.parametrize(("counter", "key", "wanted"), KNOWN)
def test_known_answers_of_its_authors(counter, key, wanted):
    arrays = [np.array([word], np.uint64) for word in counter]
    actual = philox.philox4x32(arrays, key[0] | key[1] << 32)
    assert [int(word[0]) for word in actual] == list(wanted)


def tensorflows(stream, count):
    """The first counters of a stream by TensorFlow's Philox."""
    low = (stream.number & 0xFFFFFFFF) << 32
    high = stream.number >> 32 | int(stream.purpose) << 32
    return tf.raw_ops.StatelessRandomUniformFullIntV2(
        shape=[4 * count],
        key=tf.constant([stream.seed], tf.uint64),
        counter=tf.constant([low, high], tf.uint64),
        alg=1,
        dtype=tf.uint32,
    ).numpy()


@pytest.mark.parametrize("seed", [0, 42, 2**63 - 1])
@pytest.mark.parametrize("number", [0, 7, 2**32 - 1, 2**40 + 3])
def test_words_are_those_of_tensorflow(seed, number):
    for purpose in Purpose:
        stream = Stream(seed, purpose, number)
        actual = philox.words(stream, 0, 300)
        assert actual.dtype == np.uint64
        assert np.array_equal(actual, tensorflows(stream, 300))


def test_a_part_of_a_stream_is_that_part():
    stream = Stream(3, Purpose.ROWS, 5)
    whole = philox.words(stream, 0, 100)
    assert np.array_equal(philox.words(stream, 17, 30), whole[4 * 17 : 4 * 47])


@pytest.mark.parametrize("count", [1, 3, 40])
def test_words_of_many_streams_are_those_of_each(count):
    numbers = np.array([0, 7, 2**32 - 1, 2**40 + 3, 2**64 - 1], np.uint64)
    actual = philox.words_of_each(2**63 - 1, Purpose.ADS, numbers, count=count)
    for number, own in zip(numbers.tolist(), actual, strict=True):
        stream = Stream(2**63 - 1, Purpose.ADS, number)
        assert np.array_equal(own, philox.words(stream, 0, count))
    none = philox.words_of_each(1, Purpose.ADS, numbers[:0], count=count)
    assert none.shape == (0, 4 * count)


def test_no_counter_is_one_of_dropout():
    """Whose highest word is a step's, divided by 2^16."""
    assert min(Purpose) >= 2**31 > (2**47 - 1) * 65536 >> 32
