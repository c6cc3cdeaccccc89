"""A baseline that a model has to beat: the sentence that is most like the question.

Texts are compared as sets of character bigrams, by their Dice coefficient.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from bert_mgpu.core.rows import Example

NAME = "the sentence most like the question"
_END = re.compile(r"(?<=[。！？；!?;\n])|(?<=[.])(?=\s)")


def answers(examples: Sequence[Example]) -> list[str]:
    """The answer to each question; "" if the context is empty."""
    return [_most_similar(each.text_a, each.text_b or "") for each in examples]


def _most_similar(question: str, context: str) -> str:
    sentences = [part.strip() for part in _END.split(context)]
    asked = _pairs(question)
    return max(sentences, key=lambda sentence: _dice(asked, _pairs(sentence)))


def _pairs(text: str) -> set[str]:
    chars = "".join(text.lower().split())
    return {chars[index : index + 2] for index in range(len(chars) - 1)}


def _dice(one: set[str], other: set[str]) -> float:
    return 2 * len(one & other) / (len(one) + len(other) or 1)
