"""What the doctor says of entities."""

import time

import pytest

from bert_mgpu.cli.doctor import task_data
from bert_mgpu.core.rows import Example
from bert_mgpu.tasks.data_checks import CheckedSet
from bert_mgpu.tasks.tagging import bio, dataset, dictionary, entity_checks
from bert_mgpu.tasks.tagging.bio import Span
from bert_mgpu.tasks.tagging.reader import Entities
from bert_mgpu.text.tokenization import Tokenizer
from tests.support.tiny import VOCAB

TAGS = bio.tags_of(["A", "B", "C"], "bio")
ROWS = [
    ("sun joy", [(0, 3, "A")]),
    ("the sun", [(4, 7, "B")]),  # as another type
    ("suns rain", [(1, 4, "A"), (5, 9, "A")]),  # begins inside of a token
    ("the of " * 8, []),
]


@pytest.fixture(scope="module")
def checked(make):
    return make(ROWS)


@pytest.fixture(scope="module")
def make(tmp_path_factory):
    """make(rows of text and spans) -> CheckedSet."""
    path = tmp_path_factory.mktemp("vocab") / "vocab.txt"
    path.write_text("".join(f"{token}\n" for token in VOCAB))
    tokenizer = Tokenizer(path, True)

    def made(rows, by_words=False):
        examples = [
            Example("", text, label=Entities(tuple(Span(*s) for s in spans)), line=line)
            for line, (text, spans) in enumerate(rows, 1)
        ]
        features = dataset.featurise(
            examples,
            tokenizer,
            TAGS,
            max_seq_length=12,
            doc_stride=5,
            by_words=by_words,
        )
        return CheckedSet("train", "t.json", features, unknown=tokenizer.unk_id)

    return made


def test_tables(checked):
    types, facts = entity_checks.tables([checked], TAGS)
    cells = [line.split() for line in types.splitlines()]
    assert cells == [
        ["type", "train"],
        ["A", "3"],
        ["B", "1"],
        ["C", "0"],
        ["all", "4"],
    ]
    values = {line.rsplit(None, 1)[0].strip(): line.split()[-1]
              for line in facts.splitlines()[1:]}  # fmt: skip
    assert values["rows without an entity"] == "1"
    assert values["rows of several windows"] == "1"
    assert values["entities that no tokens fit"] == "1"
    assert values["100 % have at most (characters per entity)"] == "4"


def test_warnings(checked):
    lines = [*entity_checks.warnings(checked, TAGS)]
    assert lines == [
        "t.json: no entity of the type C",
        "t.json: types with few entities: A (3), B (1)",
        "t.json: 1 of 4 entities begin or end inside a token, so recall is at most"
        " 75.00%",
        "t.json: 1 mention with several types: A (line 1, characters 0 to 3) and"
        " B (line 2, characters 4 to 7)",
    ]
    assert [*entity_checks.warnings(checked._replace(labelled=False), TAGS)] == []
    dev = [*entity_checks.warnings(checked._replace(split="dev"), TAGS)]
    assert len(dev) == 3


def test_mentions_are_told_apart_by_all_their_pieces(make):
    """Words that begin alike, and words that the vocabulary lacks, are others."""
    rows = [("suns xyzzy", [(0, 4, "A"), (5, 10, "A")])]
    rows += [("sun plugh", [(0, 3, "B"), (4, 9, "B")])]
    lines = "".join(entity_checks.warnings(make(rows, by_words=True), TAGS))
    assert "several types" not in lines
    rows += [("xyzzy SUNS", [(0, 5, "C"), (6, 10, "C")])]
    lines = "".join(entity_checks.warnings(make(rows, by_words=True), TAGS))
    assert "2 mentions with several types: A (line 1, characters 0 to 4) and C" in lines


def test_mentions_are_named_with_their_lines(tmp_path, capsys):
    """With the line of their first word, where words have lines of their own."""
    content = "the O\nXyz B-A\njoy I-A\n\nxyz B-B\njoy I-B\n"
    (tmp_path / "train.txt").write_text(content)
    (tmp_path / "dev.jsonl").write_text(
        '{"text": "the sun", "label": [[4, 7, "A"]]}\n'
        '{"text": "sun", "label": [[0, 3, "B"]]}\n'
    )
    shared = [f"--data_dir={tmp_path}", "--task_name=mine", "--task_type=tags"]
    for name, said in {
        "train.txt": "several types: 'Xyz joy' is A (line 2) and B (line 5)",
        "dev.jsonl": "several types: 'sun' is A (line 1, characters 4 to 7) and B"
        " (line 2, characters 0 to 3)",
    }.items():
        task_data.main([*shared, f"--train_file={name}"])
        printed = capsys.readouterr()
        text = " ".join((printed.out + printed.err).split())
        assert said in text, text


def test_a_file_that_looks_misread(make):
    """Ends that are included, and sentences without blank lines between them."""
    spans = [("sun joy", [(0, 2, "A")]), ("rain", [(0, 3, "B")])]
    (line,) = [
        one for one in entity_checks.warnings(make(spans), TAGS) if "inside" in one
    ]
    assert line.endswith(
        "at most 0.00%: are their ends inclusive? write exclusive ends"
    )
    for count in (200, 201):
        one = make([("sun " * count, [(0, 3, "A")])])
        wanted = f"t.json: one row, of {count} words: are the blank lines between"
        lines = [*entity_checks.warnings(one, TAGS)]
        assert any(wanted in line for line in lines) == (count > 200)


def test_mentions_that_are_not_shown_are_counted(make):
    words = [word for word in VOCAB if word.isascii() and word.isalpha()][:7]
    rows = [(word, [(0, len(word), kind)]) for kind in "AB" for word in words]
    (line,) = [
        one for one in entity_checks.warnings(make(rows), TAGS) if "several" in one
    ]
    assert line.startswith("t.json: 7 mentions with several types: A (line 1, ")
    assert line.endswith("; and 2 more") and line.count(";") == 5


def test_the_entities_of_a_long_text_are_looked_up_quickly(make):
    """Each in a table: in lists of 30,000 places this took half a minute."""
    spans = [(4 * i, 4 * i + 3, "A") for i in range(0, 30_000, 2)]
    checked = make([("sun " * 30_000, spans)])
    start = time.process_time()
    lines = [*entity_checks.warnings(checked, TAGS)]
    known = dictionary._known(checked.features)
    assert time.process_time() - start < 4
    assert len(lines) == 2 and known == {}  # half of the words are entities
