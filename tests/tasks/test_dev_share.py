"""A dev set from the training file: shares, texts on one side, the same every time."""

import collections
import random

import pytest

from bert_mgpu.config.finetuning import FinetuneConfig
from bert_mgpu.core.errors import UserError
from bert_mgpu.core.rows import Example
from bert_mgpu.tasks import dev_share, registry, sources
from bert_mgpu.tasks.rewriting import family as rewriting


def examples(counts, seed=0):
    """So many rows of each label, shuffled; each fifth has the text of another."""
    rng = random.Random(seed)
    rows = [
        (label, f"{label} {n - n % 5 % 2}")
        for label, k in counts.items()
        for n in range(k)
    ]
    rng.shuffle(rows)
    return [Example(str(n), text, label=label, line=n) for n, (label, text) in
            enumerate(rows, 1)]  # fmt: skip


def parts(rows, share):
    return [dev_share.part(rows, share, dev=dev) for dev in (False, True)]


@pytest.mark.parametrize("share", [0.05, 0.1, 0.3, 0.5])
def test_each_label_has_its_share(share):
    rows = examples({"many": 500, "some": 100, "few": 20})
    train, dev = parts(rows, share)
    assert sorted(e.line for e in [*train, *dev]) == [*range(1, len(rows) + 1)]
    assert [e.line for e in dev] == sorted(e.line for e in dev)
    assert abs(len(dev) - share * len(rows)) <= 2
    counts = collections.Counter(e.label for e in dev)
    for label, count in (("many", 500), ("some", 100), ("few", 20)):
        assert share * count - 2 <= counts[label] <= share * count + 2


@pytest.mark.parametrize("labels", [20, 150, 400])
def test_many_small_labels_have_the_share_together(labels):
    """Their remainders are added up, not rounded one by one."""
    rows = [Example("", f"t{n}", label=f"l{n % labels}") for n in range(1000)]
    train, dev = parts(rows, 0.1)
    assert len(dev) == 100 and {e.label for e in train} == {e.label for e in rows}
    counts = collections.Counter(e.label for e in dev)
    assert max(counts.values()) <= 1 + 100 // labels
    assert min(counts[e.label] for e in rows) >= 100 // labels - 1


def test_a_text_of_many_rows_takes_no_other_label_its_share():
    """Whichever hash it has."""
    for salt in range(40):
        rows = [Example("", f"ok {salt}", label="a")] * 300
        rows += [Example("", f"a{n}", label="a") for n in range(200)]
        rows += [Example("", f"b{n}", label="b") for n in range(500)]
        _, dev = parts(rows, 0.1)
        assert collections.Counter(e.label for e in dev) == {"a": 50, "b": 50}


def test_a_text_is_on_one_side():
    train, dev = parts(examples({"a": 300, "b": 300}), 0.2)
    assert not {e.text_a for e in train} & {e.text_a for e in dev}
    spaced = [Example("", f" {e.text_a}\t", label=e.label) for e in dev]
    assert dev_share.part([*train, *spaced], 0.2, dev=True) == spaced


def test_another_order_changes_no_side():
    """So a model that is evaluated later meets no text that it was trained on."""
    rows = examples({"a": 200, "b": 50})
    # texts with two labels belong to one of them, whichever row comes first
    rows += [Example("", f"a {n}", label="c", line=900 + n) for n in range(60)]
    _, dev = parts(rows, 0.1)
    for seed in range(5):
        shuffled = random.Random(seed).sample(rows, len(rows))
        again = dev_share.part(shuffled, 0.1, dev=True)
        assert {e.line for e in again} == {e.line for e in dev}


def test_training_keeps_a_text_of_every_label():
    rows = [Example("", text, label=text[0]) for text in ("a1", "a2", "b1", "c1", "c2")]
    train, dev = parts(rows, 0.5)
    assert {e.label for e in train} == {"a", "b", "c"}
    assert {e.label for e in dev} == {"a", "c"}
    assert len(dev_share.part(rows, 0.1, dev=True)) == 1


