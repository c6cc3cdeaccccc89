"""Masks for masked language modelling: the tokens of a row and their replacements.

    masking = Masking("token", mask_id=103, vocab_size=21128)
    masked = apply(masking, input_ids, segment_ids, words, rng)

Pure and seeded by the caller: equal arguments and an equal state of `rng` give
equal masks, so that data preparation and an input pipeline that draws masks anew
in every epoch can share this code. `words` says which tokens are masked together
(`whole_words.py` makes it); where every token has a number of its own, each is
masked alone.

Letters: n tokens of a row, m masked ones.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np

from bert_mgpu.core.errors import UserError

# Devlin et al. 2018, section 3.1: of the masked tokens, the share that becomes
# [MASK] and the share that stays; the rest becomes a random token.
MASK_SHARE, KEEP_SHARE = 0.8, 0.1
# Joshi et al. 2020 (SpanBERT), section 3.1: P(l) ~ p (1 - p)^(l - 1) for spans of
# l = 1 to 10 words. Their mean length is 3.8 words, as the paper says, if the
# distribution ends at 10, and not if longer draws count as 10 (4.5).
_SPAN_P, _SPAN_LONGEST = 0.2, 10
_SPAN_LAW = np.cumsum((1 - _SPAN_P) ** np.arange(_SPAN_LONGEST))
_SPAN_LAW /= _SPAN_LAW[-1]
_SPAN_DRAWS = 16  # per call; a row of 128 tokens mostly needs 6 to 10

_Span = tuple[int, int]  # the tokens [start, end)


@dataclasses.dataclass(frozen=True)
class Masking:
    """The settings that say how rows are masked.

    strategy: one of STRATEGIES.
      "token": single words, as google-research/bert's create_masked_lm_predictions,
        without and with its do_whole_word_mask. Words are shuffled and taken while
        they fit into the budget; one that does not fit is left out. Replacements
        (80/10/10) are drawn for each token.
      "span": SpanBERT's. The number of words of a span has a geometric distribution.
        A span starts at any word that is not masked yet. It ends early at a token that
        is never masked, at a masked word, and where the next word would exceed the
        budget. Spans are drawn until no word fits. Replacements are drawn for each
        span.
      "infill": bert-ad's create_pretraining_data_mass.py, see `_infill`.
    mask_id: the id of [MASK].
    vocab_size: random tokens are uniform over [0, vocab_size), special tokens
      included, as in Google's code.
    probability: share of a row's tokens that is masked, [CLS] and [SEP] included;
      "infill" does not use it.
    most: the largest number of masked tokens in a row (max_predictions_per_seq).
    unk_id: the id of [UNK], which "infill" never masks: a slot in the ad is a run of
      quotation marks, which the Chinese vocabulary lacks. None: it may mask any.
    """

    strategy: str
    mask_id: int
    vocab_size: int
    probability: float = 0.15
    most: int = 20
    unk_id: int | None = None

    def __post_init__(self) -> None:
        if self.strategy not in _CHOICES:
            raise UserError(
                f"masking {self.strategy!r} is not known: pass one of"
                f" {', '.join(STRATEGIES)}"
            )
        if not 0 < self.probability <= 1:
            raise UserError(
                f"masked_lm_prob {self.probability}: pass more than 0, at most 1"
            )
        if self.most < 1:
            raise UserError(f"max_predictions_per_seq {self.most}: pass 1 or more")


def too_few(masking: Masking, max_seq_length: int) -> str | None:
    """A note, if long rows get a smaller share of masks than the settings ask for."""
    wanted = round(max_seq_length * masking.probability)
    if masking.strategy == "infill" or wanted <= masking.most:
        return None
    longest = int(masking.most / masking.probability)
    return (
        f"note: rows beyond {longest} tokens get fewer masks: pass"
        f" --max_predictions_per_seq={wanted}"
    )


class Random(Protocol):
    """A source of random numbers: np.random.Generator, or rng.draws.Draws."""

    def random(self, size: int, /) -> np.ndarray:
        """Floats from 0 to 1: float64 [size]."""
        ...

    def integers(
        self, low: int, high: int, size: int, *, dtype: Any = ...
    ) -> np.ndarray:
        """Integers from low to high - 1: [size]."""
        ...

    def permutation(self, size: int, /) -> np.ndarray:
        """The numbers from 0 to size - 1 in random order: int64 [size]."""
        ...


class Masked(NamedTuple):
    """A row with its masks."""

    input_ids: np.ndarray  # int32 [n], with the replacements
    positions: np.ndarray  # int32 [m], ascending
    labels: np.ndarray  # int32 [m], the original ids there


class _Row(NamedTuple):
    """The row as the strategies see it, with W words."""

    length: int  # n
    starts: np.ndarray  # int64 [W], the first token of each word
    ends: np.ndarray  # int64 [W], the token after its last
    segments: np.ndarray  # int [W]
    unknown: np.ndarray  # int64 [n + 1], the number of [UNK] before each token


def budget(masking: Masking, length: int) -> int:
    """How many tokens to mask in a row of `length` tokens, [CLS] and [SEP] included.

    A half is rounded to the even number, as by Python's `round` in Google's code.
    """
    return min(masking.most, max(1, round(length * masking.probability)))


def apply(
    masking: Masking,
    input_ids: np.ndarray,
    segment_ids: np.ndarray,
    *,
    words: np.ndarray,
    rng: Random,
) -> Masked | None:
    """Masks a row; None where there is nothing to mask.

    Args:
      masking: the settings.
      input_ids: int [n], not padded; stays as it is.
      segment_ids: int [n]; only "infill" reads it.
      words: int [n], the number of each token's word, ascending; -1 for tokens
        that are never masked ([CLS], [SEP]).
      rng: the source of all random numbers.

    Returns None for a row without words or whose words are all longer than the budget;
    for "infill" see `_infill`. The caller counts and skips such rows.
    """
    maskable = words >= 0
    changes = words[1:] != words[:-1]
    is_first, is_last = maskable.copy(), maskable.copy()
    is_first[1:] &= changes
    is_last[:-1] &= changes
    starts = is_first.nonzero()[0]
    ends = is_last.nonzero()[0] + 1
    unknown = np.zeros(len(words) + 1, np.int64)
    np.cumsum(input_ids == masking.unk_id, out=unknown[1:])
    row = _Row(len(words), starts, ends, segments=segment_ids[starts], unknown=unknown)
    spans = _CHOICES[masking.strategy](masking, row, rng)
    return _replace(masking, input_ids, sorted(spans), rng=rng) if spans else None


def _replace(
    masking: Masking,
    input_ids: np.ndarray,
    spans: list[_Span],
    *,
    rng: Random,
) -> Masked:
    """Replaces the tokens of the spans by [MASK], by themselves or by random ones."""
    flat = [position for start, end in spans for position in range(start, end)]
    positions = np.array(flat, np.int32)
    if masking.strategy in _ONE_DRAW_A_SPAN:
        drawn = rng.random(len(spans)).repeat([end - start for start, end in spans])
    else:
        drawn = rng.random(len(positions))
    labels = input_ids[positions].astype(np.int32)
    replacements = rng.integers(0, masking.vocab_size, len(positions), dtype=np.int32)
    np.copyto(replacements, labels, where=drawn < MASK_SHARE + KEEP_SHARE)
    replacements[drawn < MASK_SHARE] = masking.mask_id
    masked = input_ids.astype(np.int32)  # a copy
    masked[positions] = replacements
    return Masked(masked, positions, labels)


def _words(masking: Masking, row: _Row, rng: Random) -> list[_Span]:
    """Words in random order, those that still fit into the budget."""
    left = budget(masking, row.length)
    starts, ends = row.starts.tolist(), row.ends.tolist()
    taken: list[_Span] = []
    for word in rng.permutation(len(starts)).tolist():
        start, end = starts[word], ends[word]
        if end - start <= left:
            taken.append((start, end))
            left -= end - start
            if not left:
                break
    return taken


def _spans(masking: Masking, row: _Row, rng: Random) -> list[_Span]:
    """Spans of words until no word fits into the budget."""
    left = budget(masking, row.length)
    starts, ends = row.starts.tolist(), row.ends.tolist()
    free = [True] * len(starts)
    taken: list[_Span] = []
    while left and any(
        is_free and end - start <= left
        for is_free, start, end in zip(free, starts, ends, strict=True)
    ):
        lengths = _SPAN_LAW.searchsorted(rng.random(_SPAN_DRAWS), "right") + 1
        firsts = rng.integers(0, len(starts), _SPAN_DRAWS)
        for first, length in zip(firsts.tolist(), lengths.tolist(), strict=True):
            start = end = starts[first]
            for word in range(first, min(first + length, len(starts))):
                is_next = starts[word] == end
                if not (free[word] and is_next and ends[word] - start <= left):
                    break
                free[word] = False
                end = ends[word]
            if end > start:
                taken.append((start, end))
                left -= end - start
    return taken


def _infill(masking: Masking, row: _Row, rng: Random) -> list[_Span]:
    """A span of the ad that is as long as the phrase.

    The row is `[CLS] phrase [SEP] ad [SEP]`, segment 0 and segment 1. As in
    bert-ad's create_pretraining_data_mass.py, the start is uniform over all positions
    of the ad at which as many tokens as the phrase has would fit, of which the first
    `most` are masked. Nothing is masked if the phrase has fewer than 2 tokens or the
    ad is not longer than the phrase. Unlike there, a span never contains [UNK].

    With words of several tokens, the start is uniform over the word starts among
    those positions, and the end moves on to the end of its word. Where the span would
    then have more than `most` tokens, the end moves back to the end of the word
    before; starts at which not even one word is left do not count. A row with no
    start left is not masked. So a span is about as long as the phrase and always
    consists of whole words.
    """
    in_ad = row.segments == 1
    starts, ends = row.starts[in_ad], row.ends[in_ad]
    phrase = int((row.ends - row.starts)[~in_ad].sum())
    if phrase < 2 or not len(starts) or ends[-1] - starts[0] <= phrase:
        return []
    edges = np.append(starts[:1], ends)  # of words; [words of the ad + 1]
    starts = starts[starts + phrase <= ends[-1]]
    wanted = edges.searchsorted(starts + min(phrase, masking.most))
    stops = edges[wanted]
    stops = np.where(stops - starts <= masking.most, stops, edges[wanted - 1])
    known = row.unknown[stops] == row.unknown[starts]
    possible = ((stops > starts) & known).nonzero()[0]
    if not len(possible):
        return []
    chosen = possible[rng.integers(0, len(possible), 1)[0]]
    return [(int(starts[chosen]), int(stops[chosen]))]


_CHOICES: dict[str, Callable[[Masking, _Row, Random], list[_Span]]]
_CHOICES = {"token": _words, "span": _spans, "infill": _infill}
STRATEGIES = tuple(_CHOICES)
_ONE_DRAW_A_SPAN = {"span"}  # elsewhere each token has a draw of its own
