"""The tokenizer of a small vocabulary."""

import pytest

from bert_mgpu.text.tokenization import Tokenizer
from tests.support.tiny import VOCAB


@pytest.fixture(scope="session")
def tokenizer(tmp_path_factory):
    path = tmp_path_factory.mktemp("vocab") / "vocab.txt"
    path.write_text("".join(f"{token}\n" for token in VOCAB))
    return Tokenizer(path, True)
