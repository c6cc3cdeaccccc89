"""Vectors in the format of OpenAI's API, which many clients and servers share.

POST /v1/embeddings takes {"input": "a text" or ["...", ...]} and returns {"data":
[{"embedding": [...], "index": 0}, ...]} (platform.openai.com/docs/api-reference/
embeddings). "pooling" and "normalize" are additions to it.
"""

from __future__ import annotations

import array
import base64
import dataclasses
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from starlette.exceptions import HTTPException

from bert_mgpu.core.errors import short_repr
from bert_mgpu.serving import bodies
from bert_mgpu.serving.bodies import Limits, ServedModel

_FORMATS = "float", "base64"


@dataclasses.dataclass(frozen=True)
class VectorKind:
    """The vectors that a request asks for (a `bodies.Ask`)."""

    pooling: str
    normalize: bool

    def __call__(
        self, model: ServedModel, texts: Sequence[Any]
    ) -> list[tuple[list[float], int]]:
        return model.encode(texts, self.pooling, self.normalize)


def asked(
    body: Mapping[str, Any], model: ServedModel, limits: Limits
) -> tuple[list[str], VectorKind]:
    """The texts and vector kind of a request. Raises HTTPException: 400, 404, 413."""
    if body.get("model", model.name) != model.name:
        raise HTTPException(
            404, f"no such model: {short_repr(body['model'])}: {model.name} is served"
        )
    texts = body.get("input")
    if isinstance(texts, str):
        texts = [texts]
    if not isinstance(texts, list) or not texts:
        raise HTTPException(400, 'pass {"input": "..."}, or a list of texts')
    bodies.check_rows(len(texts), limits)
    for index, text in enumerate(texts):
        if not isinstance(text, str):
            raise HTTPException(400, f"input[{index}]: {short_repr(text)}: pass a text")
        bodies.check_texts(f"input[{index}]", [text], limits)
    _one_of(body, "dimensions", (model.width,))
    pooling = _one_of(body, "pooling", model.poolings)
    _one_of(body, "encoding_format", _FORMATS)
    normalize = _one_of(body, "normalize", (False, True))
    return texts, VectorKind(pooling, normalize)


def answer(
    body: Mapping[str, Any], name: str, vectors: Sequence[tuple[list[float], int]]
) -> dict[str, Any]:
    """The response to a request that `asked` has accepted."""
    is_text = body.get("encoding_format") == "base64"
    tokens = sum(count for _, count in vectors)
    return {
        "object": "list",
        "data": [
            {
                "object": "embedding",
                "index": index,
                "embedding": (_as_base64 if is_text else _as_numbers)(vector),
            }
            for index, (vector, _) in enumerate(vectors)
        ],
        "model": name,
        "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
    }


def _one_of(body: Mapping[str, Any], key: str, known: Sequence[Any]) -> Any:
    """The value of a key; the first known value if it is missing or null.

    Raises HTTPException: 400.
    """
    value = body.get(key)
    if value is None:
        return known[0]
    if type(value) is not type(known[0]) or value not in known:  # 1 is not true
        names = "one of " * (len(known) > 1) + ", ".join(map(str, known)).lower()
        raise HTTPException(400, f"{key}: {short_repr(value)}: pass {names}")
    return value


def _as_numbers(vector: Sequence[float]) -> list[float]:
    """float32 values with the nine digits that distinguish them, not a float64's 17."""
    return [float(f"{value:.9g}") for value in vector]


def _as_base64(vector: Sequence[float]) -> str:
    """Little-endian float32 values in Base64, as OpenAI's clients request them."""
    values = array.array("f", vector)
    if sys.byteorder == "big":
        values.byteswap()
    return base64.b64encode(values.tobytes()).decode()
