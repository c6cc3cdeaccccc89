"""How equal weights have to be after many steps."""

import numpy as np

# Its gradient is zero in exact arithmetic: the values are rounding noise, which
# Adam blows up to full steps.
NOISE = "attention/self/key/bias"


def assert_close(params, wanted, relative=1e-4):
    assert params.keys() == wanted.keys()
    for name, value in wanted.items():
        if NOISE not in name:
            limit = relative * np.abs(value).max() + 1e-6
            worst = np.abs(params[name] - value).max()
            assert worst <= limit, f"{name}: {worst} > {limit}"


def assert_same_bits(params, wanted):
    assert params.keys() == wanted.keys()
    for name, value in wanted.items():
        assert np.array_equal(params[name], value), name
