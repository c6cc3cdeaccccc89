"""Pieces of words, learnt by tensorflow-text's WordPiece learner.

The learner keeps each piece that occurs at least as often as a threshold. It counts an
occurrence only where no longer piece begins with it, whether that one is kept or not:
"photo" in many different rare words is not learnt. By itself it searches for a
threshold whose vocabulary has between 95 and 100 % of the wanted size, and ends below
or above if none has. So the threshold is searched for here instead: the vocabulary is
never too large, nor too small if the learner finds enough pieces.

https://www.tensorflow.org/text/guide/subwords_tokenizer describes the algorithm.
"""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Collection, Mapping

from bert_mgpu.core import extras, units
from bert_mgpu.core.errors import UserError
from bert_mgpu.core.log import say
from bert_mgpu.text.learnt_vocab import LONGEST_PIECE

# The most frequent words are used: each threshold takes a minute on one core.
MOST_WORDS = 100_000
_WORDS_A_SECOND, _LONG = 2000, 5.0  # with all thresholds; seconds worth a line
_SLACK = 0.05  # share of surplus pieces to accept; the rarest are left out


def check_learner() -> None:
    """Raises UserError if tensorflow-text is not installed."""
    if importlib.util.find_spec("tensorflow_text") is None:
        raise UserError(
            "learn_vocab.py needs the package tensorflow-text, which is not installed:"
            f" {extras.advice('tf_text')}"
        )


def learn(
    words: Mapping[str, int], letters: Collection[str], *, most: int, min_count: int
) -> list[str]:
    """At most `most` pieces of two or more characters, the most frequent first.

    words: counts by word; only words that consist of `letters` are used. min_count: how
    often a piece must occur; if no word occurs that often, there are no pieces.
    """
    ranked = sorted(words.items(), key=lambda item: (-item[1], item[0]))
    allowed = frozenset(letters)
    taken = [item for item in ranked if allowed.issuperset(item[0])][:MOST_WORDS]
    if not taken or taken[0][1] < min_count or most == 0:
        return []
    if (seconds := len(taken) / _WORDS_A_SECOND) > _LONG:
        about = units.duration_text(seconds)
        say(f"learning pieces of {len(taken):,} words: about {about}")
    low, high = min_count, taken[0][1]
    pieces = _pieces(taken, low)
    while len(pieces) > most * (1 + _SLACK) and low < high:
        # Counts spread over many powers of ten: bisect the exponents, not the counts.
        middle = max(low + 1, math.isqrt(low * high))
        found = _pieces(taken, middle)
        if len(found) >= most:
            low, pieces = middle, found
        else:
            high = middle - 1
    return pieces[:most]


def _pieces(words: list[tuple[str, int]], threshold: int) -> list[str]:
    """The pieces of two or more characters that occur at least `threshold` times."""
    # Imported here, since it loads TensorFlow, which takes seconds.
    from tensorflow_text.tools.wordpiece_vocab import (
        wordpiece_tokenizer_learner_lib as learner,
    )

    tokens = learner.learn(
        words,
        vocab_size=0,  # has no effect with a single threshold
        reserved_tokens=[],
        lower_thresh=threshold,
        upper_thresh=threshold,
        max_input_tokens=-1,
        max_token_length=LONGEST_PIECE,
        max_unique_chars=len({char for word, _ in words for char in word}),
    )
    return [token for token in tokens if len(token.removeprefix("##")) > 1]
