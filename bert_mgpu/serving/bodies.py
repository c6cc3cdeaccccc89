"""The interface of a served model, and the checks of clients' requests."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from starlette.exceptions import HTTPException


class Limits(NamedTuple):
    """Limits on clients' requests."""

    body: int  # bytes of a request
    rows: int  # of a request
    characters: int  # of a row
    waiting: int  # rows of all requests together
    seconds: float  # until a request is answered


class ServedModel(Protocol):
    """A loaded model, as the application uses it."""

    name: str
    inputs: tuple[str, ...]  # the fields of an instance: "text_a", "text_b"
    titles: tuple[str, ...]  # of these fields: keys of the words in page.js
    poolings: tuple[str, ...]  # that it supports; the first is the default
    width: int  # the length of a vector
    batch: int  # rows that it computes at once
    report: pathlib.Path | None

    def example(self, *texts: str) -> Any:
        """The example, made from its texts, that the other methods take."""
        ...

    def answer(self, examples: Sequence[Any]) -> list[dict[str, Any]]:
        """The outputs for each example, by name, as in the SavedModel's signature."""
        ...

    def explain(self, example: Any) -> dict[str, Any]:
        """The answer for the page: text, bars, what was cut and what became [UNK]."""
        ...

    def encode(
        self, texts: Sequence[str], pooling: str, normalize: bool
    ) -> list[tuple[list[float], int]]:
        """The vector of each text, and the number of tokens that it was made from."""
        ...


# A function that returns a model's answers to examples.
Operation = Callable[[ServedModel, Sequence[Any]], Sequence[Any]]


class RequestRow(NamedTuple):
    """A row of a request; rows whose `ask` is equal are answered together."""

    example: Any
    ask: Operation


def read_object(raw: bytes) -> dict[str, Any]:
    """The JSON object in a body. Raises HTTPException: 400."""
    try:
        body = json.loads(raw)
    except UnicodeDecodeError:
        raise HTTPException(400, "the body is not JSON: it is not UTF-8") from None
    except (ValueError, RecursionError) as error:
        raise HTTPException(400, f"the body is not JSON: {error}") from None
    if not isinstance(body, dict):
        raise HTTPException(400, "the body is not a JSON object")
    return body


def check_rows(count: int, limits: Limits) -> None:
    """Raises HTTPException (413) for too many rows."""
    if count > limits.rows:
        raise HTTPException(413, f"{count} rows: pass at most {limits.rows}")


def check_texts(place: str, texts: Sequence[str], limits: Limits) -> None:
    """Raises HTTPException if a row is too long (413) or not valid Unicode (400)."""
    if sum(map(len, texts)) > limits.characters:
        raise HTTPException(413, f"{place}: more than {limits.characters} characters")
    try:
        "".join(texts).encode()
    except UnicodeEncodeError:
        raise HTTPException(
            400, f"{place}: an unpaired surrogate (half a character)"
        ) from None
