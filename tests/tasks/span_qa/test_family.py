"""Training leaves out questions none of whose answers is in its context."""

import numpy as np
import pytest

from bert_mgpu.config.finetuning import FinetuneConfig
from bert_mgpu.core.rows import Example, KeptRows
from bert_mgpu.tasks import registry
from bert_mgpu.tasks.span_qa import dataset
from bert_mgpu.tasks.span_qa.reader import Answers
from bert_mgpu.text.tokenization import Tokenizer
from tests.support.tiny import VOCAB

LONG = "the sun of joy in it " * 3
FLAGS = {"max_seq_length": 16, "doc_stride": 5, "max_query_length": 4}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """made(labels) -> the rows of a long context for each, and a short one's."""
    path = tmp_path_factory.mktemp("vocab") / "vocab.txt"
    path.write_text("".join(f"{token}\n" for token in VOCAB))

    def make(*labels):
        examples = [
            Example(str(number), "it", "sun" if number % 2 else LONG, label, number)
            for number, label in enumerate(labels, 1)
        ]
        return dataset.featurise(examples, Tokenizer(path), **FLAGS)

    return make


KNOWN, NONE, LOST = (
    Answers(("sun",), (0, 3)),
    Answers((), None),
    Answers(("rain",), None),
)


def test_rows_without_a_target_are_left_out(made):
    features = made(KNOWN, LOST, NONE, LOST, LOST, KNOWN)
    is_taught = features.dense[dataset.STARTS] != dataset.NO_TARGET
    rows = KeptRows(features, is_taught)
    kept = np.flatnonzero(np.isin(features.lines, [1, 3, 6]))
    assert 3 < len(rows) == len(kept) < len(features)
    assert np.array_equal(rows.lengths, features.lengths[kept])
    assert len(rows.target_counts) == len(rows)
    for epoch in range(2):
        taken = rows.take(np.arange(len(rows)) + epoch * len(rows))
        wanted = features.take(kept)
        assert taken.lines.tolist() == wanted.lines.tolist()
        assert (taken.dense[dataset.STARTS] != dataset.NO_TARGET).all()
        ids = (own.ragged["input_ids"].values.tolist() for own in (taken, wanted))
        assert len({*map(tuple, ids)}) == 1


def test_what_a_training_reads_and_is_known_by(made):
    """Where all rows have a target, nothing differs from what earlier runs knew."""
    config = FinetuneConfig(task_name="squad")
    family = registry.family_of(registry.find_task_files(config), config)
    whole, part = made(KNOWN, NONE), made(KNOWN, LOST)
    assert family.training_rows(whole, config) is whole
    assert family.training_key(config, "key", whole) == "key"
    assert len(family.training_rows(part, config)) == 1
    keys = {
        family.training_key(config, "key", rows)
        for rows in (part, made(KNOWN, LOST, LOST))
    }
    assert "key" not in keys and len(keys) == 1
    keys.add(family.training_key(config, "key", made(KNOWN, LOST, NONE)))
    assert len(keys) == 2
