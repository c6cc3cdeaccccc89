"""Which labels a run has: the task's, a trained model's, or the training file's."""

import dataclasses
import types

import pytest

from bert_mgpu.core.errors import UserError
from bert_mgpu.tasks import task_json
from bert_mgpu.tasks.classification.labels import find_labels

LINES = {"no yes": "no\ta\nyes\tb\n", "one": "no\ta\nno\tb\n"}
CONFLICT = "has the labels {}, the trained model {}"


@pytest.fixture
def labels(tmp_path):
    """labels(own=of the task, trained=of the model, ...) -> those of the run."""

    def find(own=(), trained=None, rows="no yes", trains=True, continues=False, **keys):
        (tmp_path / "train.tsv").write_text(LINES[rows])
        task = {"train": "train.tsv", "text_a": 1, "label": 0, **keys}
        files = task_json._task("mine", task)
        files = dataclasses.replace(files, labels=tuple(own))
        if continues:
            (tmp_path / "model.ckpt-1.index").write_bytes(b"")
        model = types.SimpleNamespace(labels=trained)
        return find_labels(
            files, model, tmp_path, data_dir=tmp_path, trains=trains, evaluates=False
        )

    return find


@pytest.mark.parametrize(
    ("asked", "wanted"),
    [
        # the training file's, sorted
        ({}, ["no", "yes"]),
        # the task's own list, in its order
        ({"own": ("yes", "no")}, ["yes", "no"]),
        # a trained model that is used, or continued, says its own
        ({"trained": ["yes", "no"], "trains": False}, ["yes", "no"]),
        ({"trained": ["x", "y"], "continues": True}, ["x", "y"]),
        # a start from a model: the order of the same labels there, else a new head
        ({"trained": ["yes", "no"]}, ["yes", "no"]),
        ({"trained": ["x", "y"]}, ["no", "yes"]),
        ({"trained": ["x", "y"], "own": ("a", "b")}, ["a", "b"]),
        ({"trained": ["a", "b"], "own": ("a", "b"), "continues": True}, ["a", "b"]),
    ],
    ids=str,
)
def test_the_order_of_the_labels(labels, asked, wanted):
    assert labels(**asked) == wanted


@pytest.mark.parametrize(
    "asked",
    [
        # the same labels in another order are more likely a mistake than a new head
        {"own": ("no", "yes"), "trained": ["yes", "no"]},
        {"own": ("a", "b"), "trained": ["x", "y"], "continues": True},
        {"own": ("a", "b"), "trained": ["x", "y"], "trains": False},
    ],
    ids=str,
)
def test_labels_of_another_model_are_refused(labels, asked):
    with pytest.raises(UserError) as error:
        labels(**asked)
    own, trained = ", ".join(asked["own"]), ", ".join(asked["trained"])
    assert CONFLICT.format(own, trained) in str(error.value)


def test_one_label_is_nothing_to_learn(labels):
    with pytest.raises(UserError, match="every row has the label 'no': nothing to"):
        labels(rows="one")
    with pytest.raises(UserError, match="1 label in all rows: nothing to learn: .*sep"):
        labels(rows="one", type="multi")
