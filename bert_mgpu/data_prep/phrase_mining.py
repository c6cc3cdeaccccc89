"""The phrases of ads, counted in memory that does not grow with the text.

Each block of ads is counted by itself and written as a run, one phrase per line in the
order of code points; then the runs are merged.
"""

from __future__ import annotations

import contextlib
import heapq
import itertools
import pathlib
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from bert_mgpu.core.encodings import UTF_8
from bert_mgpu.core.rng import philox
from bert_mgpu.data_prep.ad_files import Ad, AdBlock, AdStore
from bert_mgpu.text import ad_segments
from bert_mgpu.text.ad_segments import AdSegment

_FAN_IN = 128  # runs merged at once, within the limit of open files per process
_RARE = 64  # phrases that occur less often are sorted on disk
MOST_SEGMENTS = 100  # the rows of each segment hold the whole ad
# Why an ad has no slots -> what a message says that it has.
LEFT_OUT = {
    "one_segment": "fewer than two segments",
    "too_many": f"more than {MOST_SEGMENTS} segments",
    "unfit": "no segment of --min_segment to --max_segment characters",
    "with_slot": "[SLOT] or a segment of quotation marks alone",
}
COLUMNS = ("phrase", "count", "ads", "first", "middle", "last", "beside_main")


class Cutting(NamedTuple):
    """How ads are cut into segments and split into train and dev ads."""

    delimiters: str
    shortest: int  # characters of a segment
    longest: int | None
    dev_share: float
    seed: int

    def segments(self, ad: str) -> list[AdSegment]:
        """All segments of an ad, of whatever length."""
        return ad_segments.segments(ad, self.delimiters)

    def slots(self, ad: str) -> tuple[list[AdSegment], str | None]:
        """The segments that rows ask about; if none, also the reason, from LEFT_OUT."""
        cut = self.segments(ad)
        if len(cut) < 2:
            return [], "one_segment"
        if len(cut) > MOST_SEGMENTS:
            return [], "too_many"
        if ad_segments.has_slot(ad, cut):
            return [], "with_slot"
        fitting = list(filter(self.fits, cut))
        return fitting, None if fitting else "unfit"

    def fits(self, segment: AdSegment) -> bool:
        """Whether the length of a segment is within the limits."""
        size = len(segment.text)
        return self.shortest <= size <= (self.longest or size)

    def is_dev(self, hashes: np.ndarray) -> np.ndarray:
        """Whether ads are dev ads, by the hashes of their texts alone: bool [n]."""
        words = philox.words_of_each(self.seed, philox.Purpose.ADS, hashes, count=1)
        return words[:, 0] < self.dev_share * 2.0**32


class Phrase(NamedTuple):
    """A phrase with its counts: those of COLUMNS, in order, and two more."""

    text: str
    times: int  # occurrences as a segment or beside the main part
    ads: int  # ads in which it occurs
    first: int  # how often it is the first, or only, segment of an ad
    middle: int
    last: int
    beside: int  # how often it stands alone before or after the main part
    train_ads: int  # train ads that have a slot in its place
    dev_ads: int


def count_block(store: AdStore, cutting: Cutting, block: AdBlock) -> None:
    """Writes the phrases of a block, sorted, as its run."""
    counts: dict[str, list[int]] = {}
    ads, hashes = store.of_block(block)
    for ad, is_dev in zip(ads, cutting.is_dev(hashes).tolist(), strict=True):
        in_ad = _counts_of(ad, cutting)
        slots = {slot.text for slot in cutting.slots(ad.text)[0]}
        for text, own in in_ad.items():
            total = counts.setdefault(text, [0] * (len(Phrase._fields) - 1))
            is_slot = text in slots
            values = (
                sum(own[:3]) or own[3],
                1,
                *own,
                int(is_slot and not is_dev),
                int(is_slot and is_dev),
            )
            for at, value in enumerate(values):
                total[at] += value
    with open(run_path(block), "w", encoding=UTF_8, newline="\n") as file:
        file.writelines(_line(Phrase(text, *counts[text])) for text in sorted(counts))