def test_numbers_and_several_labels():
    numbers = [Example("", f"t{n}", label=n / 7) for n in range(100)]
    assert len(dev_share.part(numbers, 0.1, dev=True)) == 10
    rng = random.Random(3)
    several = [
        Example("", f"t{n}", label=tuple(rng.sample("abcdefghij", rng.randint(0, 4))))
        for n in range(500)
    ]
    several += [Example("", f"r{n}", label=("a", f"rare {n}")) for n in range(100)]
    train, dev = parts(several, 0.1)
    assert len(dev) == 60
    assert {x for e in train for x in e.label} == {x for e in several for x in e.label}
    assert {x for e in dev for x in e.label} == {*"abcdefghij"}
    assert any(not e.label for e in dev)


@pytest.mark.parametrize(
    "rows",
    [
        [("a", "x"), ("b", "y"), ("c", "z"), ("d", "w")],
        [("a", "x"), ("a", "x"), ("b", "y")],
        [(("a", "b"), "x"), (("c",), "y")],
        [(0.5, "x"), (0.5, "x ")],
    ],
)
def test_two_parts_need_texts_for_both(rows):
    rows = [Example("", text, label=label) for label, text in rows]
    for dev in (False, True):
        with pytest.raises(
            UserError, match="^--dev_share=0.5: . rows have too few different"
        ):
            dev_share.part(rows, 0.5, dev=dev)


def test_texts_to_write_are_no_labels():
    """Each is another one, and a part may have it or not."""
    rows = [Example(str(n), f"a {n}", label=f"b {n}", line=n) for n in range(200)]
    rows += [Example(f"x{n}", f"c {n}", label="the same", line=n) for n in range(20)]
    train, dev = (
        dev_share.part(rows, 0.1, dev=is_dev, by_label=False)
        for is_dev in (False, True)
    )
    assert len(dev) == 22 and len(train) == 198
    assert len({one.label for one in dev}) > 15


@pytest.mark.parametrize("shuffled", [False, True])
def test_an_ad_with_different_slots_stays_on_one_side(shuffled):
    """So does a text with several targets; and rows that are linked by both."""
    ads = [[f"{ad}: a {n}", "b", "c", "d"] for n, ad in enumerate("xyz" * 40)]
    rows = [
        Example(
            "", " ".join([*ad[:slot], "[SLOT]", *ad[slot + 1 :]]), label=" ".join(ad)
        )
        for ad in ads
        for slot in range(4)
    ]
    for number in range(40):
        rows += [
            Example("", f"s {number}", label=f"t {number}"),
            Example("", f"s {number}", label=f"u {number}"),
            Example("", f"v {number}", label=f"u {number}"),
        ]
    if shuffled:
        random.Random(1).shuffle(rows)
    train, dev = (
        dev_share.of_family(rewriting.FAMILY, rows, 0.1, dev=is_dev)
        for is_dev in (False, True)
    )
    assert len(train) + len(dev) == len(rows) and 55 <= len(dev) <= 65
    for name in ("label", "text_a"):
        assert not {getattr(row, name) for row in train} & {
            getattr(row, name) for row in dev
        }
    linked = [
        sorted(row.text_a for row in part if row.text_a[:2] in ("s ", "v "))
        for part in (train, dev)
    ]
    assert all(len(part) % 3 == 0 for part in linked)


def test_it_is_for_tasks_without_a_dev_file(tmp_path):
    (tmp_path / "train.tsv").write_text("a\tb\n")
    flags = {"task_name": "mine", "data_dir": str(tmp_path), "text_a_column": "0"}
    flags["train_file"] = "train.tsv"

    def source(split, **more):
        task = registry.find_task_files(FinetuneConfig(**flags, **more))
        return sources.source(
            task,
            split,
            data_dir=tmp_path,
            eval_files=None,
            predict_file=None,
            dev_share=0.1,
        )

    assert source("dev").path == source("train").path == tmp_path / "train.tsv"
    assert source("dev").share == source("train").share == 0.1
    with pytest.raises(UserError, match="--dev_share=0.1: the task has a dev file"):
        source("dev", dev_file="dev.tsv")
