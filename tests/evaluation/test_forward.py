"""Outputs that are no numbers."""

import numpy as np
import pytest

from bert_mgpu.core.errors import Diverged
from bert_mgpu.core.rows import Ragged
from bert_mgpu.evaluation.forward import check_finite


def outputs(bad):
    values = np.zeros((5, 2))
    values[bad] = np.nan
    return {"logits": values}


def test_outputs_that_are_no_numbers_end_a_run():
    check_finite(outputs([]), "float32", "predict")
    message = (
        "predict: the logits of 2 of 5 rows are not finite, first in row 3; .*"
        " lower --learning_rate"
    )
    with pytest.raises(Diverged, match=message):
        check_finite(outputs([2, 4]), "float32", "predict")
    with pytest.raises(Diverged, match="pass --precision=float32"):
        check_finite(outputs([0]), "bfloat16", "predict")


def test_outputs_of_tokens_name_their_row():
    tokens = Ragged(np.array([0, 1, np.inf, np.inf, 4]), np.array([0, 2, 2, 5]))
    with pytest.raises(Diverged, match="the tags of 1 of 3 rows .* first in row 3;"):
        check_finite({"tags": tokens}, "float32", "evaluate")
