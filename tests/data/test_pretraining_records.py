"""Records on a disk as rows: what is in them, and what is wrong with them."""

import os

import numpy as np
import pytest

from bert_mgpu.core.errors import UserError
from bert_mgpu.data import (
    batching,
    forward_batching,
    pipeline,
    pretraining_records,
    tfrecord,
)
from bert_mgpu.data.dynamic_masking import DynamicMasking
from bert_mgpu.data.record_rows import RecordRows
from tests.support.record_rows import (
    CLS,
    DYNAMIC,
    LENGTH,
    MASKING,
    MOST,
    SEP,
    STATIC,
    dynamic_record,
    rows_of,
    static_record,
    write,
)


@pytest.fixture
def made(tmp_path):
    rng = np.random.default_rng(1)
    features = [static_record(rng) for _ in range(50)]
    return write(tmp_path / "a.tfrecord", features), features


def test_rows_are_the_records_without_their_padding(made, tmp_path):
    path, features = made
    rows, index = rows_of(path, STATIC, tmp_path / "cache")
    assert len(rows) == 50 and index.follows.all() and not index.bad
    numbers = np.array([49, 0, 7, 50 + 7])
    block = rows.take(numbers)
    for place, number in enumerate(numbers % 50):
        wanted = features[number]
        length = int(wanted["input_mask"].sum())
        count = int(wanted["masked_lm_weights"].sum())
        assert (rows.lengths[number], rows.target_counts[number]) == (length, count)
        for name in ("input_ids", "segment_ids"):
            actual = block.ragged[name].row(place)
            assert actual.tolist() == wanted[name][:length].tolist()
        for name, column in block.targets.items():
            assert column.row(place).tolist() == wanted[name][:count].tolist()
        label = block.dense["next_sentence_labels"][place]
        assert label == wanted["next_sentence_labels"][0]


def test_a_batch_of_them_is_googles(made, tmp_path):
    """Padded to max_seq_length, one a row: the very arrays of Google's input_fn."""
    path, features = made
    rows, _ = rows_of(path, STATIC, tmp_path / "cache")
    order = batching.TrainingOrder(
        rows.lengths,
        2,
        4,
        padding="max_length",
        max_length=LENGTH,
        seed=5,
        target_counts=rows.target_counts,
    )
    placement = order.placement(3)
    assert placement.targets == MOST
    batch = pipeline.collate(rows, placement)
    for tower in range(2):
        for row, number in enumerate(placement.numbers[tower, :, 0].tolist()):
            for name, wanted in features[number % 50].items():
                assert batch[name][tower, row].tolist() in (wanted.tolist(), wanted)


@pytest.mark.parametrize("padding", batching.POLICIES)
def test_every_target_points_at_its_token(padding, made, tmp_path):
    """Wherever an example stands: the token there, and no other, is what was masked."""
    path, _ = made
    rows, _ = rows_of(path, STATIC, tmp_path / "cache")
    order = batching.TrainingOrder(
        rows.lengths,
        2,
        6,
        padding=padding,
        max_length=LENGTH,
        seed=5,
        target_counts=rows.target_counts,
    )
    placements = [order.placement(step) for step in range(4)]
    placements += forward_batching.forward_placements(
        rows.lengths,
        2,
        6,
        packs=padding == "pack",
        max_length=LENGTH,
        target_counts=rows.target_counts,
    )
    for placement in placements:
        batch = pipeline.collate(rows, placement)
        numbers = placement.numbers[placement.numbers >= 0]
        used = batch["masked_lm_weights"] > 0
        assert used.sum() == rows.target_counts[numbers % 50].sum()
        at = batch["masked_lm_positions"]
        ids = np.take_along_axis(batch["input_ids"], at, -1)
        mask = np.take_along_axis(batch["input_mask"], at, -1)
        for tower, row in np.ndindex(*used.shape[:2]):
            here = used[tower, row]
            actual = sorted(
                zip(
                    mask[tower, row][here].tolist(),
                    ids[tower, row][here].tolist(),
                    batch["masked_lm_ids"][tower, row][here].tolist(),
                    strict=True,
                )
            )
            wanted = []
            for place, number in enumerate(placement.numbers[tower, row].tolist()):
                if number >= 0:
                    block = rows.take(np.array([number]))
                    tokens = block.ragged["input_ids"].row(0)
                    places, words = (block.targets[n].row(0) for n in block.targets)
                    masked = tokens[places].tolist()
                    wanted += [
                        (place + 1, token, word)
                        for token, word in zip(masked, words.tolist(), strict=True)
                    ]
            assert actual == sorted(wanted)


