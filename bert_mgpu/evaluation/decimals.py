"""Formats many numbers at a time as JSON, with at most six decimals.

Python's `round` and `json.dumps` take a microsecond per number: most of the time of
google-research/bert's extract_features.py. Here a number is four words of four
characters each, looked up in tables: sign and whole part, the point and three decimals,
three more decimals, and the separator. Characters that are not needed are NUL.
"""

from __future__ import annotations

import json

import numpy as np

_DIGITS = 6
_UNIT = 10**_DIGITS
_TINY = 100  # below so many units Python writes an exponent: 9.9e-05
_GROUP = 1000  # three digits
_LARGEST = _GROUP * _UNIT  # units; vectors have no values so large


def _words(texts: list[str]) -> np.ndarray:
    """Texts of at most four characters as numbers: uint32 [texts]."""
    return np.array([text.encode() for text in texts], "S4").view(np.uint32)


_NUMBERS = range(_GROUP)
# The index is the whole part, plus _GROUP if the number is negative.
_WHOLE = _words([f"{sign}{n}" for sign in ("", "-") for n in _NUMBERS])
# The index is three decimals, plus _GROUP if no others follow: .5, not .500.
_FIRST = _words(
    [f".{n:03d}" for n in _NUMBERS]
    + [f".{n:03d}".rstrip("0") if n else ".0" for n in _NUMBERS]
)
_LAST = _words([f"{n:03d}".rstrip("0") for n in _NUMBERS])
_EXPONENTS = [repr(units / _UNIT) for units in range(_TINY)]
_BEGIN = _words([f"{sign}{text[:3]}" for sign in ("", "-") for text in _EXPONENTS])
_END = _words([text[3:] for text in _EXPONENTS])
_COMMA, _LINE = _words([", ", "\n"])


def lists(values: np.ndarray) -> list[str]:
    """A JSON list for each row of float32 [rows, n], both sizes at least 1.

    It is json.dumps([round(float(x), 6) for x in row]), to the last character: the
    product with a million is exact in float64 and rounded as by `round`.
    """
    units = np.rint(values.astype(np.float64) * _UNIT)
    if not (np.abs(units) < _LARGEST).all():
        return [json.dumps([round(float(x), _DIGITS) for x in row]) for row in values]
    negative = np.signbit(units).astype(np.int32)
    size = np.abs(units).astype(np.int32)
    whole, behind = np.divmod(size, _UNIT)
    first, last = np.divmod(behind, _GROUP)
    words = np.empty((*values.shape, 4), np.uint32)
    words[..., 0] = _WHOLE[whole + _GROUP * negative]
    words[..., 1] = _FIRST[first + _GROUP * (last == 0)]
    words[..., 2] = _LAST[last]
    words[..., 3] = _COMMA
    words[:, -1, 3] = _LINE
    tiny = (size > 0) & (size < _TINY)
    words[tiny, 0] = _BEGIN[size[tiny] + _TINY * negative[tiny]]
    words[tiny, 1], words[tiny, 2] = _END[size[tiny]], 0
    lines = words.tobytes().translate(None, b"\0").decode().split("\n")
    return [f"[{line}]" for line in lines[:-1]]
