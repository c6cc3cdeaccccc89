"""Who gets the hidden states of a pass."""

import pytest

from bert_mgpu.core import observation


def test_an_observer_gets_them_within_its_block_alone():
    outer, inner = [], []
    observation.show([1])
    with observation.observed(outer.append):
        observation.show([2])
        with observation.observed(inner.append):
            observation.show([3])
        with pytest.raises(KeyError), observation.observed(inner.append):
            raise KeyError
        observation.show([4])
    observation.show([5])
    assert (outer, inner) == ([[2], [4]], [[3]])
