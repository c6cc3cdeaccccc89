"""The places that are changed by --keep_bias, beside scikit-learn's scores."""

import numpy as np
import pytest
from sklearn import metrics

from bert_mgpu.tasks.rewriting import bias_curve


def test_points_are_those_of_scikit_learn():
    draw = np.random.default_rng(2)
    logits = draw.normal(0, 2, (400, 6)) + [2, 0, 0, 0, 0, 0]
    scores = logits - np.log(np.exp(logits).sum(1, keepdims=True))
    truth = np.where(draw.random(400) < 0.5, logits.argmax(1), draw.integers(0, 6, 400))
    for point in bias_curve.points(bias_curve.places_of(scores, truth)):
        said = (scores + point.bias * (np.arange(6) == 0)).argmax(1)
        labels = range(1, 6)  # of changed places
        kinds = {"labels": [*labels], "average": "micro", "zero_division": 0.0}
        wanted = metrics.precision_recall_fscore_support(truth, said, beta=0.5, **kinds)
        assert point[2:] == pytest.approx(wanted[:3], abs=1e-12)
        assert point.changed == (said > 0).sum()


def test_nothing_to_change():
    places = bias_curve.places_of(np.zeros((0, 6)), np.zeros(0, np.int64))
    points = bias_curve.points(places)
    assert {point[1:] for point in points} == {(0, 0.0, 0.0, 0.0)}
    table = bias_curve.table(places)
    assert len(table.splitlines()) == 1 + len(bias_curve.BIASES)


def test_a_set_of_slots_has_no_dial():
    def matters(*truth):
        scores = np.zeros((len(truth), 6))
        return bias_curve.matters(bias_curve.places_of(scores, np.array(truth, int)))

    assert matters(3, 0) and not matters(3, 1) and not matters()
