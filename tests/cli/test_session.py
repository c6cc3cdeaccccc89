"""The settings of a run whose batches are cut into parts."""

import pytest

from bert_mgpu.cli import session
from bert_mgpu.config.finetuning import FinetuneConfig
from bert_mgpu.core.errors import UserError


def test_a_batch_in_parts_stays_the_same_batch():
    config = FinetuneConfig(train_batch_size=12, gradient_accumulation_steps=2)
    parts = session.in_parts(config, 3)
    assert parts.train_batch_size == 4 and parts.gradient_accumulation_steps == 6


def test_parts_have_to_divide_the_batch():
    with pytest.raises(UserError, match="=5 does not divide --train_batch_size=12"):
        session.in_parts(FinetuneConfig(train_batch_size=12), 5)
