"""The text that edits of tokens make of a source, and those edits in characters.

    source = source_of("It's [SLOT], Zoë\u2019s!", tokenizer, "[SLOT]")
    made = realised(source, Edits(keeps, counts, written), tokenizer)
    made.text   # the rewritten text
    made.edits  # [TextEdit(start, end, old, new), ...]: these make it of source.text

Kept tokens are copied from the source's characters; where all are kept, the text is the
source, byte for byte. Written tokens are spelled by their word pieces, with case and
spaces to match their surroundings. Each change ends at the spaces beside it: whatever
is farther away stays as it is.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from bert_mgpu.text.edits import Edits
from bert_mgpu.text.rewrite_source import Place, RewriteSource, blanked
from bert_mgpu.text.spacing import Spacing, has_blank
from bert_mgpu.text.spelling import Spelling
from bert_mgpu.text.tokenization import Tokenizer
from bert_mgpu.text.words import is_unspaced_script

_CONTINUES = "##"
_LINE_END = re.compile(r"\r\n|\n|\r")
_NEAR = 64  # characters that show what follows a place
_BLANKS = re.compile(r"[^\S\n\r]+")  # no line ends: texts stay on their lines


class TextEdit(NamedTuple):
    """source.text[start:end] is `old` and becomes `new`."""

    start: int
    end: int
    old: str
    new: str


class Rewritten(NamedTuple):
    """A text, and the edits that make it: sorted, without overlaps."""

    text: str
    edits: list[TextEdit]


def realised(
    source: RewriteSource, edits: Edits, tokenizer: Tokenizer, *, context: str = ""
) -> Rewritten:
    """The text that edits make of a source.

    edits: for the first tokens, as many as it has `keeps`; the tokens after them are
    kept. Its `written` are ids. A slot in which nothing is written keeps its marker.
    context: a text that is read with the source; words that occur in it are spelled as
    they are there.
    """
    changes = [*_changes(source, edits, tokenizer)]
    if not changes:
        return Rewritten(source.text, [])
    writer = _Writer(source, tokenizer, context)
    for change in changes:
        writer.apply(change)
    writer.copy(len(source.text))
    return Rewritten(writer.made, writer.edits)


def on_one_line(text: str) -> tuple[str, int]:
    """The text with spaces for its line ends, and how many line ends it had."""
    return _LINE_END.subn(" ", text)


class _Stretch(NamedTuple):
    """A unit: tokens that share characters, as in a Hangul syllable; mostly one."""

    place: Place
    pieces: list[str]  # written before it and, where it is not kept, in its place
    is_kept: bool
    is_inner: bool  # it continues the word of the unit before it


def _units(
    source: RewriteSource, edits: Edits, tokenizer: Tokenizer
) -> Iterator[_Stretch]:
    """The units from left to right; the last one is the empty end of the text."""
    count, used = len(source.ids), 0
    written = list[list[str]]()
    for size in edits.counts:
        ids = edits.written[used : used + size]
        written.append([tokenizer.tokens[index] for index in ids])
        used += size
    written += [[] for _ in range(count + 1 - len(written))]
    keeps = [*edits.keeps, *[True] * (count - len(edits.keeps))]
    own = [tokenizer.tokens[index] for index in source.ids]
    for first, after, place in _shared(source.places):
        pieces = list(written[first])
        is_kept = all(keeps[first:after]) and not any(written[first + 1 : after])
        if not is_kept:
            for token in range(first, after):
                pieces += written[token] if token > first else []
                pieces += [own[token]] if keeps[token] else []
        is_inner = own[first].startswith(_CONTINUES)
        yield _Stretch(place, pieces, is_kept=is_kept, is_inner=is_inner)
    end = len(source.text)
    yield _Stretch((end, end), written[count], is_kept=True, is_inner=False)


def _shared(places: Sequence[Place]) -> list[tuple[int, int, Place]]:
    """(first token, excluded end, place) of each run of overlapping tokens."""
    runs = list[tuple[int, int, Place]]()
    for token, (start, end) in enumerate(places):
        first = token
        while runs and start < runs[-1][2][1]:
            first, _, place = runs.pop()
            start, end = min(start, place[0]), max(end, place[1])
        runs.append((first, token + 1, (start, end)))
    return runs


class _Change(NamedTuple):
    """What becomes of the text between two kept units."""

    before: int  # where the first unit ends; 0 if there is none
    gone: Place | None  # from the first to the last deleted unit or marker
    after: int  # where the second unit starts, or the text ends
    pieces: list[str]  # what is written
    is_inner: bool  # the second unit continues the word before it


def _changes(
    source: RewriteSource, edits: Edits, tokenizer: Tokenizer
) -> Iterator[_Change]:
    """The changes from left to right."""
    slots = [
        slot
        for slot, token in zip(source.slots, source.slot_tokens, strict=True)
        if any(edits.counts[token : token + 1])
    ]
    before, gone, pieces = 0, list[int](), list[str]()
    for unit in _units(source, edits, tokenizer):
        while slots and slots[0][0] < unit.place[0]:
            gone += slots.pop(0)
        pieces += unit.pieces
        if not unit.is_kept:
            gone += unit.place
            continue
        if gone or pieces:
            place = (gone[0], gone[-1]) if gone else None
            yield _Change(
                before,
                place,
                after=unit.place[0],
                pieces=pieces,
                is_inner=unit.is_inner,
            )
        before, gone, pieces = unit.place[1], [], []


class _Writer:
    """Writes the text, from left to right."""

    def __init__(self, source: RewriteSource, tokenizer: Tokenizer, context: str):
        self.made, self.edits = "", list[TextEdit]()
        self._text, self._done, self._ends = source.text, 0, False
        self._spacing = Spacing(source.text, source.places, source.slots)
        own = blanked(source.text, source.slots)
        self._spelling = Spelling(own, context, tokenizer)

    def copy(self, end: int) -> None:
        """Copies the source's characters up to a place."""
        self.made += self._text[self._done : end]
        self._done = end

    def apply(self, change: _Change) -> None:
        """Writes a change, and first the text before it."""
        self.copy(change.before)
        following = self._text[change.after : change.after + _NEAR]
        self._ends = has_blank(self._text[change.before : change.after])
        body, left = self._body(change.pieces)
        right = False if change.is_inner else self._wanted(body, following)
        if change.gone:
            start, end = change.gone
            if body:
                fitting = self._spacing.fitting
                left = fitting(left, change.before - 1, start, new=body[0])
                right = fitting(right, change.after, end - 1, new=body[-1])
        else:
            is_first = self.made.strip() and _starts_gap(left, right)
            start = change.before if is_first or not following else change.after
            end = start
        gap, rest = self._text[change.before : start], self._text[end : change.after]
        if body:
            gaps = _beside(gap, left), _beside(rest, right)
        elif not (self.made.strip() and following):  # at an end of the text
            gaps = (gap, _closed(rest)) if following else (_closed(gap), rest)
        else:
            dense = is_unspaced_script(self._text[start]) or is_unspaced_script(
                self._text[end - 1]
            )
            gaps = _between(gap, rest, right, dense=dense)
        self._replace((change.before, change.after), gaps, body, old=(gap, rest))

    def _body(self, pieces: Sequence[str]) -> tuple[str, bool | None]:
        """The text of written pieces, and whether a space is wanted before it."""
        body = ""
        left: bool | None = None
        wanted: bool | None
        for word, continues in _words(pieces):
            before = self.made + body
            if continues:
                body, wanted = body + self._spelling.rest_of(word, before), False
            else:
                wanted = self._wanted(body, word)
                blank = " " * bool(wanted if body else before)
                form = self._spelling.of(word, before + blank)
                body += blank + form if body else form
            left = wanted if before == self.made else left
        return body, left

    def _wanted(self, body: str, after: str) -> bool | None:
        """See `Spacing.between`; a space behind a kept mark ends its number."""
        own = bool(body) or not self._ends
        gap = " " * (self.made[-1:] == body[:1] == '"')  # closing, opening: no run
        return self._spacing.between(self.made + gap + body, after, in_number=own)

    def _replace(
        self, place: Place, gaps: tuple[str, str], body: str, *, old: tuple[str, str]
    ) -> None:
        """Writes gaps and body to a place, except for the ends that do not change."""
        kept = len(os.path.commonprefix([old[0], gaps[0]]))
        rest = len(os.path.commonprefix([old[1][::-1], gaps[1][::-1]]))
        start, end = place[0] + kept, place[1] - rest
        new = gaps[0][kept:] + body + gaps[1][: len(gaps[1]) - rest]
        gone = self._text[start:end]
        self.copy(start)
        self.made += new
        self._done = end
        if gone != new:
            self.edits.append(TextEdit(start, end, old=gone, new=new))


