"""Steps and warm-ups of both scripts, and the tables of their flags."""

import dataclasses

import pytest

from bert_mgpu.config import base
from bert_mgpu.config.classification import ClassificationFlags
from bert_mgpu.config.finetuning import FinetuneConfig, FinetuneFlags
from bert_mgpu.config.pretraining import PretrainConfig
from bert_mgpu.config.rewriting import RewritingFlags
from bert_mgpu.config.span_qa import SpanQaFlags
from bert_mgpu.config.tagging import TaggingFlags
from bert_mgpu.core.errors import UserError


@pytest.mark.parametrize(
    ("rows", "batch", "epochs", "steps"),
    [(100, 32, 3.0, 9), (100, 32, 1.0, 3), (100, 32, 0.5, 1), (31, 32, 1.1, 1)],
)
def test_steps_of_finetuning_are_bert_ads(rows, batch, epochs, steps):
    """int(len(train_examples) / batch * num_train_epochs)."""
    config = FinetuneConfig(num_train_epochs=epochs, warmup_proportion=0.1)
    assert config.steps_of(rows, batch) == steps
    assert config.warmup_of(99) == 9


def test_less_than_a_batch_trains_nothing():
    config = FinetuneConfig(num_train_epochs=1.0)
    with pytest.raises(UserError, match="31 rows x 1 epochs.* one batch of 32"):
        config.steps_of(31, 32)
    given = frozenset({"num_train_epochs", "max_train_steps"})
    config = FinetuneConfig(num_train_epochs=3.0, max_train_steps=50, given=given)
    with pytest.raises(UserError, match="10 rows x 3 epochs.* one batch of 32"):
        config.steps_of(10, 32)
    assert (config.steps_of(320, 32), config.steps_of(3200, 32)) == (30, 50)
    config = FinetuneConfig(max_train_steps=50, given=frozenset({"max_train_steps"}))
    assert config.steps_of(10, 32) == 50


def test_steps_of_pretraining_are_its_flags():
    config = PretrainConfig(num_train_steps=7, num_warmup_steps=3)
    assert (config.steps_of(1000, 8), config.warmup_of(7)) == (7, 3)


def test_every_flag_stands_in_one_table():
    families = ClassificationFlags, RewritingFlags, TaggingFlags, SpanQaFlags
    own = [field.name for table in families for field in base.fields(table)]
    general = [field.name for field in base.fields(FinetuneFlags)]
    both = [field.name for field in base.fields(FinetuneConfig)]
    assert sorted(both) == sorted([*own, *general]) and len({*both}) == len(both)
    assert {"threshold", "class_weights", "crf", "tag_scheme"} <= {*own}
    # The class that joins the tables has no flags of its own.
    assert not {*vars(FinetuneConfig).get("__annotations__", {})}
    assert dataclasses.is_dataclass(FinetuneConfig)


def test_choices_are_those_of_the_code():
    """config imports none of it, so that they stand in both."""
    from bert_mgpu.core.activations import ACTIVATIONS
    from bert_mgpu.data.batching import POLICIES
    from bert_mgpu.text import masking, truncation
    from bert_mgpu.training.optimizers import OPTIMIZERS

    known = {
        "hidden_act": ACTIVATIONS,
        "optimizer": OPTIMIZERS,
        "padding": POLICIES,
        "truncation": truncation.TRUNCATIONS,
        "masking": masking.STRATEGIES,
    }
    fields = {
        field.name: field
        for table in (FinetuneConfig, PretrainConfig)
        for field in base.fields(table)
    }
    for name, choices in known.items():
        assert fields[name].metadata["choices"] == (*choices,), name
