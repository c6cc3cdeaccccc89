"""Losses, decisions and scores of each type, by numpy and scikit-learn."""

import numpy as np
import pytest
import tensorflow as tf
from scipy import stats
from sklearn import metrics as sk
from sklearn.utils.class_weight import compute_class_weight

from bert_mgpu.core.errors import UserError
from bert_mgpu.tasks.classification import label_weights
from bert_mgpu.tasks.classification.problem_type import Loss, ScoredRows
from bert_mgpu.tasks.classification.problem_types import PROBLEM_TYPES
from bert_mgpu.tasks.classification.records import LabelRecords

LABELS = ("a", "b", "c")
WEIGHTS = np.array([0.5, 2.0, 3.0], np.float32)


@pytest.fixture
def rng():
    return np.random.default_rng(1)


def softmax(logits):
    shares = np.exp(logits.astype(np.float64))
    return shares / shares.sum(-1, keepdims=True)


@pytest.mark.parametrize("gamma", [0.0, 2.0])
@pytest.mark.parametrize("weights", [None, WEIGHTS])
def test_losses_of_one_label(rng, gamma, weights):
    logits, truth = rng.normal(0, 2, (40, 3)).astype("f"), rng.integers(0, 3, 40)
    loss = Loss(weights, gamma)
    share = softmax(logits)[np.arange(40), truth]
    counts = np.ones(40) if weights is None else weights[truth]
    wanted = -np.log(share) * (1 - share) ** gamma * counts
    kind = PROBLEM_TYPES["single"]
    np.testing.assert_allclose(kind.losses(logits, truth, loss), wanted, 1e-5, 1e-6)
    np.testing.assert_array_equal(kind.weights(tf.constant(truth), loss), counts)


@pytest.mark.parametrize("gamma", [0.0, 2.0])
@pytest.mark.parametrize("weights", [None, WEIGHTS])
def test_losses_of_several_labels(rng, gamma, weights):
    logits = rng.normal(0, 2, (40, 3)).astype("f")
    truth = rng.integers(0, 2, (40, 3)).astype(np.uint8)
    shares = 1 / (1 + np.exp(-logits.astype(np.float64)))
    right = np.where(truth, shares, 1 - shares)
    counts = np.ones(3) if weights is None else np.where(truth, weights, 1)
    wanted = (-np.log(right) * (1 - right) ** gamma * counts).mean(-1)
    kind, loss = PROBLEM_TYPES["multi"], Loss(weights, gamma)
    np.testing.assert_allclose(kind.losses(logits, truth, loss), wanted, 1e-5, 1e-6)
    np.testing.assert_array_equal(kind.weights(tf.constant(truth), loss), np.ones(40))


@pytest.mark.parametrize("gamma", [0.5, 1.0, 2.0])
def test_focal_loss_has_a_gradient_where_nothing_is_left_to_learn(gamma):
    logits = tf.constant([[200.0, 0.0], [0.0, 200.0], [0.1, 0.0]])
    cases = (("single", [0, 0, 1]), ("multi", [[1, 0], [1, 0], [0, 1]]))
    for name, truth in cases:
        with tf.GradientTape() as tape:
            tape.watch(logits)
            losses = PROBLEM_TYPES[name].losses(
                logits, tf.constant(truth), Loss(None, gamma)
            )
        assert np.isfinite(losses).all()
        assert np.isfinite(tape.gradient(losses, logits)).all()


def test_regression(rng):
    values = rng.normal(0, 2, (40, 1)).astype("f")
    truth = PROBLEM_TYPES["regression"].encode(
        [*(values[:, 0] + rng.normal(size=40))], ()
    )
    kind = PROBLEM_TYPES["regression"]
    wanted = (values[:, 0] - truth) ** 2
    np.testing.assert_allclose(kind.losses(values, truth, Loss()), wanted, 1e-6)
    scores = kind.score(ScoredRows(values, (), None, truth=truth))
    assert scores == pytest.approx(
        {
            "eval_loss": sk.mean_squared_error(truth, values),
            "mae": sk.mean_absolute_error(truth, values),
            "pearson": np.corrcoef(truth, values[:, 0])[0, 1],
            "spearman": stats.spearmanr(truth, values[:, 0])[0],
        },
        1e-6,
    )
    decisions = kind.decide(ScoredRows(values, ()))
    assert np.array_equal(np.array(decisions.texts, "f"), values[:, 0])  # every bit
    values = [*map(float, decisions.texts)]
    assert decisions.records == [{"value": value} for value in values]
    assert "pearson" not in kind.score(
        ScoredRows(np.ones((3, 1)), (), None, truth=truth[:3])
    )


