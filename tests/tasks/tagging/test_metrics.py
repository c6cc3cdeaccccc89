"""Scores of entities, against seqeval."""

import warnings

import numpy as np
import pytest
from seqeval import metrics as seqeval
from seqeval.scheme import IOB2, IOBES

from bert_mgpu.config.tagging import HEAD_SCHEMES
from bert_mgpu.tasks.tagging import bio, metrics
from bert_mgpu.tasks.tagging.bio import Span

MODES = {"bio": IOB2, "bioes": IOBES}
SCORES = {
    "precision": (seqeval.precision_score, "micro"),
    "recall": (seqeval.recall_score, "micro"),
    "f1": (seqeval.f1_score, "micro"),
    "macro_f1": (seqeval.f1_score, "macro"),
    "weighted_f1": (seqeval.f1_score, "weighted"),
}


def check(truth, predicted, scheme, *, strict):
    """Scores are seqeval's, in its default mode and, if asked, in its strict one."""
    spans = [
        [bio.read_spans(tags, scheme).spans for tags in one]
        for one in (truth, predicted)
    ]
    actual = metrics.scores(metrics.count(*spans))
    modes = [{}, {"mode": "strict", "scheme": MODES[scheme]}]
    for options in modes[: 1 + strict]:
        for name, (score, average) in SCORES.items():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                wanted = score(
                    truth, predicted, average=average, zero_division=0, **options
                )
            assert actual[name] == pytest.approx(np.nan_to_num(wanted), abs=1e-12), (
                name,
                options,
            )


def drawn(draw, units, scheme, valid):
    tags = bio.tags_of(["A", "B", "C"], scheme)
    if not valid:
        return [str(draw.choice(tags)) for _ in range(units)]
    rules, path = bio.rules_of(tags), []
    for unit in range(units):
        may = rules.follow[path[-1]] if path else rules.first
        may = may & rules.last if unit == units - 1 else may
        if unit == units - 2:  # one from which the sentence can end
            may = may & (rules.follow & rules.last).any(1)
        path.append(int(draw.choice(np.flatnonzero(may))))
    return [tags[index] for index in path]


@pytest.mark.parametrize("scheme", HEAD_SCHEMES)
@pytest.mark.parametrize("valid", [True, False])
def test_scores_are_those_of_seqeval(scheme, valid):
    """2,500 pairs of sequences each, in sets of one to five."""
    draw, pairs = np.random.default_rng(9), 0
    while pairs < 2500:
        sizes = draw.integers(1, 12, draw.integers(1, 6))
        pairs += len(sizes)
        truth, predicted = (
            [drawn(draw, int(units), scheme, valid) for units in sizes]
            for _ in range(2)
        )
        check(truth, predicted, scheme, strict=valid)


def test_nothing_right_nothing_there():
    none = metrics.count([[], []], [[], []])
    assert set(metrics.scores(none).values()) == {0.0}
    wrong = metrics.count([[Span(0, 1, "A")]], [[Span(0, 2, "A")]])
    assert set(metrics.scores(wrong).values()) == {0.0}


def test_the_table_has_a_line_for_each_type():
    truth = [[Span(0, 2, "LOC"), Span(3, 4, "PER")], [Span(0, 1, "PER")]]
    said = [[Span(0, 2, "LOC"), Span(3, 5, "PER")], [Span(0, 1, "ORG")]]
    counts = metrics.count(truth, said)
    lines = metrics.cells(counts)
    assert [line[0] for line in lines] == ["type", "LOC", "ORG", "PER", "all"]
    assert lines[1] == ("LOC", "1.0000", "1.0000", "1.0000", "1")
    assert lines[2] == ("ORG", "0.0000", "0.0000", "0.0000", "0")
    assert lines[4] == ("all", "0.3333", "0.3333", "0.3333", "3")
    assert metrics.table(counts).splitlines()[0].split() == [*lines[0]]


def test_the_interval_of_f1_and_entities_that_are_hardly_found():
    rng = np.random.default_rng(3)
    truth = [[Span(0, 2, "A"), Span(3, 4, "B")][: n % 3] for n in range(200)]
    said = [own if rng.random() < 0.8 else own[:1] for own in truth]
    found = metrics.trust(truth, said)
    low, high = found.intervals["f1"]
    assert low < metrics.scores(metrics.count(truth, said))["f1"] < high
    assert high - low < 0.1 and found.one_answer == ""
    count = sum(map(len, truth))
    for kept, told in ((0, 0), (8, 8), (40, None)):
        few = [own if n < kept else [] for n, own in enumerate(truth)]
        said = sum(map(len, few))
        line = metrics.trust(truth, few).one_answer
        few_said = f"{said} entities are predicted, but the set has {count}"
        assert line == ("" if told is None else few_said)
    assert metrics.trust(truth[:6], [[]] * 6).one_answer == ""  # too few to tell
    assert metrics.trust([], []).intervals == {}
