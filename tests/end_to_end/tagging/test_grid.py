"""Sentences x batch x towers x placement never change the entities, nor their order."""

import dataclasses
import itertools
import json

import numpy as np
import pytest

from bert_mgpu.checkpoints import google_read
from bert_mgpu.config.finetuning import FinetuneConfig
from bert_mgpu.core.rows import Example, Ragged
from bert_mgpu.runs import load
from bert_mgpu.tasks.tagging import predictions
from bert_mgpu.tasks.tagging.decoding import TaggedSet
from tests.support import entities
from tests.support.marks import rarely

SENTENCES, BATCHES = range(1, 68), range(1, 10)  # make test-all
# How rows are placed: sorted by length, packed, or as a stream has them.
PLACEMENTS = (
    {"packs": False, "streams": False},
    {"packs": True, "streams": False},
    {"streams": True},
)
# Beside those of the tiny model's words: blank, dropped, full-width, and Hangul.
ODD = ("", "\ufe0f", "ｓｕｎ 好的", "한국 sun", "rain\u0301 joy 🎉 the", "好" * 40)


@pytest.fixture(scope="module")
def model(tiny, tmp_path_factory):
    """The output_dir of a training."""
    from bert_mgpu.cli import run_classifier

    root = tmp_path_factory.mktemp("grid")
    entities.write_task(root / "data", "cluener")
    flags = {"do_train": True, "num_train_epochs": 8, "learning_rate": 5e-3}
    flags |= {"data_dir": root / "data", "train_batch_size": 8}
    assert run_classifier.main(["", *tiny.flags(root / "out", "cluener", **flags)]) == 0
    return root / "out"


@pytest.fixture(scope="module")
def examples():
    texts = [json.loads(line)["text"] for line in entities.spans(
        entities.sentences(SENTENCES[-1] - len(ODD), 5))]  # fmt: skip
    for place, text in enumerate(ODD):
        texts.insert(place * 9, text)
    return [Example(n, text, line=n + 1) for n, text in enumerate(texts)]


def loaded(model, towers):
    config = FinetuneConfig(
        task_name="cluener",
        data_dir=str(model),
        do_predict=True,
        predict_file="-",
        max_seq_length=16,
        n_gpus=towers,
        xla="off",
    )
    return load.load(config, model, ["CPU:0", "CPU:1"][:towers])


def one_by_one(model, examples, predictor):
    """The lines of each row alone, without padding."""
    params, task = google_read.read(model), predictor.task
    rows = predictor.data.featurise(examples)
    emissions = []
    for number in range(len(rows)):
        ids = rows.ragged["input_ids"].row(number)[None]
        row = {"input_ids": ids, "input_mask": np.ones_like(ids)}
        row |= {"segment_ids": np.zeros_like(ids)}
        emissions.append(task.outputs(params, row)["logits"][0].numpy())
    offsets = rows.ragged["input_ids"].offsets
    outputs = {"logits": Ragged(np.concatenate(emissions), offsets)}
    scored = TaggedSet(
        outputs, rows, task.labels, rules=task.rules, examples=lambda: examples
    )
    assert len(rows) > len(examples)  # some have several windows
    return predictions.decide(scored)


@pytest.mark.parametrize(
    ("towers", "counts", "batches"),
    [
        (3, (1, 7, 67), (1, 4)),
        *rarely(*((towers, SENTENCES, BATCHES) for towers in (1, 2, 3, 4))),
    ],
)
def test_entities_are_those_of_single_rows(model, examples, towers, counts, batches):
    predictor = loaded(model, towers)
    wanted = one_by_one(model, examples, predictor)
    for record, one in zip(wanted.records, examples, strict=True):
        for entity in record["entities"]:
            assert one.text_a[entity["start"] : entity["end"]] == entity["text"]
    assert sum(len(record["entities"]) for record in wanted.records) > len(examples)
    for count, batch in itertools.product(counts, batches):
        for changed in PLACEMENTS:
            settings = dataclasses.replace(
                predictor.settings, batch_size=batch, **changed
            )
            asked = dataclasses.replace(predictor, settings=settings)
            actual = asked.predict(examples[:count])
            assert actual.texts == wanted.texts[:count], (count, batch, changed)
            for one, other in zip(actual.values, wanted.values, strict=False):
                assert one == pytest.approx(other, abs=1e-5)
