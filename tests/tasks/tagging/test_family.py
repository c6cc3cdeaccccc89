"""The loss of a tagger that has read no text, against scipy's entropy."""

import types

import numpy as np
import pytest
import scipy.stats

from bert_mgpu.core.rows import Ragged
from bert_mgpu.tasks.tagging import family


@pytest.mark.parametrize("counts", [[5], [3, 1], [0, 190, 6, 4], [7, 7, 7]])
def test_chance_is_the_entropy_of_the_tags(counts):
    ids = np.repeat(np.arange(len(counts)) + 1, counts)
    rows = [[0, *ids, 0], [0, 0]]  # 0: [CLS], [SEP] and all that has no tag
    features = types.SimpleNamespace(ragged={"tag_ids": Ragged.from_rows(rows)})
    wanted = scipy.stats.entropy(counts)
    assert family._entropy(features) == pytest.approx(wanted, abs=1e-12)
