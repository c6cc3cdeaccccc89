"""BERT training on all GPUs of a machine with one flag.

    import bert_mgpu
    model = bert_mgpu.load("out_reviews")
    model.predict(["a wonderful film", "dull"])

docs/python.md describes all of it. Importing the package loads no TensorFlow.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bert_mgpu.api.encoder import Encoder, load_encoder
    from bert_mgpu.api.model import Model, load
    from bert_mgpu.api.prediction import Prediction
    from bert_mgpu.api.training import Scores, train
    from bert_mgpu.core.errors import (
        Diverged,
        Interrupted,
        OutOfMemory,
        Preempted,
        RunError,
        UserError,
    )

__version__ = "0.1.0"
_MODULES = {
    **dict.fromkeys(("Encoder", "load_encoder"), "api.encoder"),
    **dict.fromkeys(("Model", "load"), "api.model"),
    "Prediction": "api.prediction",
    **dict.fromkeys(("Scores", "train"), "api.training"),
    **dict.fromkeys(
        (
            "Diverged",
            "Interrupted",
            "OutOfMemory",
            "Preempted",
            "RunError",
            "UserError",
        ),
        "core.errors",
    ),
}
__all__ = [
    "Diverged",
    "Encoder",
    "Interrupted",
    "Model",
    "OutOfMemory",
    "Prediction",
    "Preempted",
    "RunError",
    "Scores",
    "UserError",
    "__version__",
    "load",
    "load_encoder",
    "train",
]


def __getattr__(name: str) -> Any:
    """Imports a name of the public interface when it is first used."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = importlib.import_module(f"{__name__}.{_MODULES[name]}")
    value = globals()[name] = getattr(module, name)
    return value


def __dir__() -> list[str]:
    return [*__all__]
