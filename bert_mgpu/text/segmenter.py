"""Chinese words as jieba segments them (package rjieba, optional)."""

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
    """A word for jieba's dictionary; jieba chooses the frequency where it is None."""

    text: str
    frequency: int | None


def read_user_dict(path: str | pathlib.Path) -> list[UserWord]:
    """The words of a file in jieba's format: a line is `word [frequency] [tag]`.

    The file is UTF-8, with spaces between the fields; a tag (lower-case letters) is
    ignored. Any other line is a word as a whole, so words may contain spaces.

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
        if match := re.fullmatch(r"(.+?)(?: +([0-9]+))?(?: +[a-z]+)?", text):
            frequency = min(int(match[2]), _MAX_FREQUENCY) if match[2] else None
            words.append(UserWord(match[1], frequency))
    if not words:
        raise UserError(f"{path}: no word in it: write one word a line")
    return words


_Cut = Callable[[str], list[str]]  # text -> its words, which together are the text


def cutter(user_words: Sequence[UserWord]) -> _Cut:
    """jieba's segmentation function, with the user's words added."""
    try:
        import rjieba
    except ImportError:
        raise UserError(
            "--segmenter=jieba needs the package rjieba, which is not installed:"
            f" {extras.advice('zh')}"
        ) from None
    if not user_words:
        return _any_text(rjieba.cut)
    jieba = rjieba.Jieba()  # the package's default object stays unchanged
    for word in user_words:
        needed = jieba.suggest_freq(word.text)
        jieba.add_word(word.text, max(needed, word.frequency or 0), None)
    split = [word.text for word in user_words if jieba.cut(word.text) != [word.text]]
    return _any_text(_keeping_whole(split, jieba.cut) if split else jieba.cut)


def _keeping_whole(words: Sequence[str], cut: _Cut) -> _Cut:
    """`cut`, but with these words kept whole; where several begin, the longest."""
    by_start = collections.defaultdict(list)  # their first two characters
    for word in sorted(words, key=len, reverse=True):
        by_start[word[:2]].append(word)

    def parts(text: str) -> list[str]:
        pieces: list[str] = []
        done = position = 0
        while position < len(text) - 1:
            for word in by_start.get(text[position : position + 2], ()):
                if text.startswith(word, position):
                    pieces += [*cut(text[done:position]), word]
                    done = position = position + len(word)
                    break
            else:
                position += 1
        return pieces + cut(text[done:])

    return parts


def _any_text(cut: _Cut) -> _Cut:
    """`cut` for any Python string: strings in Rust cannot have lone surrogates."""

    def words(text: str) -> list[str]:
        try:
            return cut(text)
        except UnicodeEncodeError:
            replaced = cut(re.sub("[\ud800-\udfff]", "\ufffd", text))
            ends = itertools.accumulate(map(len, replaced), initial=0)
            return [text[start:end] for start, end in itertools.pairwise(ends)]

    return words
