"""Numbers as json.dumps(round(x, 6)) writes them."""

import json

import numpy as np
import pytest

from bert_mgpu.evaluation import decimals

RNG = np.random.default_rng(1)
CASES = {
    "usual": RNG.normal(0, 1, (50, 40)),
    "wide": RNG.normal(0, 1, (50, 40)) * 10.0 ** RNG.integers(-9, 9, (50, 40)),
    "tiny": RNG.normal(0, 3e-5, (50, 40)),
    "ties": RNG.integers(-(10**7), 10**7, (50, 40)) / 2**21,
    "whole": RNG.integers(-1000, 1000, (50, 40)),
    "units": np.arange(-2000, 2000).reshape(50, 80) / 10**6,
    "zeros": np.array([[0.0, -0.0, 4e-7, -4e-7, 5e-7, -5e-7, 1e-4, -1e-4, 9.95e-5]]),
    "borders": np.array([[0.9999994, 0.9999996, 9.999999, 99999.99, 1e6, 123456.789]]),
    "one": np.array([[1.5]]),
    "huge": np.array([[1e20, 1.0], [3e38, -1e16]]),
    "large": np.array([[9e8, -9e8, 1.0], [2**29, 2**30, 0.1]]),
}


@pytest.mark.parametrize("case", CASES)
def test_texts_are_pythons(case):
    values = CASES[case].astype(np.float32)
    wanted = [json.dumps([round(float(x), 6) for x in row]) for row in values]
    assert decimals.lists(values) == wanted
