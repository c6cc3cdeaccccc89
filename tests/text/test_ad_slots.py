"""Slots of ads: bert-ad's own rows, real quotes beside them, masks in their place."""

import collections

import pytest

from bert_mgpu.text import ad_slots
from bert_mgpu.text.tokenization import Tokenizer
from tests.support.paths import DATA

GOLDEN = DATA / "rewrite_data" / "golden" / "bert_ad"


def golden_rows():
    """(flag, index, phrase, ad) of all rows of bert-ad's own script."""
    for name in ("train_0620.txt", "test_0620.txt"):
        for line in (GOLDEN / name).read_text(encoding="utf-8").splitlines():
            yield line.split("\t")


@pytest.fixture
def tokenizer(tmp_path):
    path = tmp_path / "vocab.txt"
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"很美，。", "sun", "##s"]
    path.write_text("".join(f"{token}\n" for token in tokens))
    return Tokenizer(path)


@pytest.mark.skipif(not GOLDEN.exists(), reason="../shared has no rewrite_data")
def test_all_rows_of_bert_ad_find_their_slot():
    """As long as the phrase; filled with the right phrase, it is one of 40 ads."""
    ads = {
        line.split("\t")[column]
        for name, column in (("ins.all", -1), ("idea_ctr_part_0", -2))
        for line in (GOLDEN / name).read_text(encoding="utf-8").splitlines()
    }
    rows = [*golden_rows()]
    assert len(rows) == 596
    for flag, _, phrase, ad in rows:
        found = ad_slots.slots(ad)
        assert found and {len(slot.text) for slot in found} == {len(phrase)}
        if flag == "1":
            assert ad_slots.filled(ad, phrase) in ads
    # Each has a right phrase and another one; two ads differ in their first segment
    # alone, which is one slot with two right phrases.
    right, wrong = (
        collections.Counter(ad_slots.slot_key(ad) for f, _, _, ad in rows if f == flag)
        for flag in ("1", "0")
    )
    assert right == wrong and right.total() == 298
    assert [key for key, count in right.items() if count > 1] == [
        "“，一直以来的气场经久不衰。而采用复古精致的纽扣装点的半门襟设计，简单的小细节"
        "处理，彰显出浓浓的文艺气息。"
    ]


def test_quotes_are_no_slots():
    for ad in ("他说“好”，很美", "“红花配绿叶”般的色调", "很美““，好", "", "很美，。"):
        assert ad_slots.slots(ad) == [] and ad_slots.filled(ad, "x") is None
        assert ad_slots.slot_key(ad) is None
    assert ad_slots.slot_key(None) is None


def test_a_slot_has_any_length_and_two_places():
    keys = {ad_slots.slot_key(f"很美，{'“' * count} 。好") for count in (1, 2, 30)}
    assert keys == {"很美，“ 。好"}
    twice = "““，很“美”！““"
    assert ad_slots.filled(twice, "显瘦") == "显瘦，很“美”！显瘦"
    assert ad_slots.slot_key(twice) == "“，很“美”！“"


def test_masks_stand_where_the_marks_were(tokenizer):
    ads = ["很美，““““。美“", "suns美", "", "““", "““，很“美！““"]
    masked = ad_slots.masked_ids(ads, tokenizer)
    plain = tokenizer.batch_ids(ads)
    assert masked.offsets.tolist() == plain.offsets.tolist()
    assert masked.values.dtype == plain.values.dtype
    for number, ad in enumerate(ads):
        places = [
            place
            for slot in ad_slots.slots(ad)
            for place in range(slot.start, slot.end)
        ]
        # Here a character is a token; only "suns" is not.
        wanted = plain.row(number).copy()
        assert not places or len(wanted) == len(ad)
        assert (wanted[places] == tokenizer.unk_id).all()
        wanted[places] = tokenizer.mask_id
        assert masked.row(number).tolist() == wanted.tolist()


@pytest.mark.skipif(not GOLDEN.exists(), reason="../shared has no rewrite_data")
def test_all_else_of_real_ads_stays(tmp_path):
    """With a vocabulary of their characters, and of pieces of Latin words."""
    ads = [ad for *_, ad in golden_rows()]
    letters = sorted({char for ad in ads for char in ad.lower()} - {"“"})
    path = tmp_path / "vocab.txt"
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokens = [*special, *letters, *(f"##{c}" for c in letters if c.isascii())]
    path.write_text("".join(f"{token}\n" for token in tokens), encoding="utf-8")
    tokenizer = Tokenizer(path)
    masked, plain = ad_slots.masked_ids(ads, tokenizer), tokenizer.batch_ids(ads)
    assert masked.offsets.tolist() == plain.offsets.tolist()
    changed = masked.values != plain.values
    assert (plain.values[changed] == tokenizer.unk_id).all()
    assert (masked.values[changed] == tokenizer.mask_id).all()
    assert changed.sum() == sum(
        len(slot.text) for ad in ads for slot in ad_slots.slots(ad)
    )
