"""Words of Chinese text, as jieba finds them (package rjieba, optional)."""

from __future__ import annotations

import collections
import itertools
import pathlib
import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from bert_mgpu.core import extras
from bert_mgpu.core.errors import UserError, short_repr

_MAX_FREQUENCY = 10**9  # all words of jieba's own dictionary have 6e7 together


class UserWord(NamedTuple):
    """A word that jieba is to know; the frequency is None where jieba finds it."""

    text: str
    frequency: int | None


def read_user_dict(path: str | pathlib.Path) -> list[UserWord]:
    """Words of a file in jieba's format: a line is `word [frequency] [tag]`.

    The file is UTF-8, with blanks between the fields; a tag (lower-case letters) is
    not used. A line of another form is all word, so that words may hold blanks.

    Raises:
      UserError: no such file, no word in it, or with file:line: not UTF-8, a tab.
    """
    path = pathlib.Path(path)
    try:
        lines = path.read_bytes().removeprefix(b"\xef\xbb\xbf").split(b"\n")
    except OSError as error:
        raise UserError(
            f"{path}: cannot read the user dictionary: {error.strerror}"
        ) from None
    words = []
    for number, line in enumerate(lines, start=1):
        try:
            text = line.decode().strip()
        except UnicodeDecodeError as error:
            raise UserError(
                f"{path}:{number}: {short_repr(line)} is not UTF-8 ({error.reason}):"
                " pass a user dictionary saved as UTF-8"
            ) from None
        if "\t" in text:
            raise UserError(
                f"{path}:{number}: {text!r} has a tab: write one word a line,"
                " and after a blank its frequency if you want"
            )
        if found := re.fullmatch(r"(.+?)(?: +([0-9]+))?(?: +[a-z]+)?", text):
            frequency = min(int(found[2]), _MAX_FREQUENCY) if found[2] else None
            words.append(UserWord(found[1], frequency))
    if not words:
        raise UserError(f"{path}: no word in it: write one word a line")
    return words


_Cut = Callable[[str], list[str]]  # text -> its words, which joined are the text


def cutter(user_words: Sequence[UserWord]) -> _Cut:
    """jieba, with the words of the user."""
    try:
        import rjieba
    except ImportError:
        raise UserError(
            "--segmenter=jieba needs the package rjieba, which is not installed:"
            f" {extras.advice('zh')}"
        ) from None
    if not user_words:
        return _any_text(rjieba.cut)
    jieba = rjieba.Jieba()  # the package's own stays as it is
    for word in user_words:
        needed = jieba.suggest_freq(word.text)
        jieba.add_word(word.text, max(needed, word.frequency or 0), None)
    cut = [word.text for word in user_words if jieba.cut(word.text) != [word.text]]
    return _any_text(_around(cut, jieba.cut) if cut else jieba.cut)


def _around(words: Sequence[str], cut: _Cut) -> _Cut:
    """Cuts what stands between the words; the longest that begins somewhere counts."""
    by_start = collections.defaultdict(list)  # their first two characters
    for word in sorted(words, key=len, reverse=True):
        by_start[word[:2]].append(word)

    def parts(text: str) -> list[str]:
        found: list[str] = []
        done = place = 0
        while place < len(text) - 1:
            for word in by_start.get(text[place : place + 2], ()):
                if text.startswith(word, place):
                    found += [*cut(text[done:place]), word]
                    done = place = place + len(word)
                    break
            else:
                place += 1
        return found + cut(text[done:])

    return parts


def _any_text(cut: _Cut) -> _Cut:
    """For Python's strings: Rust has no lone surrogates."""

    def words(text: str) -> list[str]:
        try:
            return cut(text)
        except UnicodeEncodeError:
            found = cut(re.sub("[\ud800-\udfff]", "\ufffd", text))
            ends = itertools.accumulate(map(len, found), initial=0)
            return [text[start:end] for start, end in itertools.pairwise(ends)]

    return words
