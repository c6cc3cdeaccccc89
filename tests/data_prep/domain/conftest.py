"""Runs of data_prep/domain_vocab.py."""

import pytest

from bert_mgpu.cli import domain_vocab
from tests.support.domain import Files


@pytest.fixture
def files(tmp_path):
    return Files(tmp_path)


@pytest.fixture
def call(capsys):
    """call(flags) -> (exit code, stdout, stderr)."""

    def run(args):
        code = domain_vocab.main(["domain_vocab.py", *args])
        return code, *capsys.readouterr()

    return run
