"""Contestants that rewrite texts, writing as many words as the references have.

Weights are random, so the words make no sense, and the true tags replace the model's,
which are computed all the same. The others write as many tokens as the reference has
from left to right: a decoder of the same size with a cache, or the encoder alone, which
reads everything anew for each token, like UniLM without a cache. Each text of a batch
gets as many tokens as the longest of them needs, so their texts a second are their
tokens a second, divided by the mean number of tokens of a reference. They take 4 of 16
batches, which are sorted by the length of the references.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from benchmarks import pairs
from benchmarks.harness import SHARED, Contestant
from benchmarks.speed.towers import towers_of
from benchmarks.speed.workloads import CLASSES, SEED, VOCAB_FILE, Shape
from bert_mgpu.core.rows import Example, Features, Ragged
from bert_mgpu.text.tokenization import Tokenizer

_MAX_INSERT, _MARKER = 12, "[SLOT]"
_ENGLISH = SHARED / "data" / "vocab" / "uncased_vocab.txt"
# Texts of a round: one by one, in batches; of these batches, the ones that the slower
# peers take, by the length of their references.
_FEW, _MANY, _TAKEN = 12, 512, (1, 6, 9, 14)
_NEVER = -1e30


class Texts(NamedTuple):
    """Texts, the tags that turn them into their targets, and the targets' lengths."""

    tokenizer: Tokenizer
    examples: list[Example]
    tags: list[list[int]]
    targets: list[int]  # tokens of each


