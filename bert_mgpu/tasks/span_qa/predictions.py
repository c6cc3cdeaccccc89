"""Predicted answers, as they are written to each result file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from bert_mgpu.core import run_files
from bert_mgpu.core.task import Display, Predictions
from bert_mgpu.tasks.span_qa import answers
from bert_mgpu.tasks.span_qa.answers import Answer
from bert_mgpu.tasks.span_qa.scored import AnsweredSet

_DIGITS = 6  # decimals of a probability


def decide(scored: AnsweredSet) -> Predictions:
    """The predictions of a set.

    predict.txt has the answers, test_results.tsv the start, the end and the probability
    of each; the other files are those of google-research/bert's run_squad.py.
    """
    texts, values, records = list[str](), list[np.ndarray](), list[dict[str, Any]]()
    chosen_texts, lists = dict[str, str](), dict[str, list[dict[str, Any]]]()
    odds = dict[str, float]()
    for number, example in enumerate(scored.examples):
        chosen, n_best = scored.chosen[number], scored.n_best[number]
        shares = answers.probabilities(n_best)
        share = round(shares[n_best.index(chosen)], _DIGITS)
        texts.append(chosen.text)
        values.append(np.array([chosen.start, chosen.end, share], object))
        record = {**_place(example.text_b or "", chosen), "probability": share}
        name = str(example.guid)
        if scored.odds is not None:
            odds[name] = float(scored.odds[number])
            record["null_odds"] = round(odds[name], _DIGITS)
        records.append(record)
        chosen_texts[name] = chosen.text
        lists[name] = [
            {
                "text": one.text,
                "probability": own,
                "start_logit": one.start_logit,
                "end_logit": one.end_logit,
            }
            for one, own in zip(n_best, shares, strict=True)
        ]
    files = {run_files.ANSWERS: _json(chosen_texts), run_files.N_BEST: _json(lists)}
    if scored.odds is not None:
        files[run_files.NULL_ODDS] = _json(odds)
    return Predictions(texts, values, records, files=files)


def _place(context: str, answer: Answer) -> dict[str, Any]:
    if answer.start < 0:
        return {"answer": "", "start": None, "end": None}
    text = context[answer.start : answer.end]
    return {"answer": text, "start": answer.start, "end": answer.end}


def _json(values: Mapping[str, Any]) -> list[str]:
    """The text of a JSON file, indented as google-research/bert writes it."""
    return [json.dumps(values, indent=4) + "\n"]


def display(record: Mapping[str, Any]) -> Display:
    """The answer of a record, with its probability."""
    if record["start"] is None:
        return Display("no answer")
    bars = [(record["answer"], record["probability"])]
    place = record["start"], record["end"], ""
    return Display(record["answer"], bars, [place])
