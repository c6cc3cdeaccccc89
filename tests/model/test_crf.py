"""The conditional random field, against all sequences of a few units."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from bert_mgpu.model import crf
from tests.support.marks import rarely

TAGS = 3


@pytest.fixture(scope="module")
def transitions():
    draw = np.random.default_rng(0)
    shapes = (TAGS, TAGS), (TAGS,), (TAGS,)
    return crf.Transitions(
        *(tf.constant(draw.normal(size=shape), tf.float32) for shape in shapes)
    )


@pytest.mark.parametrize("units", [1000, *rarely(20000)])
def test_long_sentences_are_exact(transitions, units):
    """Beside the same recursions in float64: scores that grow would lose digits."""
    emissions = np.random.default_rng(3).normal(100, 1, (units, TAGS)).astype("f")
    follow = np.float64(transitions.follow)
    best, alpha, origins, alphas = emissions[0], np.float64(emissions[0]), [], []
    beta, betas = np.zeros(TAGS), []
    for now in np.float64(emissions[1:]):
        alphas.append(alpha)
        moves = best[:, None] + follow
        origins.append(moves.argmax(0))
        best = now + moves.max(0)
        alpha = now + np.logaddexp.reduce(alpha[:, None] + follow, 0)
    for now in np.float64(emissions[:0:-1]):
        betas.append(beta)
        beta = np.logaddexp.reduce(follow + now + beta, 1)
    path = [int(best.argmax())]
    for origin in reversed(origins):
        path.append(int(origin[path[-1]]))
    logs = np.array([*alphas, alpha]) + np.array([*betas, beta])[::-1]
    shares = np.exp(logs - np.logaddexp.reduce(logs, 1, keepdims=True))
    given = emissions[None], np.array([units], np.int32), transitions.follow
    assert crf.viterbi(*given)[0].numpy().tolist() == path[::-1]
    found = crf.marginals(tf.constant(given[0]), *given[1:])[0]
    np.testing.assert_allclose(found, shares, atol=1e-4)


class Enumerated:
    """All sequences of tags of one sentence, and their scores in float64."""

    def __init__(self, emissions, transitions):
        follow, first, last = (np.float64(part) for part in transitions)
        units = len(emissions)
        self.paths = np.array([*itertools.product(range(TAGS), repeat=units)])
        self.scores = np.float64(emissions)[np.arange(units), self.paths].sum(-1)
        self.scores += follow[self.paths[:, :-1], self.paths[:, 1:]].sum(-1)
        self.scores += first[self.paths[:, 0]] + last[self.paths[:, -1]]

    @property
    def log_partition(self):
        return np.log(np.exp(self.scores - self.scores.max()).sum()) + self.scores.max()

    @property
    def best(self):
        return self.paths[self.scores.argmax()].tolist()

    @property
    def marginals(self):
        shares = np.exp(self.scores - self.log_partition)
        return (shares[:, None, None] * (self.paths[..., None] == range(TAGS))).sum(0)


def sentences(counts, seed):
    draw = np.random.default_rng(seed)
    return [draw.normal(size=(count, TAGS)).astype(np.float32) * 2 for count in counts]


def row(parts, gap=1):
    """Sentences in one row with tokens between that are no units, as `crf` wants it.

    parts: (emissions, tags, whether its sentence begins, ends with it).
    """
    columns = {name: [] for name in ("emissions", "tags", "prior", "edges")}
    for emissions, tags, begins, ends in parts:
        for index, tag in enumerate(tags):
            columns["emissions"] += [np.full(TAGS, 7.0)] * gap + [emissions[index]]
            columns["tags"] += [0] * gap + [tag + 1]
            columns["prior"] += [0] * gap + [tags[index - 1] + 1 if index else 0]
            first, last = index == 0 and begins, index == len(tags) - 1 and ends
            columns["edges"] += [0] * gap + [crf.FIRST * first + crf.LAST * last]
    return {
        name: tf.constant(
            np.array(values)[None], tf.float32 if name == "emissions" else tf.int32
        )
        for name, values in columns.items()
    }


def log_likelihood(batch, transitions):
    columns = (batch[name] for name in ("emissions", "tags", "prior"))
    return -crf.losses(*columns, edges=batch["edges"], transitions=transitions)


@pytest.mark.parametrize("units", range(1, 7))
def test_all_sequences_are_counted(transitions, units):
    (emissions,) = sentences([units], units)
    known = Enumerated(emissions, transitions)
    for path, score in zip(known.paths[::7], known.scores[::7], strict=True):
        batch = row([(emissions, path.tolist(), True, True)])
        actual = float(log_likelihood(batch, transitions)[0])
        assert actual == pytest.approx(score - known.log_partition, abs=1e-5)


@pytest.mark.parametrize("compiled", [False, True])
def test_packed_chains_add_up(transitions, compiled):
    """Those of one row are the sum of one a row, and so are their gradients."""
    draw = np.random.default_rng(3)
    parts = [
        (emissions, draw.integers(0, TAGS, len(emissions)).tolist(), begins, ends)
        for emissions, begins, ends in zip(
            sentences([3, 1, 5, 2], 4), (1, 0, 1, 0), (1, 1, 0, 0), strict=True
        )
    ]

    @tf.function(jit_compile=compiled)
    def value_and_gradients(batch):
        with tf.GradientTape() as tape:
            tape.watch([*transitions])
            value = log_likelihood(batch, transitions)[0]
        return [value, *tape.gradient(value, [*transitions])]

    packed = value_and_gradients(row(parts))
    alone = [value_and_gradients(row([part])) for part in parts]
    for actual, wanted in zip(packed, zip(*alone, strict=True), strict=True):
        np.testing.assert_allclose(actual, sum(wanted), atol=1e-5)


def test_without_transitions_it_is_the_softmax():
    (emissions,) = sentences([6], 5)
    zeros = crf.Transitions(tf.zeros([TAGS, TAGS]), tf.zeros(TAGS), tf.zeros(TAGS))
    tags = [0, 2, 1, 1, 0, 2]
    actual = log_likelihood(row([(emissions, tags, True, True)]), zeros)
    wanted = tf.nn.log_softmax(emissions).numpy()[range(6), tags].sum()
    assert float(actual[0]) == pytest.approx(wanted, abs=1e-5)


def padded(parts, transitions):
    """Emissions [sentences, most units, TAGS] with their edges, and the lengths."""
    lengths = np.array([len(part) for part in parts])
    emissions = np.zeros((len(parts), lengths.max(), TAGS), np.float32)
    edges = np.zeros(emissions.shape[:2], np.int32)
    for number, part in enumerate(parts):
        emissions[number, : len(part)] = part
        edges[number, 0] += crf.FIRST
        edges[number, len(part) - 1] += crf.LAST
    emissions = crf.with_edges(tf.constant(emissions), edges, transitions)
    return emissions, tf.constant(lengths, tf.int32)


RULES = crf.Transitions(
    np.array([[1, 1, 0], [1, 0, 1], [0, 1, 1]], bool),
    np.array([1, 1, 0], bool),
    np.array([1, 0, 1], bool),
)


@pytest.mark.parametrize("rules", [False, True])
def test_decoding_is_that_of_all_sequences(transitions, rules):
    parts = sentences([1, 4, 6, 2, 5], 6)
    if rules:
        transitions = crf.allowed(transitions, RULES)
    emissions, lengths = padded(parts, transitions)
    found = crf.viterbi(emissions, lengths, transitions.follow).numpy()
    shares = crf.marginals(emissions, lengths, transitions.follow).numpy()
    for number, part in enumerate(parts):
        known, units = Enumerated(part, transitions), len(part)
        assert found[number, :units].tolist() == known.best
        assert not found[number, units:].any() and not shares[number, units:].any()
        np.testing.assert_allclose(shares[number, :units], known.marginals, atol=2e-6)


def test_no_sequence_breaks_the_rules(transitions):
    """However loudly the emissions ask for it."""
    only = crf.allowed(transitions, RULES)
    draw = np.random.default_rng(7)
    parts = [draw.normal(size=(draw.integers(1, 30), TAGS)) * 50 for _ in range(2000)]
    emissions, lengths = padded(parts, only)
    found = crf.viterbi(emissions, lengths, only.follow).numpy()
    for tags, length in zip(found, lengths.numpy(), strict=True):
        own = tags[:length]
        assert RULES.first[own[0]] and RULES.last[own[-1]]
        assert RULES.follow[own[:-1], own[1:]].all()


def test_of_equal_scores_the_first_tags_are_taken():
    zeros = crf.Transitions(tf.zeros([TAGS, TAGS]), tf.zeros(TAGS), tf.zeros(TAGS))
    emissions = tf.zeros([2, 4, TAGS])
    found = crf.viterbi(emissions, tf.constant([4, 2]), zeros.follow)
    assert not found.numpy().any()
