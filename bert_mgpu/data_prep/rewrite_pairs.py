"""The rows made from a block of ads: for ranking, for infill and for rewriting.

Each segment gives a row with its own phrase, flag 1, and rows with phrases of other
ads, flag 0. Random numbers depend on the seed and the ad's text alone.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
import pathlib
from collections.abc import Callable, Iterator
from typing import NamedTuple, TextIO

import numpy as np

from bert_mgpu.core.encodings import UTF_8
from bert_mgpu.core.errors import UserError, shortened
from bert_mgpu.core.rng import philox
from bert_mgpu.data_prep.ad_files import Ad, AdBlock, AdStore
from bert_mgpu.data_prep.phrase_index import PhraseDraws, PhraseIndex
from bert_mgpu.data_prep.phrase_mining import Cutting
from bert_mgpu.data_prep.phrase_neighbours import Neighbours
from bert_mgpu.text import ad_segments
from bert_mgpu.text.ad_segments import AdSegment

_TRIES = philox.PER_COUNT  # random phrases to try before those that follow
_AT_ONCE = 64  # ads whose random numbers are drawn together, for one negative
_WITHIN = 2  # characters by which similar lengths differ
_SPARE = 32  # extra neighbours, since some may be phrases of the ad
KINDS = ("random", "length", "near")


class Negatives(NamedTuple):
    """Which phrases of other ads a segment is paired with."""

    kind: str  # one of KINDS
    wanted: int  # phrases per segment


class PhraseSource(NamedTuple):
    """Phrases to draw from."""

    phrases: PhraseIndex
    near: Neighbours | None  # the neighbours in the index, if wanted

    def nearest(
        self, phrase: str, count: int, *, is_taken: Callable[[str], bool]
    ) -> list[str]:
        """At most `count` phrases of similar length, the most similar first."""
        assert self.near is not None
        bounds = self._of_similar_length(phrase, _WITHIN)
        numbers = self.near.of(phrase, bounds, count + _SPARE)
        texts = (self.phrases[number] for number in numbers)
        return list(itertools.islice(itertools.filterfalse(is_taken, texts), count))

    def draw(
        self,
        phrase: str,
        negatives: Negatives,
        words: list[list[int]],
        *,
        is_taken: Callable[[str], bool],
    ) -> list[str]:
        """As many phrases as wanted, or as many as there are, each once.

        Those of similar length come from a wider range only where there are no more.

        words: random numbers below 2^32 for each phrase.
        """
        drawn: dict[str, None] = {}  # in order
        if negatives.kind == "near":
            near = self.nearest(phrase, negatives.wanted, is_taken=is_taken)
            drawn.update(dict.fromkeys(near))
        draws = PhraseDraws(self.phrases, lambda text: text in drawn or is_taken(text))
        everything = 0, len(self.phrases)
        bounds, within = everything, _WITHIN
        if negatives.kind != "random":
            bounds = self._of_similar_length(phrase, within)
        for own in words[len(drawn) : negatives.wanted]:
            while (text := draws.draw(bounds, own)) is None and bounds != everything:
                within *= 2  # also for the draws that follow: this range has none left
                bounds = self._of_similar_length(phrase, within)
            if text is None:
                break
            drawn[text] = None
        return [*drawn]

    def _of_similar_length(self, phrase: str, within: int) -> tuple[int, int]:
        return self.phrases.of_lengths(len(phrase) - within, len(phrase) + within)


@dataclasses.dataclass(frozen=True)
class RowMaker:
    """Makes the rows of blocks; holds all that they depend on."""

    store: AdStore
    cutting: Cutting
    negatives: Negatives
    train: PhraseSource  # segments of the train ads
    dev: PhraseSource
    has_hint: bool  # whether rows for rewriting have a hint

    def __call__(self, block: AdBlock) -> None:
        """Writes the rows of a block, one file for each output."""
        ads, hashes = self.store.of_block(block)
        is_dev = self.cutting.is_dev(hashes).tolist()
        with BlockRows(block, self.has_hint) as rows:
            at_once = max(1, _AT_ONCE // self.negatives.wanted)
            for first in range(0, len(ads), at_once):
                here = slice(first, first + at_once)
                cuts = [rows.slots_of(ad, self.cutting) for ad in ads[here]]
                words = self._words(hashes[here], max(map(len, cuts)))
                group = zip(ads[here], cuts, is_dev[here], words, strict=True)
                for ad, cut, dev, own in group:
                    self._add(rows, ad, cut, is_dev=dev, words=own)

    def _words(self, hashes: np.ndarray, slots: int) -> np.ndarray:
        """Random numbers below 2^32 for each negative: uint64 [ads, negatives, 4]."""
        count = slots * self.negatives.wanted
        drawn = philox.words_of_each(
            self.cutting.seed, philox.Purpose.ADS, hashes, count=1 + count
        )
        # The first counter decides whether an ad is a train or a dev ad (`is_dev`).
        return drawn[:, philox.PER_COUNT :].reshape(len(hashes), count, _TRIES)

    def _add(
        self,
        rows: BlockRows,
        ad: Ad,
        slots: list[AdSegment],
        *,
        is_dev: bool,
        words: np.ndarray,
    ) -> None:
        each = self.negatives.wanted
        for number, slot in enumerate(slots):
            own = words[number * each : (number + 1) * each].tolist()
            others = self._others(ad.text, slot.text, is_dev, words=own)
            left = ad_segments.without(ad.text, slot, self.cutting.delimiters)
            rows.add_slot(ad, slot, others, left=left, is_dev=is_dev)
        rows.counts["ads_dev" if is_dev else "ads_train"] += bool(slots)

    def _others(
        self, ad: str, phrase: str, is_dev: bool, *, words: list[list[int]]
    ) -> list[str]:
        """Phrases of other ads, at least one, of the same set (train, dev) if any."""
        sides = (self.dev, self.train) if is_dev else (self.train, self.dev)
        for source in sides:
            drawn = source.draw(phrase, self.negatives, words, is_taken=ad.__contains__)
            if drawn:
                return drawn
        raise UserError(
            f"{shortened(ad, 40)!r}: all phrases of --input_file are in this ad: an ad"
            " needs others for its rows with flag 0: pass more ads"
        )


class BlockRows:
    """The files of a block's rows, one for each output, and the counts.

    A context manager: the counts are written on exit.
    """

    def __init__(self, block: AdBlock, has_hint: bool = False) -> None:
        self._block, self._has_hint = block, has_hint
        self._files: dict[str, TextIO] = {}
        self.counts: collections.Counter[str] = collections.Counter()

    def _row(self, output: str, *cells: object) -> None:
        if output not in self._files:
            self._files[output] = _open(rows_path(self._block, output))
        self._files[output].write("\t".join(map(str, cells)) + "\n")
        self.counts[output] += 1

    def slots_of(self, ad: Ad, cutting: Cutting) -> list[AdSegment]:
        """The segments that rows ask about; counts the ads that have none."""
        slots, why = cutting.slots(ad.text)
        if why:
            self.counts[why] += 1
        return slots

    def add_slot(
        self, ad: Ad, slot: AdSegment, others: list[str], *, left: str, is_dev: bool
    ) -> None:
        """Adds the rows of a segment, with phrases of other ads, to every output.

        left: the ad without the segment.
        """
        ranking, rewriting = ("eval", "dev") if is_dev else ("train", "rewrite")
        phrases = [(1, slot.text), *((0, text) for text in others)]
        for flag, phrase in phrases:
            blank = ad_segments.with_slot(ad.text, slot, phrase)
            self._row(ranking, flag, slot.number, phrase, blank)
        marked = ad_segments.marked(ad.text, slot)
        hint = [ad.hint] if self._has_hint else []
        self._row(rewriting, marked, *hint, ad.text)
        if is_dev:
            return
        if slot.text in left:
            self.counts["copied"] += 1  # the ad would reveal which phrase is its own
            return
        for flag, phrase in phrases:
            self._row("infill", flag, slot.number, phrase, left)

    def add_candidates(self, ad: Ad, slot: AdSegment, texts: list[str]) -> None:
        """Adds the rows of a new ad's segment: its own phrase, then others."""
        for flag, phrase in [(1, slot.text), *((0, text) for text in texts)]:
            blank = ad_segments.with_slot(ad.text, slot, phrase)
            self._row("candidates", flag, slot.number, phrase, blank)

    def __enter__(self) -> BlockRows:
        return self

    def __exit__(self, *error: object) -> None:
        for file in self._files.values():
            file.close()
        with _open(rows_path(self._block, "counts")) as file:
            file.writelines(f"{name}\t{n}\n" for name, n in self.counts.items())


def _open(path: pathlib.Path) -> TextIO:
    return open(path, "w", encoding=UTF_8, newline="\n")


def rows_path(block: AdBlock, output: str) -> pathlib.Path:
    """The file of a block's rows for an output."""
    return block.path.with_suffix(f".{output}")


def read_counts(block: AdBlock) -> Iterator[tuple[str, int]]:
    """The counts of a block."""
    with open(rows_path(block, "counts"), encoding=UTF_8) as file:
        for line in file:
            name, count = line.split("\t")
            yield name, int(count)
