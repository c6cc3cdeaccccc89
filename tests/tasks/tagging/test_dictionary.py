"""The training set's entities, looked up."""

import pytest

from bert_mgpu.core.rows import Example
from bert_mgpu.tasks.tagging import bio, dataset, dictionary
from bert_mgpu.tasks.tagging.bio import Span
from bert_mgpu.tasks.tagging.reader import Entities
from bert_mgpu.text.tokenization import Tokenizer
from tests.support.tiny import VOCAB

TAGS = bio.tags_of(["A", "B"], "bio")


@pytest.fixture(scope="module")
def features(tmp_path_factory):
    path = tmp_path_factory.mktemp("vocab") / "vocab.txt"
    path.write_text("".join(f"{token}\n" for token in VOCAB))
    tokenizer = Tokenizer(path, True)

    def made(*examples):
        return dataset.featurise(
            [
                Example("", text, label=Entities(tuple(Span(*span) for span in spans)))
                for text, spans in examples
            ],
            tokenizer,
            TAGS,
            max_seq_length=8,
            doc_stride=3,
            by_words=False,
        )

    return made


def test_the_longest_match_from_the_left(features):
    train = features(
        ("sun joy", [(0, 7, "A")]),
        ("sun", [(0, 3, "B")]),
        ("joy win", [(0, 7, "B")]),
        ("sun", [(0, 3, "B")]),
        ("sun", [(0, 3, "A")]),
    )
    dev = features(
        ("sun joy win", [(0, 7, "A")]),  # found; "joy win" overlaps it
        ("rain sun", [(5, 8, "B")]),  # found, as B more often
        ("sun rain joy win " + "rain " * 12, [(0, 3, "A"), (9, 16, "B")]),  # one
        ("rain", [(0, 4, "A")]),  # unknown
    )
    found = dictionary.scores(train, {"dev": dev}, TAGS)["dev"]
    assert found["precision"] == 3 / 4 and found["recall"] == 3 / 5


def test_what_is_mostly_no_entity_is_not_looked_up(features):
    train = features(
        ("win", [(0, 3, "A")]), ("win", []), ("the win", []), ("joy", [(0, 3, "A")])
    )
    dev = features(("win joy", [(4, 7, "A")]))
    assert dictionary.scores(train, {"dev": dev}, TAGS)["dev"]["f1"] == 1.0


def test_without_entities_there_is_nothing_to_find(features):
    train, dev = features(("sun", [])), features(("sun", [(0, 3, "A")]), ("", []))
    assert dictionary.scores(train, {"dev": dev}, TAGS)["dev"]["f1"] == 0.0


def test_one_long_entity_does_not_slow_down_the_search():
    """Only where its first unit stands is a sequence of its length looked up."""

    class Keys(list):
        read = 0

        def __getitem__(self, index):
            if isinstance(index, slice):
                Keys.read += index.stop - index.start
            return super().__getitem__(index)

    known = {(7, *[1] * 299): 0, (2,): 1, (2, 3): 0}
    keys = Keys([2, 3, 2, 1, *[1] * 1000, 7, *[1] * 299, 7, 1, 2])
    found = [*dictionary._matches(keys, known, dictionary._lengths(known))]
    assert found == [(0, 2, 0), (2, 3, 1), (1004, 1304, 0), (1306, 1307, 1)]
    assert Keys.read < 1000  # 400,000 if all lengths were tried everywhere
