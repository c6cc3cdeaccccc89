"""Intervals, the floor and one answer for all, of classes and of sets of labels."""

import itertools

import numpy as np
import pytest
from scipy import special
from sklearn import dummy, metrics

from bert_mgpu.core import intervals
from bert_mgpu.tasks.classification import trust
from bert_mgpu.tasks.classification.problem_type import ScoredRows

LABELS = ["bad", "good", "so so"]


def test_macro_f1_is_that_of_scikit_learn():
    rng = np.random.default_rng(0)
    for _ in range(200):
        truth, said = rng.integers(0, rng.integers(1, 4), (2, 12))
        counts = metrics.confusion_matrix(truth, said, labels=[0, 1, 2])
        drawn = intervals.Drawn(
            np.diagonal(counts)[None], counts.sum(0)[None], counts.sum(1)
        )
        wanted = metrics.f1_score(truth, said, average="macro", zero_division=0)
        occurs = np.isin([0, 1, 2], [*truth, *said])
        assert trust.macro_f1(drawn, occurs) == pytest.approx([wanted], abs=1e-12)


def test_a_class_that_hardly_occurs_has_an_interval():
    """Of rows that are drawn, some have neither a true nor a predicted one."""
    truth = np.array([0] * 198 + [1] * 2)
    for said in (np.zeros(200, int), np.arange(200) == 3):
        low, high = trust.of_classes(truth, said.astype(int), LABELS[:2]).intervals[
            "f1"
        ]
        assert low == high == 0.0


def test_rows_that_are_all_right_have_no_drawn_interval():
    """Each draw of them is right; Wilson's interval has a width."""
    truth = np.arange(20) % 2
    found = trust.of_classes(truth, truth, LABELS[:2])
    assert found.intervals["f1"] == found.intervals["macro_f1"] == (1.0, 1.0)
    said = found.without_points()
    assert {*said.intervals} == {"eval_accuracy"} and said.floors == found.floors


def test_the_intervals_hold_the_scores():
    rng = np.random.default_rng(1)
    truth = rng.integers(0, 2, 300)
    said = np.where(rng.random(300) < 0.8, truth, 1 - truth)
    found = trust.of_classes(truth, said, LABELS[:2])
    scores = {
        "eval_accuracy": metrics.accuracy_score(truth, said),
        "macro_f1": metrics.f1_score(truth, said, average="macro"),
        "f1": metrics.f1_score(truth, said),
    }
    assert found.intervals.keys() == scores.keys()
    for name, score in scores.items():
        low, high = found.intervals[name]
        assert low < score < high and 0.04 < high - low < 0.15, name
    assert found.one_answer == ""
    assert found.judged == ["eval_accuracy", "macro_f1"]


def test_floors_are_those_of_scikit_learns_dummies():
    rng = np.random.default_rng(1)
    truth = (rng.random(4000) < 0.3).astype(int)
    found = trust.of_classes(truth, truth, LABELS[:2]).floors
    rows = np.zeros((4000, 1))
    drawn = np.mean(
        [
            metrics.f1_score(truth, by.predict(rows), average="macro")
            for by in (
                dummy.DummyClassifier(strategy="stratified", random_state=seed).fit(
                    rows, truth
                )
                for seed in range(20)
            )
        ]
    )
    most, second = np.zeros(4000, int), np.ones(4000, int)
    always = 'always "bad"'
    assert found["eval_accuracy"] == {always: pytest.approx((truth == 0).mean())}
    assert found["micro_f1"] == found["eval_accuracy"]
    macro = metrics.f1_score(truth, most, average="macro")
    assert found["macro_f1"] == {
        always: pytest.approx(macro),
        "labels drawn at random": pytest.approx(drawn, abs=0.01),
    }
    score = metrics.f1_score(truth, second)
    assert found["f1"] == {'always "good"': pytest.approx(score)}
    for name in ("mcc", "auc"):  # their values are what no information gives
        assert {*found[name]} == {"labels drawn at random"}


def test_rare_classes_that_are_never_found_have_no_chance_of_1():
    """Draws without them would all be right."""
    truth = np.array([0] * 197 + [1] * 3)
    found = trust.of_classes(truth, np.zeros(200, int), LABELS[:2])
    score = metrics.f1_score(truth, np.zeros(200, int), average="macro")
    assert found.intervals["macro_f1"] == pytest.approx((score, score))
    many = np.repeat(np.arange(60), 3)
    said = np.where(np.random.default_rng(0).random(180) < 0.6, many, (many + 1) % 60)
    low, high = trust.of_classes(many, said, [*map(str, range(60))]).intervals[
        "macro_f1"
    ]
    assert low < metrics.f1_score(many, said, average="macro") < high


