"""The feature cache: never stale, never half, rebuilt where it is damaged."""

import os
import stat

import numpy as np
import pytest

from bert_mgpu.core.errors import UserError
from bert_mgpu.core.rows import Features, Ragged
from bert_mgpu.data import cache


def make_features(value=5):
    return Features(
        {"input_ids": Ragged.from_rows([[value], [6, 7], []])},
        {"label_ids": np.array([1, 0, 2], np.int32)},
        np.array([1, 2, 4]),
        notes={"rows": 3, "truncated": 0},
    )


def assert_equal(one, other):
    for name, column in one.ragged.items():
        assert np.array_equal(column.values, other.ragged[name].values)
        assert np.array_equal(column.offsets, other.ragged[name].offsets)
    assert np.array_equal(one.dense["label_ids"], other.dense["label_ids"])
    assert np.array_equal(one.lines, other.lines)
    assert one.notes == other.notes


class Counting:
    def __init__(self):
        self.calls = 0

    def __call__(self):
        self.calls += 1
        return make_features()


def cached(directory, name, parts, make):
    def tensors():
        features = make()
        return cache.to_tensors(features), features.notes

    return cache.from_tensors(*cache.cached(directory, name, parts, make=tensors))


PARTS = {"data": "a", "vocab": "b", "max_seq_length": 128, "labels": ["x", "y"]}


def test_found_again_unchanged(tmp_path):
    make = Counting()
    first = cached(tmp_path, "train", PARTS, make)
    second = cached(tmp_path, "train", dict(PARTS), make)
    assert make.calls == 1 and len(list(tmp_path.iterdir())) == 1
    assert_equal(first, second)


@pytest.mark.parametrize("part", [1, 5, 100])
def test_tensors_are_read_in_parts(tmp_path, monkeypatch, part):
    monkeypatch.setattr(cache, "_PART", part)
    rng = np.random.default_rng(1)
    tensors = {
        "long": rng.integers(0, 9, 23),
        "wide": rng.random((7, 2, 3), np.float32),
        "none": np.zeros((0, 4), np.int32),
        "one": np.array(3),
    }
    made = [cache.cached(tmp_path, "train", PARTS, make=lambda: (tensors, {}))]
    made.append(cache.cached(tmp_path, "train", PARTS, make=None))
    for found, _ in made:
        assert {*found} == {*tensors}
        for name, value in tensors.items():
            assert found[name].dtype == value.dtype
            assert np.array_equal(found[name], value)


class Slice:
    """A tensor of a file that notes how many values are read at once."""

    def __init__(self, values):
        self.values, self.sizes = values, []

    def get_slice(self, name):
        return self

    def get_shape(self):
        return [*self.values.shape]

    def __getitem__(self, part):
        self.sizes.append(self.values[part].size)
        return self.values[part]


@pytest.mark.parametrize("shape", [(1000,), (100, 3), (20, 5, 7)])
def test_no_part_is_large(monkeypatch, shape):
    monkeypatch.setattr(cache, "_PART", 40)
    file = Slice(np.arange(np.prod(shape)).reshape(shape))
    assert np.array_equal(cache._tensor(file, "x"), file.values)
    assert max(file.sizes) <= 40


@pytest.mark.parametrize("name", PARTS)
def test_any_change_makes_it_anew(tmp_path, name):
    make = Counting()
    cached(tmp_path, "train", PARTS, make)
    cached(tmp_path, "train", PARTS | {name: "changed"}, make)
    assert make.calls == 2


@pytest.mark.parametrize("damage", ["truncate", "empty", "header"])
def test_damaged_file_is_made_anew(tmp_path, damage):
    make = Counting()
    cached(tmp_path, "train", PARTS, make)
    (file,) = tmp_path.iterdir()
    content = bytearray(file.read_bytes())
    if damage == "truncate":
        del content[len(content) // 2 :]
    elif damage == "empty":
        content.clear()
    else:
        content[3] = 0xFF
    file.write_bytes(content)
    again = cached(tmp_path, "train", PARTS, make)
    assert make.calls == 2
    assert_equal(again, make_features())


def test_flipped_bits_are_found(tmp_path):
    """A cache on a bad disk must not train on other words."""
    make = Counting()
    cached(tmp_path, "train", PARTS, make)
    (file,) = tmp_path.iterdir()
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    again = cached(tmp_path, "train", PARTS, make)
    assert_equal(again, make_features())


def test_only_whole_files_have_the_name(tmp_path):
    cached(tmp_path, "train", PARTS, make_features)
    assert [file.suffix for file in tmp_path.iterdir()] == [".safetensors"]


@pytest.mark.parametrize("mask", [0o022, 0o027])
def test_others_may_read_it_where_they_may_read_new_files(tmp_path, mask):
    before = os.umask(mask)
    try:
        cached(tmp_path, "train", PARTS, make_features)
    finally:
        os.umask(before)
    (file,) = tmp_path.iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o666 & ~mask


def test_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cache"):
        cached(tmp_path / "file", "train", PARTS, make_features)


@pytest.mark.parametrize(("size", "told"), [(9_999_999, False), (30_000_000, True)])
def test_a_large_file_is_announced_before_it_is_read(tmp_path, capsys, size, told):
    source = tmp_path / "train.tsv"
    with source.open("wb") as file:
        file.truncate(size)
    said = []

    def make():
        said.append(capsys.readouterr().err)
        return cache.to_tensors(make_features()), {}

    for _ in range(2):
        cache.cached(tmp_path / "cache", "train", PARTS, make=make, source=source)
    (before,) = said  # the second time it is known
    assert ("train.tsv (30 MB): some 15 seconds, the first time" in before) == told
    assert capsys.readouterr().err == ""


def test_length_notes_against_numpy():
    lengths = np.array([3, 5, 5, 9, 200])
    notes = cache.length_notes(lengths, truncated=1)
    assert notes["rows"] == 5 and notes["truncated"] == 1
    wanted = {str(q): int(np.percentile(lengths, q)) for q in (50, 90, 95, 99, 100)}
    assert notes["length_percentiles"] == wanted
    assert notes["length_quantiles"] == [
        int(np.percentile(lengths, q)) for q in range(101)
    ]
