"""Candidate phrases from a bank for the segments of new ads, as rows to rank."""

from __future__ import annotations

import dataclasses
import itertools
import pathlib
from collections.abc import Iterator

from bert_mgpu.core.errors import UserError
from bert_mgpu.core.rng import philox
from bert_mgpu.core.text_files import read_lines
from bert_mgpu.data_prep import ad_files, phrase_mining, rewrite_data
from bert_mgpu.data_prep.ad_files import AdBlock, AdStore
from bert_mgpu.data_prep.phrase_mining import Cutting, Phrase
from bert_mgpu.data_prep.rewrite_data import AdSource, RewriteCounts
from bert_mgpu.data_prep.rewrite_pairs import BlockRows, Negatives, PhraseSource
from bert_mgpu.text import ad_segments

OUTPUT = "candidates.txt"
_SORTED = 1 << 17  # phrases sorted in memory at once


@dataclasses.dataclass(frozen=True)
class CandidateMaker:
    """Makes the rows of blocks of new ads; holds all that they depend on."""

    store: AdStore
    cutting: Cutting
    source: PhraseSource
    count: int  # phrases per segment

    def __call__(self, block: AdBlock) -> None:
        """Writes the rows of a block: similar phrases, then ones of similar length."""
        wanted = Negatives("near", self.count)
        with BlockRows(block) as rows:
            for ad, number in zip(*self.store.of_block(block), strict=True):
                stream = philox.Stream(
                    self.cutting.seed, philox.Purpose.ADS, int(number)
                )
                words = philox.words(stream, 0, self.count).reshape(self.count, -1)
                slots = rows.slots_of(ad, self.cutting)
                rows.counts["ads_train"] += bool(slots)
                for slot in slots:
                    texts = self.source.draw(
                        slot.text, wanted, words.tolist(), is_taken=ad.text.__contains__
                    )
                    rows.add_candidates(ad, slot, texts)


def make(
    source: AdSource,
    output_dir: pathlib.Path,
    cutting: Cutting,
    *,
    bank: str,
    count: int,
    workers: int,
) -> RewriteCounts:
    """Writes candidates.txt for the ads: `count` phrases per segment, or all there are.

    Raises:
      UserError: for a fault of a file, with file:line; if the bank has no phrases.
    """
    with rewrite_data.work_folder(output_dir) as work:
        store, blocks = ad_files.read(*source, folder=work)
        runs = list(_runs(bank, cutting, work))
        if not runs:
            raise UserError(
                f"--bank={bank}: no phrase that --delimiters, --min_segment and"
                " --max_segment allow: pass the bank.tsv of an earlier run"
            )
        phrase_mining.merge_runs(runs, work / "phrases")
        phrases = phrase_mining.read_run(work / "phrases")
        index = rewrite_data.index_of(work / "index", phrases, near=True)
        made = work / OUTPUT
        maker = CandidateMaker(store, cutting, index, count=count)
        rows = rewrite_data.write_rows(
            maker, blocks, {"candidates": made}, workers=workers
        )
        rewrite_data.check_rows(source, store.distinct, rows)
        rewrite_data.publish(work, output_dir, [OUTPUT])
    rows["empty"] = store.empty
    return RewriteCounts(store.total, store.distinct, len(index.phrases), rows=rows)


def _runs(bank: str, cutting: Cutting, work: pathlib.Path) -> Iterator[pathlib.Path]:
    """Writes the phrases of a bank that may fill a slot, and yields the sorted runs."""
    texts = _texts(bank, cutting)
    for number in itertools.count():
        some = sorted(set(itertools.islice(texts, _SORTED)))
        if not some:
            return
        path = work / f"bank_{number}"
        none = dict.fromkeys(Phrase._fields[1:], 0)
        phrase_mining.write_run(path, (Phrase(text, **none) for text in some))
        yield path


def _texts(bank: str, cutting: Cutting) -> Iterator[str]:
    for number, line in read_lines(bank):
        text = line.partition("\t")[0].strip()
        is_header = number == 1 and text == phrase_mining.COLUMNS[0]
        segments = cutting.segments(text)
        if is_header or len(segments) != 1 or ad_segments.has_slot(text, segments):
            continue
        if segments[0].text == text and cutting.fits(segments[0]):
            yield text
