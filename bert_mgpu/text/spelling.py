"""How to spell a word that an uncased vocabulary has only in lower case.

A word that occurs in the texts around it is spelled as it is there, with its case and
accents; this includes names. Other words are in capitals where all else is, and begin
with a capital at the start of a sentence if the text begins with one.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

from bert_mgpu.text.pieces import cover_dropped
from bert_mgpu.text.tokenization import Tokenizer

_NEAR = 40  # characters in which the end of a sentence is looked for
# The full stops of "U.S." and "e.g.", after a single letter, do not end one.
_SENTENCE_END = re.compile(r"(?:[^\W_]{2}|\d|[^\w\s.])\s?[.!?…]+[^\w]*\s[^\w]*$")
_CAPITALS = 2  # words that a text must have before all is put in capitals


class Spelling:
    """The spelling of words in a text and in a context that is read with it."""

    def __init__(self, text: str, context: str, tokenizer: Tokenizer) -> None:
        self._lowered = tokenizer.do_lower_case
        self._forms: dict[str, str] = {}
        if not self._lowered:
            return
        lower, names = dict[str, str](), dict[str, str]()
        for own in (text, context):
            forms, others = [*_forms(own, tokenizer)], dict[str, str]()
            # Whether the words before and after each one have a capital.
            capitals = [False, *(form[:1].isupper() for _, form, _ in forms), False]
            beside = map(max, capitals, capitals[2:])
            for (word, form, is_first), in_name in zip(forms, beside, strict=False):
                if is_first and form == form.capitalize():
                    # The capital may only mark the start of the sentence.
                    lower.setdefault(word, form.lower())
                elif in_name and form[:1].isupper():
                    # It may be that of a name: "The Hague".
                    names.setdefault(word, form)
                # "the US" does not make capitals of "tell us".
                elif word not in others or (_is_small(form) > _is_small(others[word])):
                    others[word] = form
            self._forms = others | self._forms
        self._forms = lower | names | self._forms
        letters = (char for char in text if char.isupper() or char.islower())
        self._starts_so = next(letters, "").isupper()
        words = [word for word in text.split() if word.upper() != word.lower()]
        self._shouts = len(words) >= _CAPITALS and all(map(str.isupper, words))

    def of(self, word: str, before: str) -> str:
        """The spelling of a word that follows a text. word: as in the vocabulary."""
        form = unicodedata.normalize("NFC", word)  # there, Hangul is decomposed
        if not self._lowered:
            return form
        if len(word) > 1 or not before.endswith("'"):  # "it's", despite "U.S."
            form = self._forms.get(word, form)
        if self._shouts:
            return form.upper()
        if self._starts_so and _starts_sentence(before):
            return _capital(form[:1]) + form[1:]
        return form

    def rest_of(self, piece: str, before: str) -> str:
        """The spelling of a piece that continues the word at the end of a text."""
        form = unicodedata.normalize("NFC", piece)
        match = re.search(r"\w*$", before[-_NEAR:])
        is_upper = match is not None and match[0][1:].isupper()
        return form.upper() if self._lowered and is_upper else form


def _forms(text: str, tokenizer: Tokenizer) -> Iterator[tuple[str, str, bool]]:
    """(word, its spelling, whether it starts a sentence) of each word of a text."""
    words = tokenizer.words(text)
    places = [[min(word.sources), max(word.sources) + 1] for word in words]
    cover_dropped(text, places)
    for word, (start, end) in zip(words, places, strict=True):
        yield (
            word.text,
            text[start:end],
            _starts_sentence(text[max(0, start - _NEAR) : start]),
        )


def _is_small(form: str) -> bool:
    return form == form.lower()


def _starts_sentence(before: str) -> bool:
    """Whether what follows a text starts a sentence, as after an empty text."""
    near = before[-_NEAR:]
    return not any(map(str.isalnum, near)) or _SENTENCE_END.search(near) is not None


def _capital(char: str) -> str:
    """The capital of a character; the character itself if that is two letters: ß."""
    return char.title() if len(char.title()) == 1 else char