def test_who_finds_rare_classes_is_judged_by_them():
    truth = np.array([0] * 950 + [1] * 50)
    said = truth.copy()
    said[:55], said[-5:] = 1, 0
    found = trust.of_classes(truth, said, LABELS[:2])
    assert (truth == said).mean() < found.floors["eval_accuracy"]['always "bad"']
    assert found.judged[1] == "macro_f1"
    assert found.intervals["macro_f1"][0] > max(found.floors["macro_f1"].values())
    many = trust.of_classes(truth, said, [*map(str, range(101))])
    assert many.intervals["macro_f1"] == found.intervals["macro_f1"]


def test_a_ranking_is_judged_by_its_groups():
    """In each group one row of ten is right, and first, but no probability is 0.5."""
    groups, truth = np.repeat(np.arange(30), 10), np.arange(300) % 10 == 0
    logits = np.stack([np.ones(300), np.where(truth, 0.9, 0.1)], -1).astype("f")
    scored = ScoredRows(logits, ["0", "1"], truth=truth.astype(int), groups=groups)
    found = trust.of_single(scored, np.zeros(300, int))
    assert found.judged == ["mrr"] and not found.one_answer
    random = "rows in a random order"
    assert found.floors["hit_at_1"] == {random: pytest.approx(0.1)}
    # For --best_metric=eval_accuracy.
    assert found.floors["eval_accuracy"] == {'always "0"': pytest.approx(0.9)}
    assert found.intervals["mrr"] == (1.0, 1.0)
    assert "eval_accuracy" in found.intervals
    # Groups of which none can be scored are plain rows.
    for none in (groups * 0 - 1, np.arange(300)):
        plain = trust.of_single(scored._replace(groups=none), np.zeros(300, int))
        assert plain.judged == ["eval_accuracy", "macro_f1"]


@pytest.mark.parametrize(
    ("rows", "wrong", "said"),
    [
        (100, 0, "100 of 100 rows are predicted as good, but only 50 are"),
        (100, 5, "95 of 100 rows are predicted as good, but only 50 are"),
        (100, 6, ""),
        (18, 0, ""),  # so few say nothing
    ],
)
def test_one_answer_for_nearly_all(rows, wrong, said):
    truth = np.arange(rows) % 2
    predicted = np.ones(rows, int)
    predicted[:wrong] = 0
    assert trust.of_classes(truth, predicted, LABELS[:2]).one_answer == said


def test_one_answer_that_is_true_is_none_to_tell():
    truth = np.array([0] * 95 + [1] * 5)
    assert trust.of_classes(truth, np.zeros(100, int), LABELS).one_answer == ""


def test_many_classes_take_no_matrix(monkeypatch):
    """Which thousands have no room for."""
    monkeypatch.delattr(trust.label_tables, "confusion")
    rows = np.arange(2000)
    found = trust.of_classes(rows, rows, [str(row) for row in rows])
    assert found.intervals["macro_f1"] == (1.0, 1.0)
    said = np.random.default_rng(0).permutation(rows)
    low, high = trust.of_classes(rows, said, [*map(str, rows)]).intervals["macro_f1"]
    assert low <= (rows == said).mean() <= high


def test_values_beside_their_mean():
    rng = np.random.default_rng(3)
    truth = rng.normal(3, 2, 200).astype("f")
    found = trust.of_values(truth, truth + rng.normal(0, 1, 200).astype("f"))
    mean = np.full(200, truth.mean())
    floor = pytest.approx(metrics.mean_squared_error(truth, mean), 1e-6)
    assert found.floors == {"eval_loss": {"always the mean label": floor}}
    low, high = found.intervals["eval_loss"]
    assert found.one_answer == "" and low < 1 < high < 1.5
    narrow = (2.5 + rng.normal(0, 0.1, 200)).astype("f")
    line = trust.of_values(truth, narrow).one_answer
    assert line.startswith("nearly one value for all: 95 % of the predictions are 2.")
    assert trust.of_values(truth[:19], narrow[:19]).one_answer == ""
    assert trust.of_values(truth, (narrow - 2.5) * 6).one_answer == ""
    same = np.ones(30, "f")
    assert trust.of_values(same, same) == trust.Trust(
        floors={"eval_loss": {"always the mean label": 0.0}}
    )