def test_the_first_rows_are_enough(made, tmp_path):
    path, _ = made
    rows, _ = rows_of(path, STATIC, tmp_path / "cache", most=20)
    assert len(rows) == len(rows.lengths) == len(rows.target_counts) == 20


@pytest.mark.parametrize(
    ("make", "form", "follows"),
    [
        (static_record, STATIC, True),
        (static_record, STATIC, False),
        (dynamic_record, DYNAMIC, True),
        (dynamic_record, DYNAMIC, False),
    ],
    ids=["masks, next", "masks", "drawn, next", "drawn"],
)
def test_a_process_without_rows_has_the_arrays_of_the_others(
    tmp_path, make, form, follows
):
    """As in an evaluation whose last batch has fewer rows than there are towers."""
    rng = np.random.default_rng(5)
    next_label = {"next_sentence_labels": np.array([1]) if follows else None}
    path = write(tmp_path / "a", [make(rng, **next_label) for _ in range(3)])
    masking = DynamicMasking(MASKING, (CLS, SEP), 7) if form.dynamic else None
    rows, _ = rows_of(path, form, tmp_path / "cache", masking=masking)
    (placement,) = forward_batching.forward_placements(
        rows.lengths,
        2,
        4,
        packs=False,
        max_length=LENGTH,
        target_counts=rows.target_counts,
    )
    own, none = (
        pipeline.collate(rows, placement.share(range(tower, tower + 1), 2))
        for tower in range(2)
    )
    assert own["is_real_example"].sum() == 3 and not none["is_real_example"].any()
    assert [*none] == [*own] and "masked_lm_weights" in own
    assert ("next_sentence_labels" in own) == follows
    for name, values in none.items():
        assert (values.shape, values.dtype) == (own[name].shape, own[name].dtype)
        assert not values.any(), name


