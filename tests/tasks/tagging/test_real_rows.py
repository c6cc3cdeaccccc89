"""Rows of real files: a tag for each word, at any length, and places in texts."""

import pytest

from bert_mgpu.tasks.tagging import bio, dataset
from bert_mgpu.text.tokenization import Tokenizer
from tests.support.paths import DATA, SHARED
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
