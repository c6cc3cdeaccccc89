"""Cases that cost much and seldom say more than the one beside them."""

import pytest


def rarely(*cases):
    """The same cases, for `make test-all` alone; a tuple has several arguments."""
    values = [case if isinstance(case, tuple) else (case,) for case in cases]
    return [pytest.param(*one, marks=pytest.mark.nightly) for one in values]


PLAIN_AND_RARELY_XLA = [
    pytest.param(False, id="plain"),
    pytest.param(True, id="xla", marks=pytest.mark.nightly),
]
