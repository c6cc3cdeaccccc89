"""Tags of edits, and the scripts of texts with slots."""

import json
import random

import numpy as np
import pytest

from bert_mgpu.tasks.rewriting import tags
from bert_mgpu.tasks.rewriting.dataset import slots_of
from bert_mgpu.text.edits import Edits, edits_of, realised
from bert_mgpu.text.rewrite_source import source_of
from bert_mgpu.text.tokenization import Tokenizer
from tests.support import real_texts
from tests.support.paths import DATA
from tests.support.realised import checked

MOST = 3


def test_tags_say_what_edits_do():
    """All that 2 x 4 tags can say of two tokens and the end comes back."""
    edits = Edits([False, True], [2, 0, 3], [7, 8, 9, 9, 9])
    found = tags.of_edits(edits, MOST)
    assert found == [MOST + 1 + 2, 0, 3] and max(found) < tags.count(MOST) == 8
    keeps, counts = tags.read(np.array(found), MOST)
    assert (keeps, counts) == ([False, True, True], [2, 0, 3])


def test_one_token_too_many_has_no_tag():
    assert tags.of_edits(Edits([True], [MOST, 0], [1] * MOST), MOST) == [MOST, 0]
    assert tags.of_edits(Edits([True], [0, MOST + 1], [1] * 4), MOST) is None


def test_drawn_pairs_come_back():
    draw = random.Random(1)
    pairs = [
        ([draw.randrange(4) for _ in range(5)], [draw.randrange(4) for _ in range(6)])
        for _ in range(300)
    ]
    for (source, target), edits in zip(pairs, edits_of(pairs), strict=True):
        own = tags.of_edits(edits, 6)
        keeps, counts = tags.read(np.array(own), 6)
        again = Edits(keeps[:-1], counts, edits.written)
        assert keeps[-1] and realised(source, again) == target


@pytest.mark.parametrize(
    ("source", "slots", "target", "counts"),
    [
        ([1, 2], [1], [1, 9, 2], [0, 1, 0]),
        ([1, 2], [0], [8, 9, 1, 2], [2, 0, 0]),
        ([1, 2], [2], [1, 2, 1, 2], [0, 0, 2]),
        ([1, 2], [1], [1, 2, 2], [0, 1, 0]),  # the end is the last one
        ([1, 2, 3], [1, 2], [1, 7, 2, 8, 9, 3], [0, 1, 2, 0]),
        ([1, 2, 3], [1, 2], [1, 2, 2, 2, 3], [0, 1, 1, 0]),
        ([], [0], [5, 6], [2]),
        ([1, 2], [1], [1, 2], None),  # nothing in the slot
        ([1, 2], [1], [1, 9, 3], None),
        ([1, 2], [1], [3, 9, 2], None),
        ([1, 2, 3], [1, 2], [1, 7, 2, 3], None),
    ],
)
def test_slots_are_what_stands_between_the_parts(source, slots, target, counts):
    edits = tags.slot_edits(source, slots, target)
    assert (edits and edits.counts) == counts
    if edits:
        assert all(edits.keeps) and realised(source, edits) == target


@pytest.mark.skipif(not DATA.is_dir(), reason=real_texts.ABSENT)
def test_slots_of_real_ads_are_filled_with_their_phrases():
    """By tags, which say how much is written where, and the ids of the phrase."""
    tokenizer = Tokenizer(DATA / "vocab" / "chinese_vocab.txt")
    same, lines = 0, (DATA / "rewrite_data/slots/dev.jsonl").read_text("utf-8")
    groups = [json.loads(line) for line in lines.splitlines()]
    for group in groups:
        ad, start = group["ad"], group["start"]
        blank = f"{ad[:start]}[SLOT]{ad[start + len(group['phrase']) :]}"
        source = source_of(blank, tokenizer, "[SLOT]")
        edits = tags.slot_edits(source.ids, slots_of(source), tokenizer.ids(ad))
        found = tags.of_edits(edits, 30)
        keeps, counts = tags.read(np.array(found), 30)
        script = Edits(keeps[:-1], counts, edits.written)
        made = checked(source, script, tokenizer)
        known = tokenizer.unk_id not in edits.written
        assert not known or tokenizer.ids(made.text) == tokenizer.ids(ad), ad
        same += made.text.lower() == ad.lower()
    print(f"{same} of {len(groups)} ads")
    assert len(groups) == 2000 and same >= 1900
