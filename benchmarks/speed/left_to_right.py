"""Peers that rewrite texts from left to right, with transformers and random weights.

They write as many tokens as the reference has: a decoder of the same size with a cache,
or the encoder alone, which reads everything anew for each token, like UniLM without a
cache. Each text of a batch gets as many tokens as the longest of them needs, so their
texts a second are their tokens a second, divided by the mean number of tokens of a
reference. They take 4 of 16 batches, which are sorted by the length of the references.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from benchmarks.harness import Contestant
from benchmarks.speed.rewrites import Texts, features_of, texts_of
from benchmarks.speed.workloads import SEED, Shape

_TAKEN = (1, 6, 9, 14)  # batches, by the length of their references


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

    ids = features_of(texts, shape.length).ragged["input_ids"]
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
    texts = texts_of(data, shape.length, one_by_one=one_by_one)
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
    "bert2bert_rewrites": bert2bert_rewrites,
    "unilm_rewrites": unilm_rewrites,
}
