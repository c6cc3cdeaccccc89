"""The groups of rows of each kind of task, and what a model reads in a slot."""

import pytest

from bert_mgpu.config.finetuning import FinetuneConfig
from bert_mgpu.core.errors import UserError
from bert_mgpu.core.rows import Example
from bert_mgpu.tasks import registry, row_groups
from bert_mgpu.tasks.classification import groups
from bert_mgpu.tasks.classification.builtin import BUILTIN
from bert_mgpu.tasks.classification.family import FAMILY
from bert_mgpu.tasks.classification.features import LOST_SLOTS
from bert_mgpu.tasks.data_checks import CheckedSet
from bert_mgpu.text.tokenization import Tokenizer

AD = BUILTIN["ad"]


def own(**flags):
    flags = {"text_a_column": "a", "label_column": "y", **flags}
    return registry.find_task_files(FinetuneConfig(task_name="mine", **flags))


def rows(*names):
    return [Example("", "x", "好，““。", group=name) for name in names]


def test_groups_are_slots_or_values_of_the_column():
    examples = rows("q", None)
    assert row_groups.keys(AD, examples) == ["好，“。"] * 2
    assert row_groups.keys(own(group_column="g"), examples) == ["q", None]
    assert row_groups.keys(own(), examples) is None
    assert row_groups.keys(BUILTIN["mrpc"], examples) is None
    assert [task.name for task in BUILTIN.values() if task.has_slots] == ["ad"]


def test_a_slot_is_masked_where_it_is_asked_for(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n好\n，\n")
    tokenizer = Tokenizer(path)
    for files, ad_slot in ((AD, "unk"), (own(), "unk"), (own(), "mask")):
        config = FinetuneConfig(ad_slot=ad_slot)
        assert groups.second_ids(config, files, tokenizer) is None
    masked = groups.second_ids(FinetuneConfig(ad_slot="mask"), AD, tokenizer)
    assert masked(["好，““", "““好"]).values.tolist() == [5, 6, 4, 4, 1, 1, 5]


@pytest.mark.parametrize("ad_slot", ["unk", "mask"])
def test_slots_that_truncation_cuts_off_are_counted(tmp_path, ad_slot):
    """12 tokens with [CLS] and twice [SEP]; the phrase has 2 and the ad up to 7."""
    path = tmp_path / "vocab.txt"
    path.write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n好\n，\n")
    config = FinetuneConfig(max_seq_length=12, ad_slot=ad_slot)
    ads = {
        "好好，““，好好好好": False,
        "好好好好好，““": False,  # one of its two tokens is left
        "好好好好好好，““": True,
        "好好好好好好好好，““，好，““": True,
        "好好好好好好好好好好": False,  # no slot
    }
    lost = [[*ads.values()].count(True)] + [*ads.values()]
    examples = [Example("", "好好", ad, label=None) for ad in ads]
    tokenizer = Tokenizer(path)
    for number, count in zip([None, *range(len(ads))], map(int, lost), strict=True):
        own = examples if number is None else examples[number : number + 1]
        features = FAMILY.features(own, tokenizer, AD, config=config)
        assert features.notes[LOST_SLOTS] == count, own
        warned = [line for line in FAMILY.remarks(features) if "slot" in line]
        assert [line.startswith("WARNING: ") for line in warned] == [True] * bool(count)
    features = FAMILY.features(examples, tokenizer, AD, config=config)
    *_, line = FAMILY.remarks(features)
    assert "cuts off the slot of 2 rows" in line


def test_ranked_by_words_a_slot_may_be_longer_than_the_row(tmp_path):
    """12 tokens with [CLS] and [SEP]; the phrase has 2 and the ad up to 10."""
    path = tmp_path / "vocab.txt"
    path.write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n好\n，\n")
    config = FinetuneConfig(max_seq_length=12, ad_slot="words")
    ads = {"好，““": 2, "好" * 8 + "，““": 1, "好" * 9 + "，““": 0, "好" * 20: 0}
    examples = [Example("", "好好", ad, label=None) for ad in ads]
    features = FAMILY.features(examples, Tokenizer(path), AD, config=config)
    assert features.target_counts.tolist() == [*ads.values()]
    assert features.notes[LOST_SLOTS] == 1  # the last has none
    *_, line = FAMILY.remarks(features)
    assert "cuts off the slot of 1 row, whose phrases are ordered by chance" in line
    strange = [
        Example("", phrase, "好，““", label=None) for phrase in ("ab", "", "好a")
    ]
    features = FAMILY.features(strange, Tokenizer(path), AD, config=config)
    assert features.notes[LOST_SLOTS] == 0
    *_, line = FAMILY.remarks(features)
    assert line == "2 rows whose phrase has no word of the vocabulary: ranked last"


@pytest.mark.parametrize(
    ("ad_slot", "share"), [("unk", 3 / 7), ("mask", 3 / 9), ("words", 2 / 7)]
)
def test_the_share_of_unknown_words_is_without_the_slot(tmp_path, ad_slot, share):
    """Of 好 x x，““ and 好好 x: as [UNK], two [MASK], or three and no phrase."""
    path = tmp_path / "vocab.txt"
    path.write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n好\n，\n")
    config, tokenizer = FinetuneConfig(ad_slot=ad_slot), Tokenizer(path)
    rows = [Example("", "好好x", "好x x，““", label=None)]
    features = FAMILY.features(rows, tokenizer, AD, config=config)
    found = CheckedSet("train", "x", features, unknown=tokenizer.unk_id)
    assert found.unknown_share == pytest.approx(share)


def test_rows_of_a_file_that_are_all_alone():
    task = own(group_column="g")
    for fine in ((), ("q",), (None, "q"), ("q", "q", "r"), (None, None)):
        groups.check_rows(task, "x.tsv", rows(*fine))
    with pytest.raises(UserError, match="x.tsv: no two rows have the same 'g'"):
        groups.check_rows(task, "x.tsv", rows("q", None, "r"))


@pytest.mark.parametrize(
    ("text_b", "keys"), [(None, [("g",)]), ("b", [("g",), ("a", "b")])]
)
def test_a_pair_of_texts_in_several_groups_is_in_one_part(text_b, keys):
    """Of --dev_share. A single text, such as a phrase, may be in all of them."""
    row = Example("", "a", text_b, label="x", group="g")
    assert [*map(tuple, FAMILY.kept_together(row))] == keys
