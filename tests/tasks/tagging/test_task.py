"""The losses of tagged units, and the parameters that they need."""

import numpy as np
import pytest
import tensorflow as tf

from bert_mgpu.core.rows import Example
from bert_mgpu.core.task import Predictions
from bert_mgpu.data import packing, pipeline
from bert_mgpu.model import params as params_lib
from bert_mgpu.tasks.tagging import bio, dataset
from bert_mgpu.tasks.tagging.bio import Span
from bert_mgpu.tasks.tagging.reader import Entities
from bert_mgpu.tasks.tagging.task import Tagging
from bert_mgpu.text.tokenization import Tokenizer
from tests.support.tiny import VOCAB, small_config

TAGS = bio.tags_of(["A", "B"], "bio")
LENGTH = 16
CONFIG = small_config(vocab_size=len(VOCAB))


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    """Rows of a text of several windows, and of short ones."""
    path = tmp_path_factory.mktemp("vocab") / "vocab.txt"
    path.write_text("".join(f"{token}\n" for token in VOCAB))
    texts = [("sun suns joy " * 8).strip(), "rain joy", "win", "the sun of a"]
    return dataset.featurise(
        [Example("", text, label=Entities((Span(0, 3, "A"),))) for text in texts],
        Tokenizer(path, True),
        TAGS,
        max_seq_length=LENGTH,
        doc_stride=7,
        by_words=False,
        for_crf=True,
    )


def tagging(has_crf):
    return Tagging(
        "own",
        CONFIG,
        TAGS,
        max_seq_length=LENGTH,
        units="pieces",
        has_crf=has_crf,
    )


def weights(task):
    """Random ones, also of what begins with zeros."""
    specs = {name: (shape, "truncated_normal") for name, (shape, _) in
             task.param_specs().items()}  # fmt: skip
    return params_lib.initialize(specs, 0.3, seed=2)


def total(task, rows, placement):
    batch = {
        name: values[0] for name, values in pipeline.collate(rows, placement).items()
    }
    divisor = task.loss_weights(batch)["loss"]
    batch = {name: tf.constant(values) for name, values in batch.items()}
    return float(task.loss_sums(weights(task), batch, None)["loss"]), divisor


@pytest.mark.parametrize("has_crf", [False, True])
def test_packed_rows_have_the_losses_of_rows_alone(rows, has_crf):
    task, numbers = tagging(has_crf), np.arange(len(rows))
    alone = packing.one_per_row(numbers, 1, LENGTH)
    shape = packing.Shape(rows=len(rows), length=32, examples_per_row=4)
    packed = packing.pack(numbers, rows.lengths, 1, shapes=[shape])
    assert (packed.numbers != packing.EMPTY).sum(-1).max() > 1
    (one, count), (other, same) = (total(task, rows, p) for p in (alone, packed))
    assert one == pytest.approx(other, rel=1e-5)
    units = (rows.ragged["tag_ids"].values > 0).sum()
    assert (
        count == same == units == sum(map(len, map(rows.unread["units"].row, numbers)))
    )


def test_the_loss_is_that_of_the_units(rows):
    """And the field begins as a softmax: its scores are zeros."""
    task, alone = tagging(False), packing.one_per_row(np.arange(len(rows)), 1, LENGTH)
    batch = {name: tf.constant(values[0]) for name, values in
             pipeline.collate(rows, alone).items()}  # fmt: skip
    own = weights(task)
    logits = task.outputs(own, batch)["logits"].numpy()
    tags = batch["tag_ids"].numpy()
    logs = tf.nn.log_softmax(logits).numpy()
    wanted = -logs[tags > 0, tags[tags > 0] - 1].sum()
    assert float(task.loss_sums(own, batch, None)["loss"]) == pytest.approx(wanted)
    field = tagging(True)
    zeros = {name: np.zeros(shape, np.float32)
             for name, (shape, _) in field.param_specs().items()}  # fmt: skip
    loss = field.loss_sums(zeros | own, batch, None)["loss"]
    assert float(loss) == pytest.approx(wanted, rel=1e-5)


def test_parameters_are_googles_without_a_pooler():
    plain, field = tagging(False).param_specs(), tagging(True).param_specs()
    assert plain["output_weights"] == ((5, 32), "truncated_normal")
    assert not [name for name in plain if "pooler" in name]
    more = {name: spec for name, spec in field.items() if name not in plain}
    assert more == {
        "crf/follow": ((5, 5), "zeros"),
        "crf/first": ((5,), "zeros"),
        "crf/last": ((5,), "zeros"),
    }
    assert Predictions(["a"], np.zeros((1, 1)), [{}]).files == {}