@pytest.mark.parametrize("labels", [(-1, *[0] * 98, 1), (1, 2, 3)])
def test_draws_without_variance_do_not_count(labels):
    truth = np.array(labels, float)
    found = trust.of_values(truth, truth + 0.5)
    low, high = found.intervals["eval_loss"]
    assert 0 < low < high < np.inf


def test_noise_is_hardly_ever_better_than_the_mean():
    rng = np.random.default_rng(4)
    better = 0
    for _ in range(200):
        truth = rng.normal(0, 1, 100)
        found = trust.of_values(truth, truth.mean() + rng.normal(0, 0.11, 100))
        better += found.intervals["eval_loss"][1] < truth.var()
    assert better <= 200 * 0.06


def test_no_rows():
    none = np.zeros(0, int)
    assert trust.of_classes(none, none, LABELS).floors == {}
    assert trust.of_label_sets(none.reshape(0, 3), none.reshape(0, 3), LABELS)
    assert trust.of_values(none, none) == trust.Trust()


def test_sets_of_labels():
    rng = np.random.default_rng(2)
    truth = rng.integers(0, 2, (200, 3)).astype(np.uint8)
    chosen = np.where(rng.random((200, 3)) < 0.9, truth, 1 - truth).astype(np.uint8)
    found = trust.of_label_sets(truth, chosen, LABELS)
    low, high = found.intervals["micro_f1"]
    assert low < metrics.f1_score(truth, chosen, average="micro") < high
    low, high = found.intervals["eval_accuracy"]
    assert low < (truth == chosen).all(-1).mean() < high
    assert found.one_answer == ""
    for said, name in (([0, 0, 0], "no label"), ([1, 0, 1], "bad, so so")):
        same = np.tile(np.array(said, np.uint8), (200, 1))
        true = (truth == same).all(-1).sum()
        line = f"200 of 200 rows are predicted as {name}, but only {true} are"
        assert trust.of_label_sets(truth, same, LABELS).one_answer == line


def test_the_best_set_of_labels_for_all_rows():
    rng = np.random.default_rng(4)
    for common in ([0.5, 0.4, 0.05], [0.9, 0.1, 0.1], [0.1, 0.1, 0.2], [0.0, 0.0, 0.0]):
        truth = (rng.random((60, 3)) < common).astype(np.uint8)
        scores = {"eval_accuracy": {}, "micro_f1": {}}
        for said in itertools.product((0, 1), repeat=3):
            same = np.tile(said, (60, 1))
            f1 = metrics.f1_score(truth, same, average="micro", zero_division=0)
            accuracy = metrics.accuracy_score(truth, same)
            name = ", ".join(
                each for each, one in zip(LABELS, said, strict=True) if one
            )
            name = f'always "{name}"' if name else "always no label"
            for score, value in zip(scores, (accuracy, f1), strict=True):
                scores[score][name] = value
        found = trust.of_label_sets(truth, truth, LABELS).floors
        for score, values in scores.items():
            ((name, value),) = found[score].items()
            assert value == pytest.approx(max(values.values()))
            assert values[name] == pytest.approx(value)


def test_confident_predictions_are_counted_as_scikit_learn_scores_them():
    rng = np.random.default_rng(2)
    logits = 2 * rng.normal(size=(400, 3))
    truth = np.where(rng.random(400) < 0.7, logits.argmax(-1), rng.integers(0, 3, 400))
    probabilities = special.softmax(logits, -1)
    # A threshold may choose another class than the most probable one.
    said = (probabilities[:, 2] >= 0.1) * 2
    heads, *lines = trust.confidence_cells(truth, said, logits)
    assert heads == ("probability", "predictions", "of all", "right")
    least = [0, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99]
    assert [line[0] for line in lines] == ["any", *(f"at least {p}" for p in least[1:])]
    for probability, line in zip(least, lines, strict=True):
        kept = probabilities[np.arange(400), said] >= probability
        accuracy = metrics.accuracy_score(truth[kept], said[kept])
        assert line[1:] == (str(kept.sum()), f"{kept.mean():.1%}", f"{accuracy:.1%}")


def test_probabilities_that_no_prediction_has_are_left_out():
    """Here they are 0.73 and 0.27, both of the first class."""
    lines = trust.confidence_cells(np.array([0, 1]), np.zeros(2, int), np.eye(2))
    assert lines[1:] == [
        ("any", "2", "100.0%", "50.0%"),
        *((f"at least {p}", "1", "50.0%", "100.0%") for p in (0.5, 0.6, 0.7)),
    ]
