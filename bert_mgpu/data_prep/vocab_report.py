"""What data_prep/domain_vocab.py prints: plain lines of at most 80 columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from bert_mgpu.core import terminal
from bert_mgpu.text.vocab_coverage import CandidateWord, Census, CoverageTotals

_SHOWN = 15  # rows of a list
_WORD, _COUNT = 22, 10  # columns
# Of all words, how many are or become what: name, value.
_RATES: tuple[tuple[str, Callable[[CoverageTotals], str]], ...] = (
    ("words (a CJK character is one)", lambda t: f"{t.words:,}"),
    ("tokens", lambda t: f"{t.tokens:,}"),
    ("tokens a word", lambda t: _ratio(t.tokens, t.words)),
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


def rates(columns: Sequence[tuple[str, CoverageTotals]]) -> str:
    """A table of the totals, each under its heading."""
    widths = [14] * len(columns)
    lines = [("", *(heading for heading, _ in columns))] if len(columns) > 1 else []
    lines += [(name, *(value(t) for _, t in columns)) for name, value in _RATES]
    return terminal.align(lines, widths)


def lists(census: Census, found: Sequence[CandidateWord]) -> list[str]:
    """What becomes [UNK], what falls into pieces, and what a segmenter found."""
    by_count = sorted(found, key=lambda one: (-one.count, one.word))
    unknown = [one for one in by_count if not one.pieces]
    lines: list[str] = []
    lines += _list(
        "characters that become [UNK]", [one for one in unknown if len(one.word) == 1]
    )
    lines += _list(
        "words that become [UNK]", [one for one in unknown if len(one.word) > 1]
    )
    lines += _list("words in several pieces", [one for one in by_count if one.pieces])
    lines += _compounds(census)
    if census.lacking.missed:
        lines += paragraph(
            "There were too many different words to count all of them at once. The"
            f" lists lack words that occur at most {census.lacking.missed} times, and a"
            " count may be so much too low; the rates above are exact."
        )
    return lines


def _list(what: str, found: Sequence[CandidateWord]) -> list[str]:
    if not found:
        return [f"{what}: none", ""]
    times = sum(one.count for one in found)
    lines = [_heading(what, len(found), times)]
    for one in found[:_SHOWN]:
        rest = terminal.WIDTH - _WORD - _COUNT - 2
        end = terminal.cut_front(one.place, rest)
        if one.pieces:
            end = terminal.fit(" ".join(one.pieces), rest).rstrip()
        name = one.word if len(one.word) > 1 else f"{one.word} U+{ord(one.word):04X}"
        lines.append(f"{terminal.fit(name, _WORD)}{one.count:>{_COUNT},}  {end}")
    return [*lines, ""]


def _heading(what: str, different: int, times: int) -> str:
    shown = f"; first {_SHOWN}" if different > _SHOWN else ""
    return f"{what}: {different:,} different, {times:,} times{shown}"


def _compounds(census: Census) -> list[str]:
    counts = census.compounds.counts
    if not counts:
        return []
    what = "words of several CJK characters"
    lines = _list(what, census.frequent_compounds(_SHOWN))
    lines[0] = _heading(what, len(counts), sum(counts.values()))
    ids = census.tokenizer.batch_ids(list(counts))
    return lines[:-1] + paragraph(
        f"{int((ids.lengths == 1).sum())} of them come out as one token, and none"
        " would if it were added: the tokenizer parts CJK characters before it looks"
        " at the vocabulary. So they are not added. Masks can cover such words as a"
        " whole all the same: pass --segmenter=jieba to"
        " data_prep/create_pretraining_data.py."
    )


def paragraph(text: str) -> list[str]:
    """Wrapped, with an empty line behind it."""
    return [*terminal.wrap(text), ""]
