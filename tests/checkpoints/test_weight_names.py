"""The name table against the names of Google's graph and of transformers."""

import pytest

from bert_mgpu.checkpoints import weight_names
from bert_mgpu.model import params
from tests.reference import cases
from tests.support.tensors import GOLDEN

GOOGLE = GOLDEN["google"]
# transformers ties these two to other parameters and does not save them.
TIED = {"cls.predictions.decoder.weight", "cls.predictions.decoder.bias"}


def hugging_face(architecture):
    return {n: s for n, s in GOLDEN[architecture].items() if n not in TIED}


def test_the_table_covers_google_and_runs_both_ways():
    classifier = hugging_face("BertForSequenceClassification")
    rows = {name: weight_names.row_by_google(name) for name in GOOGLE}
    assert {row.hugging_face for row in rows.values()} == classifier.keys()
    for name, row in rows.items():
        assert row.google == name
        assert weight_names.row_by_hugging_face(row.hugging_face) == row
        shape = classifier[row.hugging_face]
        assert shape == (GOOGLE[name][::-1] if row.transposed else GOOGLE[name])


@pytest.mark.parametrize(
    "architecture",
    [
        "BertModel",
        "BertForSequenceClassification",
        "BertForPreTraining",
        "BertForQuestionAnswering",
    ],
)
def test_every_name_of_transformers_has_its_own_google_name(architecture):
    actual = hugging_face(architecture)
    rows = [weight_names.row_by_hugging_face(name) for name in actual]
    assert None not in rows
    assert len({row.google for row in rows}) == len(actual)
    prefix = "bert." if architecture == "BertModel" else ""
    assert [row.hugging_face for row in rows] == [f"{prefix}{n}" for n in actual]
    assert all(weight_names.row_by_google(row.google) == row for row in rows)


def test_the_classifier_is_all_of_googles_graph():
    rows = weight_names.rows_of_architecture(
        weight_names.CLASSIFIER, cases.MODEL.num_hidden_layers
    )
    assert sorted(row.google for row in rows) == sorted(GOOGLE)


def test_our_parameters_are_those_of_googles_graph():
    specs = params.bert_specs(cases.MODEL)
    specs |= params.classifier_specs(cases.MODEL, cases.NUM_LABELS)
    assert {name: list(shape) for name, (shape, _) in specs.items()} == GOOGLE


@pytest.mark.parametrize(
    ("spelling", "google"),
    [
        ("embeddings.LayerNorm.gamma", "bert/embeddings/LayerNorm/gamma"),
        (
            "bert.encoder.layer.11.output.LayerNorm.beta",
            "bert/encoder/layer_11/output/LayerNorm/beta",
        ),
        ("pooler.dense.weight", "bert/pooler/dense/kernel"),
        ("cls.predictions.decoder.bias", "cls/predictions/output_bias"),
        ("cls.predictions.bias", "cls/predictions/output_bias"),
        ("qa_outputs.weight", "cls/squad/output_weights"),
        ("cls.seq_relationship.weight", "cls/seq_relationship/output_weights"),
    ],
)
def test_other_spellings_are_understood(spelling, google):
    row = weight_names.row_by_hugging_face(spelling)
    assert row is not None and row.google == google


@pytest.mark.parametrize(
    "name",
    [
        "global_step",
        "bert/pooler/dense/kernel/adam_m",
        "bert/encoder/layer_01/output/dense/bias",
    ],
)
def test_other_tensors_of_a_checkpoint_have_no_row(name):
    assert weight_names.row_by_google(name) is None


def test_describe_difference_is_sorted_and_complete():
    difference = weight_names.describe_difference(
        {"d": (1,), "c": (2, 3), "b": (4,), "same": (5,)},
        {"y": (1,), "c": (3, 2), "same": (5,), "x": (2,)},
    )
    assert difference == (["b", "d"], ["x", "y"], ["c"])
