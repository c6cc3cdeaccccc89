"""Reports on a corpus and a vocabulary: lines of at most 80 columns."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

from bert_mgpu.core import terminal
from bert_mgpu.text.vocab_coverage import CandidateWord, Census, CoverageTotals

_SHOWN = 15  # rows of a list
_FILES = 8
_WORD, _COUNT = 22, 10  # widths in columns
# The lines of the table of rates: name, value.
_RATES: tuple[tuple[str, Callable[[CoverageTotals], str]], ...] = (
    ("words (a CJK character is one)", lambda t: f"{t.words:,}"),
    ("tokens", lambda t: f"{t.tokens:,}"),
    ("tokens a word", lambda t: _ratio(t.tokens, t.words)),
    ("tokens a character", lambda t: _ratio(t.tokens, t.characters)),
    ("[UNK]", lambda t: f"{t.unknown:,}"),
    ("[UNK], % of tokens", lambda t: _percent(t.unknown, t.tokens)),
    ("[UNK], % of words", lambda t: _percent(t.unknown, t.words)),
    ("words in several pieces", lambda t: f"{t.cut:,}"),
    ("words in several pieces, % of words", lambda t: _percent(t.cut, t.words)),
    ("pieces of such a word", lambda t: _ratio(t.pieces, t.cut)),
)


def _ratio(part: int, whole: int) -> str:
    return f"{part / whole:.3f}" if whole else "-"


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.3f}" if whole else "-"


def corpus_lines(rows: int, files: Sequence[str], sampled: str = "") -> list[str]:
    """The size of a corpus and its files; sampled: how its rows were drawn."""
    count = f"{len(files)} file{'s' * (len(files) > 1)}"
    lines = [f"text: {rows:,} lines{sampled} of {count}:"]
    for path in files[:_FILES]:
        lines.append(f"  {terminal.cut_front(path, terminal.narrow(sys.stdout) - 2)}")
    if len(files) > _FILES:
        lines.append(f"  and {len(files) - _FILES} more")
    return lines


def rates(columns: Sequence[tuple[str, CoverageTotals]]) -> str:
    """A table of the totals, each under its heading."""
    widths = [14] * len(columns)
    lines = [("", *(heading for heading, _ in columns))] if len(columns) > 1 else []
    lines += [(name, *(value(t) for _, t in columns)) for name, value in _RATES]
    return terminal.align(lines, widths, terminal.narrow(sys.stdout))


def lists(census: Census, candidates: Sequence[CandidateWord]) -> list[str]:
    """Lists of the words that become [UNK] or pieces, and of a segmenter's words."""
    by_count = sorted(candidates, key=lambda word: (-word.count, word.word))
    unknown = [word for word in by_count if not word.pieces]
    lines: list[str] = []
    lines += _list(
        "characters that become [UNK]", [w for w in unknown if len(w.word) == 1]
    )
    lines += _list("words that become [UNK]", [w for w in unknown if len(w.word) > 1])
    lines += _list("words in several pieces", [w for w in by_count if w.pieces])
    lines += _compounds(census)
    if census.uncovered.missed:
        lines += paragraph(
            "There were too many different words to count all of them at once. The"
            " lists may lack words that occur at most"
            f" {census.uncovered.missed} times, and each count may be too low by as"
            " many; the rates above are exact."
        )
    return lines


def _list(title: str, candidates: Sequence[CandidateWord]) -> list[str]:
    if not candidates:
        return [f"{title}: none", ""]
    times = sum(candidate.count for candidate in candidates)
    lines = [_heading(title, len(candidates), times)]
    for candidate in candidates[:_SHOWN]:
        rest = terminal.narrow(sys.stdout) - _WORD - _COUNT - 2
        end = terminal.cut_front(candidate.location, rest)
        if candidate.pieces:
            end = terminal.fit(" ".join(candidate.pieces), rest).rstrip()
        name = candidate.word
        if len(name) == 1:
            name += f" U+{ord(name):04X}"
        lines.append(f"{terminal.fit(name, _WORD)}{candidate.count:>{_COUNT},}  {end}")
    return [*lines, ""]


def _heading(title: str, different: int, times: int) -> str:
    shown = f"; first {_SHOWN}" if different > _SHOWN else ""
    return f"{title}: {different:,} different, {times:,} times{shown}"


def _compounds(census: Census) -> list[str]:
    counts = census.compounds.counts
    if not counts:
        return []
    title = "words of several CJK characters"
    lines = _list(title, census.frequent_compounds(_SHOWN))
    lines[0] = _heading(title, len(counts), sum(counts.values()))
    ids = census.tokenizer.batch_ids(list(counts))
    return lines[:-1] + paragraph(
        f"{int((ids.lengths == 1).sum())} of them come out as one token, and none"
        " would if it were added: the tokenizer parts CJK characters before it looks"
        " at the vocabulary. So they are not added. Masks can cover such words as a"
        " whole all the same: pass --segmenter=jieba to"
        " data_prep/create_pretraining_data.py."
    )


def paragraph(text: str) -> list[str]:
    """A text wrapped into lines, followed by an empty line."""
    return [*terminal.wrap(text, terminal.narrow(sys.stdout)), ""]
