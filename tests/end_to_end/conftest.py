"""Where memory lacks."""

import math

import pytest

from bert_mgpu.training.towers import Towers
from tests.support.memory import no_memory


@pytest.fixture
def little_memory(monkeypatch):
    """More than 50 tokens of a tower at once ask for memory that no machine has."""

    def limited(work):
        def call(towers, batch, *rest, **named):
            if math.prod(batch.columns[0]["input_ids"].shape[1:]) > 50:
                no_memory()
            return work(towers, batch, *rest, **named)

        return call

    for name in ("train_step", "launch_outputs"):
        monkeypatch.setattr(Towers, name, limited(getattr(Towers, name)))
