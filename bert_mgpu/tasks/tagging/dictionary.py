"""A baseline that a model has to beat: looks up the entities of the training set.

From left to right, it takes the longest sequence of units that is an entity in most
places where it occurs in the training set, and gives it its most frequent type.
"""

from __future__ import annotations

import collections
from collections.abc import Iterable, Iterator, Mapping, Sequence

from bert_mgpu.core.rows import Features
from bert_mgpu.tasks.tagging import bio, metrics
from bert_mgpu.tasks.tagging.bio import Span
from bert_mgpu.tasks.tagging.dataset import in_units, sentences

NAME = "the training set's entities"
_Words = tuple[int, ...]


def scores(
    train: Features, sets: Mapping[str, Features], tags: Sequence[str]
) -> dict[str, dict[str, float]]:
    """The scores of each set, by its name; tags: the model's."""
    types = bio.types_of(tags)
    known = _known(train)
    lengths = _lengths(known)
    found = {}
    for name, rows in sets.items():
        truth, predicted = list[list[Span]](), list[list[Span]]()
        for keys, places, entities in sentences(rows):
            truth.append([Span(s, e, types[k]) for s, e, k in entities.tolist()])
            predicted.append(
                [
                    Span(int(places[start, 0]), int(places[end - 1, 1]), types[kind])
                    for start, end, kind in _matches(keys, known, lengths)
                ]
            )
        found[name] = metrics.scores(metrics.count(truth, predicted))
    return found


def _known(train: Features) -> dict[_Words, int]:
    """The entities to look up, as keys of units, and the index of the type of each."""
    counts: dict[_Words, collections.Counter[int]] = {}
    for keys, places, entities in sentences(train):
        for start, end, kind in in_units(entities.tolist(), places):
            counts.setdefault((*keys[start:end],), collections.Counter())[kind] += 1
    known = {words: kinds.most_common(1)[0][0] for words, kinds in counts.items()}
    lengths = _lengths(known)
    found, right = collections.Counter[_Words](), collections.Counter[_Words]()
    for keys, places, entities in sentences(train):
        truth = {(start, end): kind for start, end, kind in entities.tolist()}
        for start, end, kind in _matches(keys, known, lengths):
            words = (*keys[start:end],)
            found[words] += 1
            place = int(places[start, 0]), int(places[end - 1, 1])
            right[words] += truth.get(place) == kind
    return {
        words: kind for words, kind in known.items() if 2 * right[words] > found[words]
    }


def _lengths(known: Iterable[_Words]) -> dict[int, list[int]]:
    """For each first key of an entity the lengths of such entities, longest first."""
    found = collections.defaultdict[int, set[int]](set)
    for words in known:
        found[words[0]].add(len(words))
    return {key: sorted(lengths, reverse=True) for key, lengths in found.items()}


def _matches(
    keys: Sequence[int], known: Mapping[_Words, int], lengths: Mapping[int, list[int]]
) -> Iterator[tuple[int, int, int]]:
    """Yields (start, end, type) of the longest matches, from left to right.

    Only the lengths of entities with the same first key are tried: one long entity in
    the training set does not slow down the search everywhere.
    """
    start = 0
    while start < len(keys):
        for length in lengths.get(keys[start], ()):
            end = start + length
            kind = known.get((*keys[start:end],)) if end <= len(keys) else None
            if kind is not None:
                yield start, end, kind
                start = end
                break
        else:
            start += 1
