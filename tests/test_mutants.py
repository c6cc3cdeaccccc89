"""The faults of `make mutants` can be planted: each text stands once in its file."""

import pytest

from tests.support.mutants.table import MUTANTS
from tests.support.paths import ROOT


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_can_be_planted(mutant):
    text = (ROOT / "bert_mgpu" / mutant.file).read_text(encoding="utf-8")
    assert text.count(mutant.old) == 1 and mutant.new != mutant.old
    files = [word for word in mutant.tests.split(" ") if word.endswith(".py")]
    assert files and all((ROOT / "tests" / file).exists() for file in files)


def test_names_are_used_once():
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)
