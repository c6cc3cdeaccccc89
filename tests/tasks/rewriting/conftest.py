"""The tokenizer of a small vocabulary, and what a model could say with it."""

import numpy as np
import pytest

from bert_mgpu.core.rows import Example, Ragged
from bert_mgpu.tasks.rewriting import blocks, dataset
from bert_mgpu.tasks.rewriting.rewritten import RewrittenSet
from bert_mgpu.text.tokenization import Tokenizer
from tests.support.rewriting import LENGTH, MOST
from tests.support.tiny import VOCAB


@pytest.fixture(scope="session")
def tokenizer(tmp_path_factory):
    path = tmp_path_factory.mktemp("vocab") / "vocab.txt"
    path.write_text("".join(f"{token}\n" for token in VOCAB))
    return Tokenizer(path, True)


@pytest.fixture
def rows_of(tokenizer):
    """rows_of((target or None, text, context), ...) -> examples and their features."""

    def make(*pairs, length=LENGTH):
        examples = [
            Example(str(number), *texts, label=label)
            for number, (label, *texts) in enumerate(pairs)
        ]
        features = dataset.featurise(
            examples,
            tokenizer,
            max_seq_length=length,
            max_insert=MOST,
            slot_marker="[SLOT]",
        )
        return examples, features

    return make


@pytest.fixture
def rewritten(rows_of, tokenizer):
    """rewritten(pairs, rewritings, **outputs by token) -> RewrittenSet"""

    def make(pairs, rewritings, **outputs):
        examples, rows = rows_of(*pairs)
        offsets = rows.ragged["input_ids"].offsets
        found = {
            name: Ragged(np.asarray(values), offsets)
            for name, values in outputs.items()
        }
        known = blocks.known_of(rows, found) if found else None
        return RewrittenSet(
            {"known": known, "rewritings": rewritings},
            rows,
            lambda: examples,
            tokenizer=tokenizer,
            marker="[SLOT]",
        )

    return make
