"""Cases that cost much and seldom say more than the one beside them."""

import pytest


def rarely(*cases):
    """The same cases, for `make test-all` alone; a tuple has several arguments."""
    values = [case if isinstance(case, tuple) else (case,) for case in cases]
    return [pytest.param(*one, marks=pytest.mark.nightly) for one in values]


def _and_rarely_xla(other):
    """XLA compiles for seconds: `make test-all` is enough where it is not the point."""
    xla = pytest.param(True, id="xla", marks=pytest.mark.nightly)
    return [pytest.param(False, id=other), xla]


PLAIN_AND_RARELY_XLA = _and_rarely_xla("plain")
GRAPH_AND_RARELY_XLA = _and_rarely_xla("graph")
