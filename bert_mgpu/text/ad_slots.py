"""The slot of an ad in bert-ad's rows: a run of quotation marks that fills a segment.

Nothing else counts as a slot: real quotation marks stand beside words, and the segment
index in such a row is not always right. Where a segment occurs twice, bert-ad replaces
it in both places, and both are slots of the row's one phrase.
"""

from __future__ import annotations

from collections.abc import Sequence

from bert_mgpu.core.rows import Ragged
from bert_mgpu.text.ad_segments import SLOT_CHARACTER, AdSegment, segments
from bert_mgpu.text.tokenization import Tokenizer


def slots(ad: str) -> list[AdSegment]:
    """The segments that are slots, in order; most texts have none."""
    if SLOT_CHARACTER not in ad:
        return []
    return [segment for segment in segments(ad) if segment.is_slot]


def filled(ad: str, text: str) -> str | None:
    """The ad with this text in its slot; None where it has no slot."""
    cut = slots(ad)
    return text.join(_around(ad, cut)) if cut else None


def before(ad: str | None) -> str | None:
    """The text before the first slot of an ad; None where it has no slot."""
    cut = slots(ad or "")
    return (ad or "")[: cut[0].start] if cut else None


def slot_key(ad: str | None) -> str | None:
    """The ad with a single mark in its slot: a key that all rows of a slot share.

    A row has as many marks as its phrase has characters. None: there is no slot.
    """
    return filled(ad or "", SLOT_CHARACTER)


def masked_ids(
    ads: Sequence[str],
    tokenizer: Tokenizer,
    *,
    counts: Sequence[int] | None = None,
) -> Ragged:
    """The token ids of ads, with [MASK] in their slots, which no text becomes: int32.

    All other ids are those of `Tokenizer.batch_ids`, since a mark is a word of its own.
    counts: of the masks in each slot of an ad; None: one for each mark.
    """
    cuts = [slots(ad) for ad in ads]
    texts = [
        text for ad, cut in zip(ads, cuts, strict=True) for text in _around(ad, cut)
    ]
    around, number = tokenizer.batch_ids(texts), 0
    rows = list[list[int]]()
    for ad, cut in enumerate(cuts):
        row = around.row(number).tolist()
        for slot in cut:
            number += 1
            count = len(slot.text) if counts is None else counts[ad]
            row += [tokenizer.mask_id] * count + around.row(number).tolist()
        rows.append(row)
        number += 1
    return Ragged.from_rows(rows)


def _around(ad: str, cut: Sequence[AdSegment]) -> list[str]:
    """The texts between these segments, one more than there are segments."""
    starts = [0, *(segment.end for segment in cut)]
    ends = [*(segment.start for segment in cut), len(ad)]
    return [ad[start:end] for start, end in zip(starts, ends, strict=True)]
