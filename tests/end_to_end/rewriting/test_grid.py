"""Rows x batch x towers x placement never change the texts, nor their order."""

import dataclasses
import functools
import itertools

import numpy as np
import pytest

from bert_mgpu.checkpoints import google_read, pretrained
from bert_mgpu.config import parsing
from bert_mgpu.config.finetuning import FinetuneConfig
from bert_mgpu.core.rows import Example, Ragged
from bert_mgpu.runs import load
from bert_mgpu.text.realise import TextEdit
from tests.support import rewriting
from tests.support.marks import rarely
from tests.support.realised import applied

COUNTS, BATCHES = range(1, 68), range(1, 10)  # make test-all
# How rows are placed: sorted by length, packed, or as a stream has them.
PLACEMENTS = (
    {"packs": False, "streams": False},
    {"packs": True, "streams": False},
    {"streams": True},
)
# Beside those of the tiny model's words: with slots, blank, dropped, and too long.
ODD = (
    *("", "sun [SLOT] joy", "[SLOT]", "\ufe0f", "ｌｏｓｓ 好的", "한국 loss\nsun"),
    *("the the [SLOT] [SLOT]", "loss\u0301 🎉 the", "loss " * 40, "好" * 40),
)


@functools.cache
def examples():
    texts = [
        (row["source"], row["context"])
        for row in rewriting.pairs(COUNTS[-1] - len(ODD), 5)
    ]
    for place, text in enumerate(ODD):
        texts.insert(place * 2, (text, "joy " * (place % 3 * 9)))
    return [
        Example(number, *pair, line=number + 1) for number, pair in enumerate(texts)
    ]


def loaded(folder, towers):
    flags = {"output_dir": folder, "do_predict": True, "predict_file": "-"}
    flags |= {"n_gpus": towers, "xla": "off"}
    config, _ = parsing.parse(["", *parsing.arguments(flags)], "", FinetuneConfig)
    config, _ = pretrained.as_trained(config, folder)
    return load.load(config, folder, ["CPU:0", "CPU:1"][:towers])


@functools.cache
def one_by_one(folder, count):
    """The predictions of the first examples: each row alone, without padding."""
    predictor, own = loaded(folder, 1), examples()[:count]
    params, task = google_read.read(folder), predictor.task

    def forward(rows):
        found = {}
        for number in range(len(rows)):
            columns = {name: c.row(number)[None] for name, c in rows.ragged.items()}
            columns["input_mask"] = np.ones_like(columns["input_ids"])
            if rows.target_counts[number]:
                own = {name: c.row(number)[None] for name, c in rows.targets.items()}
                weights = np.ones(own["masked_lm_ids"].shape, np.float32)
                columns |= {**own, "masked_lm_weights": weights}
            for name, values in task.outputs(params, columns).items():
                found.setdefault(name, []).append(values[0].numpy())
        offsets = rows.ragged["input_ids"].offsets
        return {name: Ragged(np.concatenate(v), offsets) for name, v in found.items()}

    rows = predictor.data.featurise(own)
    outputs = task.infer(rows, forward)
    return task.decide(task.scored_rows(outputs, rows, lambda: own))


def texts_of(record):
    return [candidate["text"] for candidate in record["candidates"]]


@pytest.mark.parametrize(
    ("towers", "placements", "counts", "batches"),
    [
        (3, PLACEMENTS, (1, 20), (4,)),
        *rarely(
            *(
                (towers, [placement], COUNTS, [batch])
                for towers in (1, 2, 3, 4)
                for placement in PLACEMENTS
                for batch in BATCHES
            )
        ),
    ],
)
def test_texts_are_those_of_single_rows(rewriter, towers, placements, counts, batches):
    folder, count = rewriter(), counts[-1]
    predictor, wanted = loaded(folder, towers), one_by_one(folder, count)
    for record, one in zip(wanted.records, examples()[:count], strict=True):
        edits = [TextEdit(*edit) for edit in record["edits"]]
        assert applied(one.text_a, edits) == record["text"]
    assert sum(len(record["edits"]) for record in wanted.records) > count / 2
    assert max(len(record["candidates"]) for record in wanted.records) > 2
    for count, batch in itertools.product(counts, batches):
        for changed in placements:
            settings = dataclasses.replace(
                predictor.settings, batch_size=batch, **changed
            )
            asked = dataclasses.replace(predictor, settings=settings)
            actual, case = asked.predict(examples()[:count]), (count, batch, changed)
            assert actual.texts == wanted.texts[:count], case
            for one, other in zip(actual.records, wanted.records, strict=False):
                assert texts_of(one) == texts_of(other), case
                assert one["edits"] == other["edits"], case
            for one, other in zip(actual.values, wanted.values, strict=False):
                assert one == pytest.approx(other, abs=1e-4)
