"""--quick: graphs and programs compile in less time, to slower code.

Sums may be taken in another order, so that last bits differ from those that users have;
`make test-all` runs without it.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

_VARIABLE = "BERT_MGPU_TESTS_ARE_QUICK"  # processes that tests start read it, too


def ask() -> None:
    """For this process, before TensorFlow works, and for those that it starts."""
    os.environ[_VARIABLE] = "1"
    flags = os.environ.get("XLA_FLAGS", "")
    os.environ["XLA_FLAGS"] = f"{flags} --xla_backend_optimization_level=0".strip()


def apply() -> None:
    """What XLA's flags do not say, in a process with TensorFlow."""
    if os.environ.get(_VARIABLE):
        _disable_optimizer(True)


@contextlib.contextmanager
def undone() -> Iterator[None]:
    """In this process, as far as graphs are concerned."""
    _disable_optimizer(False)
    try:
        yield
    finally:
        apply()


def _disable_optimizer(disabled: bool) -> None:
    import tensorflow as tf

    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": disabled})