def _words(pieces: Sequence[str]) -> list[tuple[str, bool]]:
    """The words that pieces make, and whether each continues the word before them.

    Repeated punctuation is joined, as in "...", but not marks that close and open.
    """
    words = list[tuple[str, bool]]()
    for piece in pieces:
        text = piece.removeprefix(_CONTINUES)
        last, continues = words[-1] if words else ("", False)
        repeats = {*last} == {piece} and not piece.isalnum() and piece != '"'
        if words and (text != piece or repeats):
            words[-1] = last + text, continues
        else:
            words.append((text, text != piece))
    return words


def _starts_gap(left: bool | None, right: bool | None) -> bool:
    """Whether written text belongs at the start of the gap where it is inserted."""
    if left is False:
        return right is not False
    return left is None and right is True


def _beside(gap: str, wanted: bool | None) -> str:
    """The new gap beside written text. wanted: whether a space belongs there."""
    if wanted is None:
        return gap
    if not wanted:
        return _closed(gap)
    return gap if has_blank(gap) else gap + " "


def _closed(gap: str) -> str:
    """The gap without spaces, or as it is if it has a line end."""
    return gap if _LINE_END.search(gap) else _BLANKS.sub("", gap)


def _between(
    gap: str, rest: str, wanted: bool | None, *, dense: bool
) -> tuple[str, str]:
    """The new gaps on both sides of a deleted text, which become one.

    dense: the deleted text is in a script without spaces.
    """
    if wanted is False or (wanted is None and not dense):
        return _closed(gap), _closed(rest)
    if has_blank(gap) and has_blank(rest):
        return (_closed(gap), rest) if _LINE_END.search(rest) else (gap, _closed(rest))
    touches = not (has_blank(gap) or has_blank(rest))
    return gap + " " * (touches and wanted is True), rest