def test_scores_of_several_labels(rng):
    logits = rng.normal(0, 1, (60, 3)).astype("f")
    truth = (rng.random((60, 3)) < 0.4).astype(np.uint8)
    actual = ScoredRows(logits, LABELS, None, truth=truth)
    scores = PROBLEM_TYPES["multi"].score(actual)
    chosen, shares = logits >= 0, 1 / (1 + np.exp(-logits.astype(np.float64)))
    wanted = {
        "eval_accuracy": sk.accuracy_score(truth, chosen),
        "eval_loss": sk.log_loss(truth.ravel(), shares.ravel()),
        "hamming_loss": sk.hamming_loss(truth, chosen),
        "mean_average_precision": sk.average_precision_score(truth, shares),
        "micro_precision": sk.precision_score(truth, chosen, average="micro"),
        "macro_recall": sk.recall_score(truth, chosen, average="macro"),
    }
    for mean in ("micro", "macro", "weighted", "samples"):
        f1 = sk.f1_score(truth, chosen, average=mean, zero_division=0)
        wanted[f"{mean}_f1"] = f1
    assert {name: scores[name] for name in wanted} == pytest.approx(wanted, 1e-9)
    table = PROBLEM_TYPES["multi"].tables(actual)[0]
    assert [line.split()[-1] for line in table.splitlines()[1:4]] == [
        str(count) for count in truth.sum(0)
    ]
    assert max(map(len, table.splitlines())) <= 80


def test_a_label_that_never_occurs_is_no_trouble(rng):
    truth = np.zeros((5, 3), np.uint8)
    actual = ScoredRows(rng.normal(size=(5, 3)).astype("f"), LABELS, None, truth=truth)
    scores = PROBLEM_TYPES["multi"].score(actual)
    assert "mean_average_precision" not in scores
    assert all(np.isfinite(value) for value in scores.values())
    assert PROBLEM_TYPES["multi"].tables(actual)


def decided(problem_type, scored):
    return [one["label"] for one in problem_type.decide(scored).records]


def test_records_are_made_one_by_one(rng):
    """Those of a whole set with many labels would fill the memory."""
    labels = [f"L{n}" for n in range(500)]
    logits = rng.normal(0, 3, (40, 500)).astype("f")
    for name in ("single", "multi"):
        found = PROBLEM_TYPES[name].decide(ScoredRows(logits, labels))
        assert isinstance(found.records, LabelRecords) and len(found.records) == 40
        for record, shares in zip(found.records, found.values, strict=True):
            assert [*record["probabilities"]] == labels
            assert [*record["probabilities"].values()] == pytest.approx(
                shares, abs=1e-6
            )
        assert found.records[7] == [*found.records][7] is not found.records[7]


@pytest.mark.parametrize(("count", "bars"), [(2, 2), (10, 10), (11, 11), (500, 11)])
def test_the_best_labels_are_shown(count, bars):
    shares = {f"L{n}": round(0.5 / (n + 1), 6) for n in range(count)}
    record = {"label": "L0", "probabilities": dict(reversed(shares.items()))}
    shown = PROBLEM_TYPES["single"].display(record)
    assert shown.text == "L0" and len(shown.bars) == bars
    assert [*shown.bars[:10]] == [*shares.items()][:10]
    if count > 11:
        rest = (f"{count - 10} more, each at most", shares["L10"])
        assert shown.bars[10] == rest


def test_thresholds_decide(rng):
    logits = np.array([[2.0, -2.0, 0.1], [-1.0, -1.0, -1.0]], "f")
    decisions = PROBLEM_TYPES["multi"].decide(ScoredRows(logits, LABELS))
    assert decisions.texts == ["0,2", ""]
    assert [one["label"] for one in decisions.records] == [["a", "c"], []]
    actual = ScoredRows(logits, LABELS, np.array([0.9, 0.1, 0.2]))
    assert PROBLEM_TYPES["multi"].decide(actual).texts == ["1,2", "1,2"]
    two = np.log(np.array([[0.7, 0.3], [0.4, 0.6]], "f"))
    labels = ("no", "yes")
    single = PROBLEM_TYPES["single"]
    assert single.decide(ScoredRows(two, labels)).texts == ["0", "1"]
    lower, higher = (np.full(2, value) for value in (0.25, 0.65))
    assert decided(single, ScoredRows(two, labels, lower)) == ["yes", "yes"]
    assert decided(single, ScoredRows(two, labels, higher)) == ["no", "no"]
    truth = np.array([1, 1])
    assert (
        single.score(ScoredRows(two, labels, lower, truth=truth))["eval_accuracy"] == 1
    )
    assert (
        single.score(ScoredRows(two, labels, None, truth=truth))["eval_accuracy"] == 0.5
    )