@pytest.mark.parametrize(
    ("form", "changed", "fragment"),
    [
        (STATIC, {"input_ids": None}, "has no input_ids"),
        (STATIC, {"masked_lm_ids": None}, "pass --dynamic_masking=true"),
        (
            STATIC,
            {n: np.ones(16, int) for n in ("input_ids", "input_mask", "segment_ids")},
            "made with --max_seq_length=16, but the run has 24",
        ),
        (
            STATIC,
            {
                "masked_lm_positions": np.ones(6, int),
                "masked_lm_ids": np.ones(6, int),
                "masked_lm_weights": np.ones(6, np.float32),
            },
            "made with --max_predictions_per_seq=6, but the run has 4",
        ),
        (STATIC, {"segment_ids": np.ones(23, int)}, "segment_ids: its length differs"),
        (
            STATIC,
            {"masked_lm_ids": np.ones(3, int)},
            "masked_lm_ids: its length differs",
        ),
        (STATIC, {"input_ids": np.full(24, 61)}, "not below vocab_size = 61"),
        (STATIC, {"input_ids": np.full(24, -1)}, "not below vocab_size = 61"),
        (STATIC, {"input_ids": np.full(24, 2**40)}, "not below vocab_size = 61"),
        (STATIC, {"segment_ids": np.full(24, 2)}, "not below type_vocab_size = 2"),
        (STATIC, {"masked_lm_positions": np.full(4, 24)}, "not below max_seq_length"),
        (STATIC, {"input_ids": np.ones(24, np.float32)}, "not a pretraining record"),
        (STATIC, {"next_sentence_labels": np.array([2])}, "not below the number of"),
        (STATIC, {"next_sentence_labels": np.array([0, 1])}, "several next_sentence"),
        (STATIC, {"input_mask": np.zeros(24, int)}, "not ones and then zeros"),
        (STATIC, {"input_mask": np.arange(24) % 2}, "not ones and then zeros"),
        (STATIC, {"masked_lm_weights": np.full(4, 0.5, "f")}, "not 0 or 1"),
        (
            STATIC,
            {
                "input_mask": (np.arange(24) < 8).astype(int),
                "masked_lm_positions": np.array([1, 8, 0, 0]),
                "masked_lm_weights": np.array([1, 1, 0, 0], "f"),
            },
            "positions after the last token",
        ),
        (DYNAMIC, {"input_ids": np.ones(25, int)}, "more tokens than"),
        (DYNAMIC, {"masked_lm_positions": np.ones(4, int)}, "it holds masks"),
    ],
    ids=str,
)
def test_wrong_records_are_named(tmp_path, form, changed, fragment):
    rng = np.random.default_rng(4)
    make = dynamic_record if form.dynamic else static_record
    good = [make(rng) for _ in range(3)]
    path = write(tmp_path / "a.tfrecord", [*good, make(rng, **changed)])
    size = len(b"".join(tfrecord.frame(tfrecord.encode(one)) for one in good))
    with pytest.raises(UserError) as caught:
        pretraining_records.index(path, form, False, cache=tmp_path / "cache")
    message = str(caught.value)
    assert message.startswith(f"{path} at byte {size + tfrecord.HEADER}: ")
    assert fragment in message and "\n" not in message
    assert "{{" not in message and "[Op" not in message


def test_damaged_records_are_left_out_where_asked(made, tmp_path):
    path, features = made
    with open(path, "r+b") as file:
        content = bytearray(file.read())
        size = len(tfrecord.frame(tfrecord.encode(features[0])))
        content[size + 40] ^= 1
        file.seek(0)
        file.write(content)
    with pytest.raises(UserError, match=f"at byte {size}: damaged.*skip_bad_records"):
        pretraining_records.index(path, STATIC, False, cache=tmp_path / "cache")
    index = pretraining_records.index(path, STATIC, True, cache=tmp_path / "cache")
    assert len(index.sizes) == 49 and len(index.bad) == 1
    rows = RecordRows([path], [index])
    actual = rows.take(np.array([1])).ragged["input_ids"].row(0)
    assert actual.tolist() == features[2]["input_ids"][: len(actual)].tolist()


def test_a_record_that_changed_is_not_trained_on(made, tmp_path):
    """Even where size and time of the file are as they were."""
    path, _ = made
    rows, _ = rows_of(path, STATIC, tmp_path / "cache")
    about = os.stat(path)
    with open(path, "r+b") as file:
        content = bytearray(file.read())
        content[40] ^= 1
        file.seek(0)
        file.write(content)
    os.utime(path, ns=(about.st_atime_ns, about.st_mtime_ns))
    with pytest.raises(UserError, match="at byte 12: the record of .* has changed"):
        rows.take(np.array([0]))
    rows.take(np.array([1]))


def test_an_index_is_made_once_for_a_file_and_anew_for_another(made, tmp_path):
    path, features = made
    cache = tmp_path / "cache"
    first = pretraining_records.index(path, STATIC, False, cache=cache)
    assert len(list(cache.iterdir())) == 1
    again = pretraining_records.index(path, STATIC, False, cache=cache)
    assert again.content == first.content and len(list(cache.iterdir())) == 1
    write(tmp_path / "a.tfrecord", features[:-1])
    other = pretraining_records.index(path, STATIC, False, cache=cache)
    assert len(other.sizes) == 49 and other.content != first.content
