"""Pieces of words, learnt by tensorflow-text's WordPiece learner.

The learner keeps each piece that occurs as often as a threshold says, where an
occurrence within a longer piece that is kept does not count. It looks for a threshold
whose vocabulary has between 95 and 100 % of the wanted size, and ends below or above
where none has. So the threshold is looked for here: the vocabulary is never too large,
and never too small where the text has enough pieces.

https://www.tensorflow.org/text/guide/subwords_tokenizer describes the algorithm.
"""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Collection, Mapping

from bert_mgpu.core import extras
from bert_mgpu.core.errors import UserError
from bert_mgpu.text.learnt_vocab import LONGEST_PIECE

# Words of the text, the most frequent ones: a threshold takes a minute on one core.
MOST_WORDS = 100_000
_SLACK = 0.05  # of the size: more pieces than wanted, the rarest of which are left out


def check_learner() -> None:
    """Raises UserError where tensorflow-text is not installed."""
    if importlib.util.find_spec("tensorflow_text") is None:
        raise UserError(
            "learn_vocab.py needs the package tensorflow-text, which is not installed:"
            f" {extras.advice('tf_text')}"
        )


def learn(
    words: Mapping[str, int], letters: Collection[str], *, most: int, min_count: int
) -> list[str]:
    """Pieces of two characters and more, the most frequent first, `most` at most.

    words: counts by word, of which those are taken that consist of the letters.
    min_count: how often a piece must occur; where no word does, there is none.
    """
    ranked = sorted(words.items(), key=lambda item: (-item[1], item[0]))
    allowed = frozenset(letters)
    taken = [item for item in ranked if allowed.issuperset(item[0])][:MOST_WORDS]
    if not taken or taken[0][1] < min_count or most == 0:
        return []
    low, high = min_count, taken[0][1]
    pieces = _pieces(taken, low)
    while len(pieces) > most * (1 + _SLACK) and low < high:
        # Counts are spread over many powers of ten: halve the powers, not the counts.
        middle = max(low + 1, math.isqrt(low * high))
        found = _pieces(taken, middle)
        if len(found) >= most:
            low, pieces = middle, found
        else:
            high = middle - 1
    return pieces[:most]


def _pieces(words: list[tuple[str, int]], threshold: int) -> list[str]:
    """The pieces of two characters and more that occur so often."""
    # Here, since it loads TensorFlow, which takes seconds.
    from tensorflow_text.tools.wordpiece_vocab import (
        wordpiece_tokenizer_learner_lib as learner,
    )

    tokens = learner.learn(
        words,
        vocab_size=0,  # with one threshold alone it decides nothing
        reserved_tokens=[],
        lower_thresh=threshold,
        upper_thresh=threshold,
        max_input_tokens=-1,
        max_token_length=LONGEST_PIECE,
        max_unique_chars=len({char for word, _ in words for char in word}),
    )
    return [token for token in tokens if len(token.removeprefix("##")) > 1]
