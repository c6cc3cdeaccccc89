"""Files of vectors: what numpy and json read from them, block by block."""

import json

import numpy as np
import pytest

from bert_mgpu.core.rows import Ragged
from bert_mgpu.evaluation import feature_files
from bert_mgpu.evaluation.feature_files import FeatureBlock, FeatureForm

VOCAB = ["[PAD]", "[CLS]", "[SEP]", "好", "##word", "\u2028"]
LENGTHS = [3, 2, 5, 4]
ROUNDED = [0.1234565, -1.5e-6, 4e-7, -4e-7, 2.5e-6, 3.0, -12345.678, 0.0]


def blocks(shape, pooled=False, sizes=(1, 3)):
    """The same lines in blocks of these sizes."""
    rng, first = np.random.default_rng(5), 0
    for size in sizes:
        lengths = LENGTHS[first : first + size]
        ids = Ragged.from_rows([rng.integers(1, 6, n).tolist() for n in lengths])
        values = rng.normal(0, 1, (size if pooled else sum(lengths), *shape))
        values = values.astype("f")
        yield FeatureBlock(
            first, ids, values if pooled else Ragged(values, ids.offsets)
        )
        first += size


def written(path, shape, pooled=False, dtype="float32"):
    form = FeatureForm([-1, 0][: shape[0]], shape, VOCAB, dtype)
    made = [*blocks(shape, pooled)]
    with feature_files.writer(str(path), form) as write:
        assert all(write(block) for block in made)
        assert not path.exists()
    assert [*path.parent.iterdir()] == [path]  # and nothing else is left
    return made


@pytest.mark.parametrize(
    ("dtype", "name"),
    [("float32", "v.npy"), ("float16", "v.npy"), ("float32", "V.NPY")],
)
def test_npy_holds_a_vector_for_each_line(tmp_path, dtype, name):
    made = written(tmp_path / name, (6,), pooled=True, dtype=dtype)
    actual = np.load(tmp_path / name, mmap_mode="r", allow_pickle=False)
    wanted = np.concatenate([block.values for block in made]).astype(dtype)
    assert actual.dtype == dtype
    np.testing.assert_array_equal(actual, wanted)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_npz_holds_vectors_of_tokens(tmp_path, dtype):
    made = written(tmp_path / "v.npz", (2, 6), dtype=dtype)
    with np.load(tmp_path / "v.npz", allow_pickle=False) as actual:
        arrays = dict(actual)
    assert {*arrays} == {"offsets", "tokens", "values"}
    np.testing.assert_array_equal(arrays["offsets"], np.cumsum([0, *LENGTHS]))
    ids = np.concatenate([block.token_ids.values for block in made])
    assert arrays["tokens"].tolist() == [VOCAB[number] for number in ids]
    wanted = np.concatenate([block.values.values for block in made]).astype(dtype)
    assert arrays["values"].dtype == dtype
    np.testing.assert_array_equal(arrays["values"], wanted)


def test_json_lines_hold_the_tokens_by_line(tmp_path):
    made = written(tmp_path / "v.jsonl", (2, 6))
    lines = [json.loads(line) for line in (tmp_path / "v.jsonl").open()]
    assert [line["linex_index"] for line in lines] == [0, 1, 2, 3]
    ids = [
        block.token_ids.row(n) for block in made for n in range(len(block[1][1]) - 1)
    ]
    for line, own in zip(lines, ids, strict=True):
        tokens = [feature["token"] for feature in line["features"]]
        assert tokens == [VOCAB[number] for number in own]
        layers = [[one["index"] for one in f["layers"]] for f in line["features"]]
        assert layers == [[-1, 0]] * len(own)
    values = np.concatenate([block.values.values for block in made])
    actual = [
        [one["values"] for one in feature["layers"]]
        for line in lines
        for feature in line["features"]
    ]
    assert actual == [
        [[round(float(v), 6) for v in layer] for layer in token] for token in values
    ]


def test_numbers_are_written_as_by_googles_line():
    """json.dumps(round(float(x), 6)), of float32."""
    rng = np.random.default_rng(1)
    values = np.concatenate(
        [
            np.array(ROUNDED, "f"),
            rng.normal(0, 1, 2000).astype("f"),
            (rng.integers(-(10**7), 10**7, 2000) / 2**21).astype("f"),  # ties
            rng.normal(0, 1e-5, 2000).astype("f"),
        ]
    )
    form = FeatureForm([-1], (len(values),), VOCAB, "float32")
    block = FeatureBlock(0, Ragged.from_rows([[1]]), values[None])
    (line,) = feature_files.json_lines(block, form)
    wanted = [round(float(x), 6) for x in values]
    assert line == json.dumps({"linex_index": 0, "values": wanted}) + "\n"


@pytest.mark.parametrize("name", ["v.npy", "v.npz", "v.jsonl", "v"])
def test_a_file_is_whole_or_the_old_one(tmp_path, name):
    path = tmp_path / name
    path.write_text("old")
    pooled = name == "v.npy"
    shape = (6,) if pooled else (2, 6)
    form = FeatureForm([-1, 0], shape, VOCAB, "float32")

    def stopped():
        with feature_files.writer(str(path), form) as write:
            write(next(blocks(shape, pooled)))
            raise KeyError

    with pytest.raises(KeyError):
        stopped()
    assert path.read_text() == "old" and [*tmp_path.iterdir()] == [path]
