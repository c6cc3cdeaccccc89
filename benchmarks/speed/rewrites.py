"""Our side of rewriting: texts as a run or a server rewrites them, and passes alone.

Weights are random, so the words make no sense, and the true tags replace the model's,
which are computed all the same. So as many words are written as the references have.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from benchmarks import pairs
from benchmarks.harness import SHARED, Contestant
from benchmarks.speed.towers import towers_of
from benchmarks.speed.workloads import CLASSES, VOCAB_FILE, Shape
from bert_mgpu.core.rows import Example, Features, Ragged
from bert_mgpu.text.tokenization import Tokenizer

_MAX_INSERT, _MARKER = 12, "[SLOT]"
_ENGLISH = SHARED / "data" / "vocab" / "uncased_vocab.txt"
_FEW, _MANY = 12, 512  # texts of a round: one by one, in batches
_NEVER = -1e30


class Texts(NamedTuple):
    """Texts, the tags that turn them into their targets, and the targets' lengths."""

    tokenizer: Tokenizer
    examples: list[Example]
    tags: list[list[int]]
    targets: list[int]  # tokens of each


@functools.cache
def texts_of(data: str, length: int, *, one_by_one: bool) -> Texts:
    """Evenly spaced pairs of the dev set that tags can express and that fit a row."""
    from bert_mgpu.tasks.rewriting import tags
    from bert_mgpu.text.edits import edits_of

    read, vocab = {
        "utterances": (pairs.utterances, VOCAB_FILE),
        "sentences": (pairs.sentences, _ENGLISH),
    }[data]
    tokenizer, rows = Tokenizer(str(vocab)), read()["dev"]
    ids = [(tokenizer.ids(row["source"]), tokenizer.ids(row["target"])) for row in rows]
    found = []
    for row, (_, target), edits in zip(rows, ids, edits_of(ids), strict=True):
        own, context = tags.of_edits(edits, _MAX_INSERT), row.get("context")
        size = len(edits.keeps) + len(edits.written) + len(tokenizer.ids(context or ""))
        if own is not None and size + 3 <= length:
            example = Example("", row["source"], context)
            found.append((example, own, len(target)))
    count = _FEW if one_by_one else _MANY
    chosen = found[:: len(found) // count][:count]
    return Texts(tokenizer, *map(list, zip(*chosen, strict=True)))


def _config_of(shape: Shape, texts: Texts) -> Any:
    """The configuration of BERT with the vocabulary of the texts."""
    return dataclasses.replace(shape.config, vocab_size=len(texts.tokenizer.tokens))


def features_of(texts: Texts, length: int) -> Features:
    """The rows of the texts: [CLS] context [SEP] source [SEP]."""
    from bert_mgpu.tasks.rewriting import dataset

    return dataset.featurise(
        texts.examples,
        texts.tokenizer,
        max_seq_length=length,
        max_insert=_MAX_INSERT,
        slot_marker=_MARKER,
    )


def _settings(shape: Shape, streams: bool) -> Any:
    from bert_mgpu.evaluation.forward import ForwardSettings

    return ForwardSettings(
        "predict",
        shape.batch,
        shape.length,
        "float32",
        recompute="none",
        streams=streams,
    )


def _task(shape: Shape, texts: Texts) -> Any:
    """A task that uses the true tags instead of its own."""
    from bert_mgpu.config.rewriting import RewriteChoice
    from bert_mgpu.core.task import Forward
    from bert_mgpu.tasks.rewriting.decoding import TAGS
    from bert_mgpu.tasks.rewriting.task import Rewriting

    class TrueTags(Rewriting):
        true: Sequence[Sequence[int]] = ()  # of the rows that are inferred next

        def infer(self, rows: Features, forward: Forward) -> Any:
            first = [True]

            def passed(own: Features) -> Any:
                found = forward(own)
                if not first:
                    return found
                first.clear()
                scores = found[TAGS]
                values = np.full_like(scores.values, _NEVER)
                segments = own.ragged["segment_ids"].values
                # After the source comes its end, whose tag is the last one.
                at = np.flatnonzero(segments == 1)
                values[at, np.concatenate([*self.true])] = 0.0
                return {**found, TAGS: Ragged(values, scores.offsets)}

            return super().infer(rows, passed)

    return TrueTags(
        "x",
        _config_of(shape, texts),
        texts.tokenizer,
        max_seq_length=shape.length,
        max_insert=_MAX_INSERT,
        slot_marker=_MARKER,
        choice=RewriteChoice(num_candidates=1),
    )


def ours_rewrites(shape: Shape, *, data: str, one_by_one: bool = False) -> Contestant:
    """Rewrites texts: all as a run does, or each by itself, with compiled shapes, as a
    server does once they have come often.
    """
    from bert_mgpu.data.forward_batching import PassShape
    from bert_mgpu.evaluation.forward import forward
    from bert_mgpu.runs.run import expect_few_shapes

    expect_few_shapes()
    texts = texts_of(data, shape.length, one_by_one=one_by_one)
    task, settings = _task(shape, texts), _settings(shape, streams=one_by_one)
    towers, rounds = towers_of(task, shape, {}), list[int]()
    known = list[PassShape]()

    def passed(rows: Any) -> Any:
        return forward(rows, towers, settings, note=lambda text: None, known=known)

    def step(numbers: list[int]) -> float:
        own = Texts(texts.tokenizer, *([c[n] for n in numbers] for c in texts[1:]))
        rows, task.true = features_of(own, shape.length), own.tags
        outputs = task.infer(rows, passed)
        scored = task.scored_rows(outputs, rows, lambda: own.examples)
        rounds.extend(each[0].rounds for each in scored.candidates)
        return float(sum(map(len, task.decide(scored).texts)))

    def report() -> dict[str, Any]:
        size = max(
            one.rows.rows * one.targets
            if one.real_targets is None
            else one.real_targets
            for one in known
        )
        size *= 4 * len(texts.tokenizer.tokens)
        return {
            "mean_rounds": sum(rounds) / len(rounds),
            "word_logits_mb": round(size / 2**20, 1),
        }

    everything = [*range(len(texts.examples))]
    steps = [[number] for number in everything] if one_by_one else [everything]
    warm_up = [own for own in steps for _ in range(3)]
    return Contestant(step, lambda _: steps, warm_up, len(everything), report)


def ours_passes(shape: Shape, *, data: str, classifies: bool = False) -> Contestant:
    """The forward pass alone over the same texts, of this task or of a classifier."""
    from bert_mgpu.evaluation.forward import forward
    from bert_mgpu.tasks.classification.task import Classification

    texts = texts_of(data, shape.length, one_by_one=False)
    task = _task(shape, texts)
    if classifies:
        labels = [str(label) for label in range(CLASSES)]
        task = Classification(
            "x", _config_of(shape, texts), labels, max_seq_length=shape.length
        )
    towers, settings = towers_of(task, shape, {}), _settings(shape, streams=False)
    rows = features_of(texts, shape.length)
    if classifies:
        rows = Features(
            {name: rows.ragged[name] for name in ("input_ids", "segment_ids")},
            {},
            rows.lines,
        )

    def step(_: None) -> float:
        outputs = forward(rows, towers, settings, note=lambda text: None)
        column = outputs["logits" if classifies else "tag_scores"]
        return float(np.sum(column if classifies else column.values))

    return Contestant(step, lambda number: [None], [None] * 3, len(texts.examples))


MAKERS = {"ours_rewrites": ours_rewrites, "ours_passes": ours_passes}
