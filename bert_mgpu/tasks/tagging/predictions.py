"""Predicted entities, as they are written to each result file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from bert_mgpu.core import run_files
from bert_mgpu.core.task import Display, Predictions
from bert_mgpu.tasks.tagging import bio
from bert_mgpu.tasks.tagging.dataset import snapped, unit_spans
from bert_mgpu.tasks.tagging.decoding import TaggedSet

_DIGITS = 6  # decimals of a probability
_LEFT, _RIGHT = "[", "]"  # around an entity in a text


def decide(scored: TaggedSet) -> Predictions:
    """The predictions of a set.

    A line of predict.txt has the tags of the words, or start:end:TYPE of each entity if
    the text is not given as words, separated by spaces; a line of test_results.tsv has
    the probability of each unit's tag.
    """
    texts, values, records = list[str](), list[np.ndarray](), list[dict[str, Any]]()
    for number, example in enumerate(scored.examples):
        # In long sentences, rounding in float32 may carry a share past 1.
        shares = scored.decoded[1].row(number).astype(float).round(_DIGITS)
        shares = shares.clip(0.0, 1.0)
        record: dict[str, Any] = {"entities": _entities(scored, number, shares)}
        if example.words is None:
            spans = scored.entities[number]
            texts.append(" ".join(f"{s.start}:{s.end}:{s.type}" for s in spans))
        else:
            record = {"text": example.text_a, **record}
            texts.append(" ".join(_tags(scored, number)))
        values.append(shares)
        records.append(record)
    files = {run_files.TAGGED: [*_conlleval(scored)]}
    return Predictions(texts, values, records, files=files)


def _tags(scored: TaggedSet, number: int) -> list[str]:
    """The predicted tags of the units of a sentence."""
    return [scored.tags[tag] for tag in scored.decoded[0].row(number).tolist()]


def _entities(
    scored: TaggedSet, number: int, shares: np.ndarray
) -> list[dict[str, Any]]:
    """Entities as JSON values; the probability is the lowest of the entity's units."""
    text = scored.examples[number].text_a
    pairs = zip(scored.entities[number], scored.unit_entities[number], strict=True)
    return [
        {
            "start": span.start,
            "end": span.end,
            "type": span.type,
            "text": text[span.start : span.end],
            "probability": float(shares[units.start : units.end].min()),
        }
        for span, units in pairs
    ]


def _conlleval(scored: TaggedSet) -> Iterator[str]:
    """Yields input for conlleval: a line for each unit, a blank one after a sentence.

    It has the unit, its true tag if the whole file has labels, and its predicted tag.
    """
    scheme = bio.scheme_of(scored.tags)
    is_known = all(example.label is not None for example in scored.examples)
    for number, example in enumerate(scored.examples):
        places, tags = scored.places.row(number), _tags(scored, number)
        if is_known:
            true = snapped(example.label.spans, example.text_a, places)
            true = unit_spans(true, places)
            written = bio.write_tags(true, len(places), scheme)
            tags = [f"{own} {tag}" for own, tag in zip(written, tags, strict=True)]
        for (start, end), tag in zip(places.tolist(), tags, strict=True):
            yield f"{example.text_a[start:end]} {tag}\n"
        yield "\n"


def display(record: Mapping[str, Any]) -> Display:
    """The entities of a record, each with its type and its probability."""
    entities: Sequence[Mapping[str, Any]] = record["entities"]
    if not entities:
        return Display("no entity")
    bars = [
        (f"{each['text']} {each['type']}", each["probability"]) for each in entities
    ]
    spans = [(one["start"], one["end"], one["type"]) for one in entities]
    return Display(", ".join(name for name, _ in bars), bars, spans)
