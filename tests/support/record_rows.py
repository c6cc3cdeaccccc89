"""Records of pretraining, as Google's script and with words alone, and their rows."""

import numpy as np

from bert_mgpu.data import pretraining_records, tfrecord
from bert_mgpu.data.pretraining_records import RecordSchema
from bert_mgpu.data.record_rows import RecordRows
from bert_mgpu.text.masking import Masking

LENGTH, MOST, CLS, SEP, MASK, VOCAB = 24, 4, 2, 3, 4, 61
STATIC = RecordSchema(LENGTH, MOST, VOCAB, segments=2, dynamic=False)
DYNAMIC = RecordSchema(LENGTH, MOST, VOCAB, segments=2, dynamic=True)
MASKING = Masking("token", MASK, VOCAB, probability=0.3, most=MOST)


def padded(values, size):
    return np.concatenate(
        [values, np.zeros(size - len(values), np.asarray(values).dtype)]
    )


def static_record(rng, **changed):
    """As Google's script writes them, with 1 to 4 masked tokens."""
    length, count = int(rng.integers(6, LENGTH + 1)), int(rng.integers(1, MOST + 1))
    ids = rng.integers(5, VOCAB, length)
    ids[0], ids[-1] = CLS, SEP
    places = np.sort(rng.choice(np.arange(1, length - 1), count, replace=False))
    features = {
        "input_ids": padded(ids, LENGTH),
        "input_mask": padded(np.ones(length, int), LENGTH),
        "segment_ids": padded((np.arange(length) > length // 2).astype(int), LENGTH),
        "masked_lm_positions": padded(places, MOST),
        "masked_lm_ids": padded(rng.integers(5, VOCAB, count), MOST),
        "masked_lm_weights": padded(np.ones(count, np.float32), MOST),
        "next_sentence_labels": rng.integers(0, 2, 1),
        **changed,
    }
    return {name: value for name, value in features.items() if value is not None}


def dynamic_record(rng, **changed):
    length = int(rng.integers(6, LENGTH + 1))
    ids = rng.integers(5, VOCAB, length)
    ids[0], ids[-1] = CLS, SEP
    features = {"input_ids": ids, "segment_ids": np.zeros(length, int), **changed}
    return {name: value for name, value in features.items() if value is not None}


def write(path, features):
    path.write_bytes(b"".join(tfrecord.frame(tfrecord.encode(one)) for one in features))
    return str(path)


def rows_of(path, form, cache, **settings):
    index = pretraining_records.index(path, form, False, cache=cache)
    return RecordRows([path], [index], **settings), index