def _counts_of(ad: Ad, cutting: Cutting) -> dict[str, list[int]]:
    """How often each phrase of an ad is first, middle, last or beside the main part."""
    counts: dict[str, list[int]] = {}
    cut = cutting.segments(ad.text)
    for number, segment in enumerate(cut):
        if cutting.fits(segment) and not ad_segments.has_slot(segment.text, [segment]):
            place = 0 if number == 0 else 2 if number == len(cut) - 1 else 1
            counts.setdefault(segment.text, [0] * 4)[place] += 1
    if ad.main:
        for text in ad_segments.beside(ad.text, ad.main, cutting.delimiters) or ():
            if not ad_segments.has_slot(text, cutting.segments(text)):
                counts.setdefault(text, [0] * 4)[3] += 1
    return counts


def run_path(block: AdBlock) -> pathlib.Path:
    """The file of a block's run."""
    return block.path.with_suffix(".run")


def _line(phrase: Phrase) -> str:
    return "\t".join(map(str, phrase)) + "\n"


def _phrase(line: str) -> Phrase:
    text, *counts = line.rstrip("\n").split("\t")
    return Phrase(text, *map(int, counts))


def read_run(path: pathlib.Path) -> Generator[Phrase, None, None]:
    """The phrases of a run."""
    with open(path, encoding=UTF_8, newline="\n") as file:
        yield from map(_phrase, file)


def write_run(path: pathlib.Path, phrases: Iterable[Phrase]) -> None:
    """Writes phrases, which must be sorted by their texts."""
    with open(path, "w", encoding=UTF_8, newline="\n") as file:
        file.writelines(map(_line, phrases))


def merged(runs: Sequence[pathlib.Path]) -> Iterator[Phrase]:
    """The phrases of all runs, each once, in the order of code points."""
    with contextlib.ExitStack() as stack:
        opened = [
            stack.enter_context(contextlib.closing(read_run(path))) for path in runs
        ]
        together = heapq.merge(*opened, key=lambda phrase: phrase.text)
        for text, group in itertools.groupby(together, key=lambda phrase: phrase.text):
            several = list(group)
            if len(several) == 1:
                yield several[0]
            else:
                yield Phrase(
                    text, *map(sum, zip(*(p[1:] for p in several), strict=True))
                )


def merge_runs(runs: Sequence[pathlib.Path], target: pathlib.Path) -> None:
    """Merges any number of runs into one, and removes them."""
    left = list(runs)
    for number in itertools.count():
        some, left = left[:_FAN_IN], left[_FAN_IN:]
        path = target.with_suffix(f".{number}") if left else target
        write_run(path, merged(some))
        for done in some:
            done.unlink()
        if not left:
            return
        left.append(path)


def most_frequent_first(
    phrases: Iterable[Phrase], folder: pathlib.Path
) -> Iterator[Phrase]:
    """The phrases, most frequent first, then by code points, as the input is."""
    common: list[Phrase] = []
    with contextlib.ExitStack() as stack:
        rare = [
            stack.enter_context(
                open(folder / f"count_{count}", "w+", encoding=UTF_8, newline="\n")
            )
            for count in range(_RARE)
        ]
        for phrase in phrases:
            if phrase.times < _RARE:
                rare[phrase.times].write(_line(phrase))
            else:
                common.append(phrase)
        yield from sorted(common, key=lambda phrase: (-phrase.times, phrase.text))
        for file in reversed(rare):
            file.seek(0)
            yield from map(_phrase, file)


def write_bank(
    phrases: Iterable[Phrase],
    bank: pathlib.Path,
    matches: pathlib.Path,
    *,
    is_match: Callable[[Phrase], bool],
) -> int:
    """Writes bank.tsv and matches.txt; returns the number of phrases."""
    count = 0
    with (
        open(bank, "w", encoding=UTF_8, newline="\n") as table,
        open(matches, "w", encoding=UTF_8, newline="\n") as texts,
    ):
        table.write("\t".join(COLUMNS) + "\n")
        for phrase in phrases:
            table.write("\t".join(map(str, phrase[: len(COLUMNS)])) + "\n")
            if is_match(phrase):
                texts.write(f"{phrase.text}\n")
            count += 1
    return count
