"""Phrases ranked without a ranker: by the pseudo-log-likelihood of their tokens.

The mean log p of a phrase's tokens, each masked alone in the whole text (Salazar et al.
2020), by transformers' BertForMaskedLM with the weights of a folder of ours.
"""

from __future__ import annotations

import pathlib
import shutil
import subprocess
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from benchmarks.harness import ROOT

_BATCH = 64


class Slot(NamedTuple):
    """What stands before and after a slot, and the phrases for it."""

    before: str
    after: str
    phrases: Sequence[str]


class _Masked(NamedTuple):
    """A text with one token to be masked."""

    ids: list[int]
    place: int
    slot: int
    phrase: int


def ranks_of_first(
    slots: Sequence[Slot], weights: pathlib.Path, exported: pathlib.Path
) -> np.ndarray:
    """The rank of the first phrase of each slot, from 1: int [slots].

    Of equally likely phrases the first comes last. exported: a folder for the weights
    in transformers' format, which is replaced.
    """
    import torch
    import transformers

    from bert_mgpu.text.tokenization import Tokenizer

    shutil.rmtree(exported, ignore_errors=True)
    flags = [f"--init_checkpoint={weights}", f"--export_hf={exported}"]
    command = [sys.executable, "-m", "bert_mgpu", "convert", *flags]
    subprocess.run(command, check=True, cwd=ROOT)
    model = transformers.BertForMaskedLM.from_pretrained(exported)
    tokenizer = Tokenizer(str(exported / "vocab.txt"))
    rows = _masked(slots, tokenizer)
    sums, counts = np.zeros([2, len(slots), max(len(own.phrases) for own in slots)])
    for first in range(0, len(rows), _BATCH):
        part = rows[first : first + _BATCH]
        inputs = torch.zeros([len(part), len(part[-1].ids)], dtype=torch.int64)
        for numbers, row in zip(inputs, part, strict=True):
            numbers[: len(row.ids)] = torch.tensor(row.ids)
            numbers[row.place] = tokenizer.mask_id
        places = torch.tensor([row.place for row in part])
        with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
            hidden = model.bert(inputs, (inputs > 0).long()).last_hidden_state
            scores = model.cls(hidden[torch.arange(len(part)), places])
        for values, row in zip(scores.float().log_softmax(-1), part, strict=True):
            sums[row.slot, row.phrase] += float(values[row.ids[row.place]])
            counts[row.slot, row.phrase] += 1
    means = np.where(counts, sums / np.maximum(counts, 1), -np.inf)
    return 1 + (means[:, 1:] >= means[:, :1]).sum(1)


def _masked(slots: Sequence[Slot], tokenizer: Any) -> list[_Masked]:
    """The rows of all phrases, the shortest first."""
    found = []
    for number, slot in enumerate(slots):
        before = [tokenizer.cls_id, *tokenizer.ids(slot.before)]
        after = [*tokenizer.ids(slot.after), tokenizer.sep_id]
        for index, phrase in enumerate(slot.phrases):
            own = tokenizer.ids(phrase)
            ids = [*before, *own, *after]
            found += [
                _Masked(ids, len(before) + place, number, index)
                for place in range(len(own))
            ]
    return sorted(found, key=lambda row: len(row.ids))