def test_a_probability_at_its_threshold_is_enough():
    half = ScoredRows(np.zeros((1, 3), "f"), LABELS, np.full(3, 0.5))
    assert PROBLEM_TYPES["multi"].decide(half).texts == ["0,1,2"]
    half = ScoredRows(np.zeros((1, 2), "f"), ("no", "yes"), np.full(2, 0.5))
    assert decided(PROBLEM_TYPES["single"], half) == ["yes"]


def test_balanced_weights_count_labels_without_rows():
    """rows / (labels * rows of the label), of all labels of the task."""
    actual = label_weights.weights(
        "balanced", PROBLEM_TYPES["single"], LABELS, truth=np.array([0, 1])
    )
    assert actual == pytest.approx([2 / 3, 2 / 3, 2 / 3])
    truth = np.array([0, 0, 0, 1])
    actual = label_weights.weights(
        "balanced", PROBLEM_TYPES["single"], LABELS, truth=truth
    )
    assert actual[:2] == pytest.approx([4 / 9, 4 / 3])


def test_balanced_weights_are_those_of_scikit_learn(rng):
    truth = rng.choice(3, 200, p=[0.7, 0.2, 0.1]).astype(np.int32)
    wanted = compute_class_weight("balanced", classes=np.arange(3), y=truth)
    actual = label_weights.weights(
        "balanced", PROBLEM_TYPES["single"], LABELS, truth=truth
    )
    np.testing.assert_allclose(actual, wanted, 1e-6)
    several = (rng.random((200, 3)) < [0.5, 0.1, 0.01]).astype(np.uint8)
    actual = label_weights.weights(
        "balanced", PROBLEM_TYPES["multi"], LABELS, truth=several
    )
    assert actual == pytest.approx((200 - several.sum(0)) / several.sum(0), 1e-6)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a\t1\nb\t2\n", "has no line for c"),
        ("a\t1\nb\t2\nc\t3\nd\t1\n", ":4: 'd"),
        ("a\t1\na\t2\nc\t3\n", ":2: 'a' appears twice"),
        ("a 1\n", ":1: 'a 1': write a label, a tab and a number"),
        ("a\tx\n", ":1: 'x': pass a number, 1e-06 to 1e+06"),
        ("a\t0\n", ":1: '0': pass a number"),
        ("a\tnan\n", ":1: 'nan': pass a number"),
    ],
)
def test_a_file_of_weights_has_a_line_for_each_label(tmp_path, text, said):
    path = tmp_path / "weights.tsv"
    path.write_text(text)
    with pytest.raises(UserError) as error:
        label_weights.weights(str(path), PROBLEM_TYPES["single"], LABELS, truth=None)
    assert said in str(error.value)
    path.write_text("c\t3\n\na\t1\nb\t0.5\n")
    actual = label_weights.weights(
        str(path), PROBLEM_TYPES["single"], LABELS, truth=None
    )
    assert actual.tolist() == [1, 0.5, 3]


def test_thresholds_that_make_no_sense():
    def said(*args):
        with pytest.raises(UserError) as error:
            label_weights.thresholds(*args)
        return str(error.value)

    assert "two labels" in said("0.5", PROBLEM_TYPES["single"], LABELS)
    assert "two labels" in said("0.5", PROBLEM_TYPES["regression"], ())
    assert "0 to 1" in said("1.5", PROBLEM_TYPES["multi"], LABELS)
    assert "no such file" in said("/half", PROBLEM_TYPES["multi"], LABELS)
    assert label_weights.thresholds(None, PROBLEM_TYPES["multi"], LABELS) is None
    assert (
        label_weights.thresholds("0.3", PROBLEM_TYPES["multi"], LABELS).tolist()
        == [0.3] * 3
    )
