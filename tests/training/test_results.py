"""The numbers of a step, read from the one vector that it gives."""

from concurrent.futures import Future

import numpy as np
import pytest

from bert_mgpu.core import tensor_names
from bert_mgpu.training.results import StepResult

INFINITE = float("inf")


def result(*, losses=(2.0, 3.0), norm=5.0, scaling=(), overflows=False):
    future = Future()
    state = [8.0, 4.0, 1.0, 2.0] if scaling else []
    future.set_result(np.array([*losses, 1.0, 0.25, norm, *state], np.float32))
    names = ("masked_lm_loss", "next_sentence_loss")
    return StepResult(future, names, scaling, overflows=overflows)


def test_every_number_has_its_name():
    step = result(scaling=tensor_names.STATE)
    assert step.losses == {"masked_lm_loss": 2.0, "next_sentence_loss": 3.0}
    assert (step.stops, step.reduction, step.norm) == (1.0, 0.25, 5.0)
    assert step.scaling == dict(zip(tensor_names.STATE, [8, 4, 1, 2], strict=True))


@pytest.mark.parametrize(
    ("settings", "finite"),
    [
        ({}, True),
        ({"norm": INFINITE}, False),
        ({"losses": (2.0, float("nan"))}, False),
        # A lower scale mends a gradient that overflowed on its way to the others,
        ({"norm": INFINITE, "scaling": tensor_names.STATE}, True),
        # but not a loss in float32.
        ({"losses": (INFINITE, 3.0), "scaling": tensor_names.STATE}, False),
        (
            {
                "losses": (INFINITE, 3.0),
                "scaling": tensor_names.STATE,
                "overflows": True,
            },
            True,
        ),
    ],
)
def test_only_what_a_scale_can_mend_may_overflow(settings, finite):
    assert result(**settings).finite == finite
