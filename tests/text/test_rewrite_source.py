"""Texts to rewrite, and their targets, read alike."""

import pytest

from bert_mgpu.text.rewrite_source import RewriteSource, parted_at_slots


@pytest.mark.parametrize(
    ("text", "target", "wanted"),
    [
        ("この[SLOT]は軽い", "このカメラは軽い", "この カメラ は軽い"),
        ("[SLOT][SLOT]は", "カメは", " カメ は"),  # one slot
        ("か[SLOT]き[SLOT]", "かなきのき", "か な き のき "),  # as early as possible
        ("か[SLOT]き[SLOT]く", "かききくく", "か き き く く"),
        ("[SLOT]", "カメ", " カメ "),
        ("か [SLOT] き", "かなき", "か な き"),
        ("か[SLOT]き。", "かなき。 ", "か な き。"),
        ("Abか[SLOT]き", "abかなき", "abか な き"),
        ("a[SLOT]b", "aカb", "a カ b"),
        ("Two [SLOT]s", "Two cats", None),  # which would be written apart
        ("나는 [SLOT]를", "나는 사과를", None),
        ("か [SLOT] き", "く な き", None),
        ("か[SLOT]", "か", None),  # nothing is written there
        ("[SLOT]か", "か", None),
        ("か[SLOT]き[SLOT]く", "かなく", None),
    ],
)
def test_a_slot_parts_words_in_the_target_as_in_the_text(text, target, wanted):
    parts = text.split("[SLOT]")
    starts = [len("[SLOT]".join(parts[:n])) for n in range(1, len(parts))]
    slots = [(start, start + len("[SLOT]")) for start in starts]
    source = RewriteSource(text, slots, ids=[], places=[])
    assert parted_at_slots(source, target) == (wanted or target)
