"""A linear-chain conditional random field over units (Lafferty et al. 2001).

The score of a sequence of tags is the sum of its units' emissions and of the scores in
`Transitions` for each tag that follows another one, or begins or ends a sentence.

Letters: R rows, T tokens, L tags. The units of a row form one chain or several, one
after the other, with tokens between them that are not units.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import tensorflow as tf

from bert_mgpu.model import layers

_NEVER = -1e9  # a score that no others can make up for; finite, so that gradients are
# Bits of a unit's edges: it is the first or the last one of its sentence.
FIRST, LAST = 1, 2


class Transitions(NamedTuple):
    """Scores of tags in addition to their emissions: float32."""

    follow: Any  # [L, L]: of a tag (down) and the next one (across)
    first: Any  # [L]: at the start of a sentence
    last: Any  # [L]: at its end


def allowed(transitions: Transitions, rules: Transitions) -> Transitions:
    """The transitions, but ruled out where the rules, bool arrays, are False."""
    pairs = zip(transitions, rules, strict=True)
    return Transitions(*(tf.where(rule, score, _NEVER) for score, rule in pairs))


def with_edges(
    emissions: tf.Tensor, edges: tf.Tensor, transitions: Transitions
) -> tf.Tensor:
    """Emissions [R, T, L] with the scores of tags at the edges of sentences.

    edges: int32 [R, T], sums of FIRST and LAST, or 0.
    """
    for bit, scores in ((FIRST, transitions.first), (LAST, transitions.last)):
        at_edge = tf.bitwise.bitwise_and(edges, bit) > 0
        emissions += tf.where(at_edge[..., None], scores, 0.0)
    return emissions


def log_partition(
    emissions: tf.Tensor, units: tf.Tensor, starts: tf.Tensor, *, follow: tf.Tensor
) -> tf.Tensor:
    """The log of the sum of exp(score) over all tag sequences of a row's chains: [R].

    emissions: float32 [R, T, L], `with_edges`; units: bool [R, T]; starts: bool [R, T],
    the first unit of each chain; follow: as in `Transitions`. Running values are kept
    small, so that the derivatives are exact in long rows, too.
    """
    rows, _, tags = layers.shape_list(emissions)

    def step(state: tuple[tf.Tensor, tf.Tensor], inputs: tuple[tf.Tensor, ...]) -> Any:
        (alpha, past), (emission, is_unit, is_start) = state, inputs  # is_: [R, 1]
        chains = tf.reduce_logsumexp(alpha, -1, keepdims=True)  # the chains before
        inside = tf.reduce_logsumexp(alpha[:, :, None] + follow, 1)
        new = emission + tf.where(is_start, chains, inside)
        new = tf.where(is_unit, new, alpha)
        most = tf.stop_gradient(tf.reduce_max(new, -1, keepdims=True))
        return new - most, past + most

    # log(1) before the first chain
    none = tf.one_hot(0, tags, 0.0, _NEVER, dtype=emissions.dtype)
    by_token = [
        tf.transpose(emissions, [1, 0, 2]),
        tf.transpose(units)[..., None],
        tf.transpose(starts)[..., None],
    ]
    first = tf.broadcast_to(none, [rows, tags]), tf.zeros([rows, 1], emissions.dtype)
    alpha, past = tf.foldl(step, by_token, first)
    return tf.reduce_logsumexp(alpha, -1) + past[:, 0]


def losses(
    emissions: tf.Tensor,
    tag_ids: tf.Tensor,
    prior_ids: tf.Tensor,
    *,
    edges: tf.Tensor,
    transitions: Transitions,
) -> tf.Tensor:
    """-log p of the given tags of all chains of a row: [R].

    emissions: float32 [R, T, L]; tag_ids, prior_ids: as in `path_scores`; edges: as in
    `with_edges`.
    """
    emissions = with_edges(emissions, edges, transitions)
    units, starts, follow = tag_ids > 0, prior_ids == 0, transitions.follow
    total = log_partition(emissions, units, starts, follow=follow)
    return total - path_scores(emissions, tag_ids, prior_ids, follow=follow)


def path_scores(
    emissions: tf.Tensor, tag_ids: tf.Tensor, prior_ids: tf.Tensor, *, follow: tf.Tensor
) -> tf.Tensor:
    """The scores of the given tags of all chains of a row: [R].

    emissions: as in `log_partition`; tag_ids: int32 [R, T], 1 + the tag, 0 where there
    is no unit; prior_ids: the same for the unit before, 0 where a chain begins.
    """
    is_unit = tag_ids > 0
    tags = tf.maximum(tag_ids - 1, 0)
    own = tf.gather(emissions, tags, batch_dims=2)
    moves = tf.gather_nd(follow, tf.stack([tf.maximum(prior_ids - 1, 0), tags], -1))
    scores = own + tf.where(prior_ids > 0, moves, 0.0)
    return tf.reduce_sum(tf.where(is_unit, scores, 0.0), -1)


def viterbi(emissions: tf.Tensor, lengths: tf.Tensor, follow: tf.Tensor) -> tf.Tensor:
    """The tags with the highest score of each sentence: int32 [R, T], 0 after its end.

    emissions: float32 [R, T, L], `with_edges`; lengths: int32 [R], in units. Among
    tags with the same score the first one is chosen. (Viterbi 1967)
    """
    tags = layers.shape_list(emissions)[2]
    places = tf.range(tf.shape(emissions)[1])

    def forward(state: Any, inputs: Any) -> Any:
        (best, _), (emission, place) = state, inputs
        scores = best[:, :, None] + follow  # [R, L, L]
        inside = (place < lengths)[:, None]
        new = tf.where(inside, emission + tf.reduce_max(scores, 1), best)
        new -= tf.reduce_max(new, -1, keepdims=True)  # exact in long sentences, too
        origin = tf.argmax(scores, 1, tf.int32)
        return new, tf.where(inside, origin, tf.range(tags))

    by_token = tf.transpose(emissions, [1, 0, 2])
    first = by_token[0], tf.zeros_like(by_token[0], tf.int32)
    scores, origins = tf.scan(forward, (by_token[1:], places[1:]), first)
    best = tf.concat([by_token[:1], scores], 0)[-1]
    end = tf.argmax(best, -1, tf.int32)
    back = tf.scan(
        lambda tag, origin: tf.gather(origin, tag, batch_dims=1),
        origins,
        end,
        reverse=True,
    )
    found = tf.transpose(tf.concat([back, end[None]], 0))
    return tf.where(places < lengths[:, None], found, 0)


def marginals(emissions: tf.Tensor, lengths: tf.Tensor, follow: tf.Tensor) -> tf.Tensor:
    """The probability of each tag of each unit: float32 [R, T, L], 0 after the end.

    It is the derivative of the log partition with respect to the emission. For the
    arguments see `viterbi`.
    """
    places = tf.range(tf.shape(emissions)[1])
    units = places < lengths[:, None]
    starts = tf.broadcast_to(places == 0, tf.shape(units))
    with tf.GradientTape() as tape:
        tape.watch(emissions)
        total = log_partition(emissions, units, starts, follow=follow)
    return tape.gradient(total, emissions)