@functools.cache
def _texts(data: str, count: int, length: int) -> Texts:
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
    chosen = found[:: len(found) // count][:count]
    return Texts(tokenizer, *map(list, zip(*chosen, strict=True)))


def _config_of(shape: Shape, texts: Texts) -> Any:
    """The configuration of BERT with the vocabulary of the texts."""
    return dataclasses.replace(shape.config, vocab_size=len(texts.tokenizer.tokens))


def _features(texts: Texts, length: int) -> Features:
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
    texts = _texts(data, _FEW if one_by_one else _MANY, shape.length)
    task, settings = _task(shape, texts), _settings(shape, streams=one_by_one)
    towers, rounds = towers_of(task, shape, {}), list[int]()
    known = list[PassShape]()

    def passed(rows: Any) -> Any:
        return forward(rows, towers, settings, note=lambda text: None, known=known)

    def step(numbers: list[int]) -> float:
        own = Texts(texts.tokenizer, *([c[n] for n in numbers] for c in texts[1:]))
        rows, task.true = _features(own, shape.length), own.tags
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

    texts = _texts(data, _MANY, shape.length)
    task = _task(shape, texts)
    if classifies:
        labels = [str(label) for label in range(CLASSES)]
        task = Classification(
            "x", _config_of(shape, texts), labels, max_seq_length=shape.length
        )
    towers, settings = towers_of(task, shape, {}), _settings(shape, streams=False)
    rows = _features(texts, shape.length)
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


# -- from left to right -----------------------------------------------------------


def _torch_config(shape: Shape, texts: Texts, **changed: Any) -> Any:
    from benchmarks.speed.transformers_torch import config_of

    config = config_of(shape)
    config.update({"vocab_size": len(texts.tokenizer.tokens), **changed})
    return config


class _Turn(NamedTuple):
    """A batch: [CLS] context [SEP] source [SEP], padded, and the tokens to write."""

    input_ids: Any  # [B, T]
    mask: Any  # [B, T]
    tokens: int  # of the longest target


def _turns(shape: Shape, texts: Texts, batch: int) -> Iterator[_Turn]:
    """The texts in batches for the peers, with targets of similar length together."""
    import torch

    ids = _features(texts, shape.length).ragged["input_ids"]
    order = np.argsort(texts.targets, kind="stable")
    for first in range(0, len(order), batch):
        numbers = order[first : first + batch]
        lengths = ids.lengths[numbers]
        inputs = np.zeros((len(numbers), lengths.max()), np.int64)
        mask = np.arange(lengths.max()) < lengths[:, None]
        inputs[mask] = ids.take(numbers).values
        yield _Turn(
            torch.tensor(inputs),
            torch.tensor(mask.astype(np.int64)),
            int(np.array(texts.targets)[numbers].max()),
        )


class _Peer(NamedTuple):
    """What a peer works on."""

    texts: Texts
    turns: list[_Turn]
    work: float  # texts: the tokens that it writes, over the mean of all references

    def contestant(self, step: Any) -> Contestant:
        return Contestant(step, lambda number: self.turns, self.turns, self.work)


def _peer(shape: Shape, data: str, one_by_one: bool) -> _Peer:
    import os

    import torch

    torch.set_num_threads(len(os.sched_getaffinity(0)))
    torch.manual_seed(SEED)
    texts = _texts(data, _FEW if one_by_one else _MANY, shape.length)
    if one_by_one:
        turns = [*_turns(shape, texts, 1)]
    else:
        batches = [*_turns(shape, texts, shape.batch)]
        turns = [batches[number] for number in _TAKEN]
    tokens = sum(len(turn.mask) * turn.tokens for turn in turns)
    return _Peer(texts, turns, tokens / float(np.mean(texts.targets)))


def bert2bert_rewrites(
    shape: Shape, *, data: str, one_by_one: bool = False
) -> Contestant:
    """transformers' greedy `generate` with its cache; ids are made texts again."""
    import torch
    import transformers as library

    peer = _peer(shape, data, one_by_one)
    texts = peer.texts
    decoder = _torch_config(shape, texts, is_decoder=True, add_cross_attention=True)
    model = library.EncoderDecoderModel(
        encoder=library.BertModel(_torch_config(shape, texts)),
        decoder=library.BertLMHeadModel(decoder),
    ).eval()
    tokenizer = texts.tokenizer

    def step(turn: _Turn) -> float:
        with torch.inference_mode():
            found = model.generate(
                input_ids=turn.input_ids,
                attention_mask=turn.mask,
                min_new_tokens=turn.tokens,
                max_new_tokens=turn.tokens,
                do_sample=False,
                num_beams=1,
                use_cache=True,
                decoder_start_token_id=tokenizer.cls_id,
                eos_token_id=tokenizer.sep_id,
                pad_token_id=0,
            )
        assert found.shape[1] == 1 + turn.tokens
        tokens = np.array(tokenizer.tokens)
        return float(sum(len(" ".join(row)) for row in tokens[found.numpy()]))

    return peer.contestant(step)


def unilm_rewrites(shape: Shape, *, data: str, one_by_one: bool = False) -> Contestant:
    """A [MASK] at the end becomes the next token, again and again, without a cache.

    The input attends only to itself, each written token to all that precedes it.
    """
    import torch
    import transformers as library

    peer = _peer(shape, data, one_by_one)
    texts = peer.texts
    model = library.BertForMaskedLM(_torch_config(shape, texts)).eval()
    mask_id = texts.tokenizer.mask_id

    def step(turn: _Turn) -> float:
        rows, size = turn.input_ids.shape
        written = torch.empty((rows, 0), dtype=torch.long)
        with torch.inference_mode():
            for _ in range(turn.tokens):
                last = torch.full((rows, 1), mask_id)
                ids = torch.cat([turn.input_ids, written, last], 1)
                total = ids.shape[1]
                seen = torch.ones(total, total, dtype=torch.bool).tril()
                seen[:size, :size] = True
                seen = seen.repeat(rows, 1, 1, 1)  # [B, 1, T, T]
                seen[..., :size] &= turn.mask[:, None, None].bool()
                kinds = (torch.arange(total) >= size).long().repeat(rows, 1)
                hidden = model.bert(ids, seen, kinds).last_hidden_state[:, -1:]
                written = torch.cat([written, model.cls(hidden).argmax(-1)], 1)
        return float(written.sum())

    return peer.contestant(step)


MAKERS = {
    "ours_rewrites": ours_rewrites,
    "ours_passes": ours_passes,
    "bert2bert_rewrites": bert2bert_rewrites,
    "unilm_rewrites": unilm_rewrites,
}
