"""Rows of real files: a tag for each word, at any length, and places in texts."""

import functools

import numpy as np
import pytest

from bert_mgpu.tasks.tagging import bio, dataset, dictionary
from bert_mgpu.text.tokenization import Tokenizer
from tests.support.marks import rarely
from tests.support.paths import DATA, SHARED
from tests.tasks.tagging import test_metrics
from tests.tasks.tagging.test_reader import WEIBO, read

VOCAB = SHARED / "models" / "zh_e5_small_charmap" / "vocab.txt"
pytestmark = pytest.mark.skipif(
    not (DATA.is_dir() and VOCAB.is_file()),
    reason="the folder ../shared with data and models is absent",
)


@pytest.fixture(scope="module")
def tokenizer():
    return Tokenizer(VOCAB, True)


@pytest.fixture(scope="module")
def weibo():
    """The examples of all three files, and their types."""
    examples = []
    for split in ("train", "dev", "test"):
        path = WEIBO / f"weiboNER_2nd_conll.{split}"
        examples += read(path, "conll", token_pattern="(.+)[0-9]", repair_bio="begin")[
            0
        ]
    types = sorted({span.type for one in examples for span in one.label.spans})
    return examples, bio.tags_of(types, "bio")


@pytest.mark.parametrize("length", [16, 32, 128])
def test_each_word_has_one_tag(weibo, tokenizer, length):
    examples, tags = weibo
    rows = dataset.featurise(
        examples,
        tokenizer,
        tags,
        max_seq_length=length,
        doc_stride=(length - 2) // 2,
        by_words=False,
    )
    words = sum(len(one.words) for one in examples)
    assert words == 103_129
    tag_ids = rows.ragged["tag_ids"].values
    assert (tag_ids > 0).sum() == words == len(rows.unread[dataset.UNITS].values)
    assert rows.lengths.max() <= length and rows.notes["between"] == 0
    texts = [one.text_a[s:e] for one in examples for s, e in one.words]
    empty = sum(
        not ids.size for ids in map(tokenizer.batch_ids(texts).row, range(words))
    )
    assert empty == 133  # emoji and variation selectors, which the tokenizer drops
    # The tags are those of the file, and in its order.
    begins = sum(len(one.label.spans) for one in examples)
    names = [tags[tag - 1] for tag in tag_ids[tag_ids > 0]]
    assert sum(name.startswith("B-") for name in names) == begins


def test_entities_of_cluener_that_no_tokens_fit(tokenizer):
    """Fewer where pieces are tagged than where words are."""
    examples, _ = read(DATA / "cluener" / "dev.json", "jsonl")
    types = sorted({span.type for one in examples for span in one.label.spans})
    missed = {}
    for by_words in (False, True):
        rows = dataset.featurise(
            examples,
            tokenizer,
            bio.tags_of(types, "bio"),
            max_seq_length=64,
            doc_stride=31,
            by_words=by_words,
        )
        assert rows.notes["entities"] == 3072
        missed[by_words] = rows.notes["between"]
    assert missed == {False: 4, True: 7}


FILES = {  # train, scored
    "weibo": (
        "weibo_ner/weiboNER_2nd_conll.train",
        "weibo_ner/weiboNER_2nd_conll.test",
    ),
    "cluener": ("cluener/train.json", "cluener/dev.json"),
}
OPTIONS = {"weibo": ("conll", {"token_pattern": "(.+)[0-9]"}), "cluener": ("jsonl", {})}


@functools.cache
def examples_of(name, split):
    form, options = OPTIONS[name]
    path = DATA / FILES[name][split]
    return read(path, form, **options, repair_bio="begin")[0]


def types_of(examples):
    return sorted({span.type for one in examples for span in one.label.spans})


@pytest.mark.parametrize("name", FILES)
def test_scores_of_real_sets_are_those_of_seqeval(name):
    """Of the true tags beside the same with every tenth one drawn, and mended."""
    examples, draw = examples_of(name, 1), np.random.default_rng(3)
    tags = bio.tags_of(types_of(examples), "bio")
    truth, drawn, mended = [], [], []
    for example in examples:
        places = np.array(
            example.words or [(i, i + 1) for i in range(len(example.text_a))]
        )
        spans = dataset.unit_spans(example.label.spans, places)
        truth.append(bio.write_tags(spans, len(places), "bio"))
        drawn.append(
            [str(draw.choice(tags)) if draw.random() < 0.1 else t for t in truth[-1]]
        )
        spans = bio.read_spans(drawn[-1], "bio", "begin").spans
        mended.append(bio.write_tags(spans, len(places), "bio"))
    assert any(bio.read_spans(one, "bio").faults for one in drawn)
    test_metrics.check(truth, drawn, "bio", strict=False)
    test_metrics.check(truth, mended, "bio", strict=True)
    # The tags as they lie, with the orphans of weibo.
    if name == "weibo":
        text = (DATA / FILES[name][1]).read_text().strip().split("\n\n")
        raw = [[line.split("\t")[1] for line in one.splitlines()] for one in text]
        assert raw != truth
        test_metrics.check(raw, mended, "bio", strict=False)


@pytest.mark.parametrize(
    ("name", "wanted"), [("weibo", 0.496), *rarely(("cluener", 0.587))]
)
def test_entities_that_are_looked_up(tokenizer, name, wanted):
    """At least the F1 of the longest matches alone, by which others were counted."""
    sets = [examples_of(name, split) for split in (0, 1)]
    tags = bio.tags_of(types_of(sets[0]), "bio")
    train, scored = (
        dataset.featurise(
            examples,
            tokenizer,
            tags,
            max_seq_length=128,
            doc_stride=63,
            by_words=False,
        )
        for examples in sets
    )
    found = dictionary.scores(train, {"scored": scored}, tags)["scored"]
    assert wanted < found["f1"] < wanted + 0.05
