"""Tags and spans: every notation there and back, and the faults of tags."""

import itertools

import numpy as np
import pytest

from bert_mgpu.config.tagging import BEGIN, FILE_SCHEMES, HEAD_SCHEMES, LEAVE_OUT
from bert_mgpu.tasks.tagging import bio
from bert_mgpu.tasks.tagging.bio import Span


@pytest.mark.parametrize(
    ("labels", "wanted"),
    [
        (["O", "B-PER", "I-PER"], True),
        (["I-PER", "O", "B-PER", "B-LOC", "I-LOC"], True),  # in any order
        (bio.tags_of(["a", "b"], "bioes"), True),
        (["O", "B-S", "M-S", "E-S", "S-S"], False),  # BMES
        (["O", "B-X", "I-X", "L-X", "U-X"], False),  # BILOU
        (["O", "I-PER", "I-LOC"], False),  # nothing could begin
        (["O", "B-PER", "I-PER", "I-LOC"], False),
        (["O", "B-X", "I-X", "S-X"], False),
        (["O", "B_X", "I_X"], False),
        (["no", "yes"], False),
        (["LABEL_0"], False),
    ],
)
def test_labels_of_others_that_are_a_whole_scheme(labels, wanted):
    assert bio.is_whole(labels) == wanted


def sentences(count, seed, types=("LOC", "PER", "a-b")):
    """Random (spans, number of units)."""
    draw = np.random.default_rng(seed)
    for _ in range(count):
        units, end, spans = int(draw.integers(0, 15)), 0, []
        while end < units:
            start = end + int(draw.integers(0, 3))
            end = min(units, start + int(draw.integers(1, 5)))
            if start < end:
                spans.append(Span(start, end, str(draw.choice(types))))
        yield spans, units


@pytest.mark.parametrize("scheme", FILE_SCHEMES)
def test_there_and_back(scheme):
    for spans, units in sentences(10_000, 1):
        tags = bio.write_tags(spans, units, scheme)
        assert len(tags) == units
        assert bio.read_spans(tags, scheme) == (spans, [])


@pytest.mark.parametrize(
    ("letters", "name"), [("BIES", "BIOES"), ("BILU", "BILOU"), ("BMES", "BMES")]
)
def test_other_letters_of_bioes(letters, name):
    change = dict(zip("BIES", letters, strict=True))
    for spans, units in sentences(200, 2):
        tags = bio.write_tags(spans, units, bio.BIOES)
        other = [change.get(tag[0], tag[0]) + tag[1:] for tag in tags]
        assert bio.read_spans(other, bio.BIOES) == (spans, []), name
        if any(tag[0] in letters[2:] for tag in other):
            assert bio.scheme_of(other) == bio.BIOES


def test_iob1_begins_where_an_entity_of_the_type_ends():
    tags = ["I-A", "I-A", "B-A", "I-B", "O", "I-B"]
    spans = [Span(0, 2, "A"), Span(2, 3, "A"), Span(3, 4, "B"), Span(5, 6, "B")]
    assert bio.read_spans(tags, bio.IOB1) == (spans, [])
    assert bio.write_tags(spans, 6, bio.IOB1) == tags


FAULTS = {  # tags, scheme: places of faults, words of the first one
    "orphan": ("O I-A I-A", "bio", [1], "'I-A' without a B-A before it"),
    "at the start": ("I-A O", "bio", [0], "'I-A' without a B-A before it"),
    "type": ("B-A I-B", "bio", [1], "'I-B' after 'B-A': the type changes inside"),
    "zero": ("0 B-A", "bio", [0], "'0' (zero) where 'O' is meant"),
    "small": ("o", "bio", [0], "'o' (a small letter) where 'O' is meant"),
    "unknown": ("Q-A O", "bio", [0], "'Q-A' is not a tag of BIO: write O, B-TYPE, I-"),
    "of BIOES": ("B-A E-A", "bio", [1], "'E-A' is not a tag of BIO"),
    "no type": ("B", "bio", [0], "'B' is not a tag of BIO"),
    "empty": ("B-A  O", "bio", [1], "'' is not a tag of BIO"),
    "orphan E": ("O E-A", "bioes", [1], "'E-A' without a B-A before it"),
    "after S": ("S-A I-A E-A", "bioes", [1], "'I-A' without a B-A before it"),
    "no E": ("B-A I-A O", "bioes", [1], "'I-A' has no E-A after it"),
    "B alone": ("B-A O", "bioes", [0], "'B-A' has no E-A after it: write S-A for one"),
    "at the end": ("O B-A", "bioes", [1], "'B-A' has no E-A after it"),
    "type in BIOES": ("B-A E-B", "bioes", [1], "'E-B' after 'B-A': the type changes"),
}


@pytest.mark.parametrize("name", [*FAULTS])
def test_faults_have_their_places(name):
    tags, scheme, places, words = FAULTS[name]
    faults = bio.read_spans(tags.split(" "), scheme).faults
    assert [fault.unit for fault in faults] == places
    assert faults[0].message.startswith(words)
    assert faults[0].repairable == ("is not a tag" not in words)


@pytest.mark.parametrize(
    ("tags", "scheme", "begin", "outside"),
    [
        ("O I-A I-A", "bio", [(1, 3, "A")], []),
        ("B-A I-B I-B", "bio", [(0, 1, "A"), (1, 3, "B")], [(0, 1, "A")]),
        ("B-A 0 I-A", "bio", [(0, 1, "A"), (2, 3, "A")], [(0, 1, "A")]),
        ("O I-A E-A", "bioes", [(1, 3, "A")], []),
        ("B-A I-A O", "bioes", [(0, 2, "A")], [(0, 2, "A")]),
    ],
)
def test_repairs(tags, scheme, begin, outside):
    for repair, wanted in ((BEGIN, begin), (LEAVE_OUT, outside)):
        read = bio.read_spans(tags.split(" "), scheme, repair)
        assert read.spans == [Span(*span) for span in wanted]
        mended = bio.write_tags(read.spans, len(tags.split(" ")), scheme)
        assert bio.read_spans(mended, scheme) == (read.spans, [])


@pytest.mark.parametrize("scheme", HEAD_SCHEMES)
def test_rules_allow_what_reads_without_a_fault(scheme):
    tags = bio.tags_of(["A", "B"], scheme)
    rules = bio.rules_of(tags)
    assert tags[0] == bio.OUTSIDE and len({*tags}) == len(tags)
    for units in (1, 2, 3):
        for path in itertools.product(range(len(tags)), repeat=units):
            allowed = rules.first[path[0]] and rules.last[path[-1]]
            allowed &= all(rules.follow[a, b] for a, b in itertools.pairwise(path))
            names = [tags[index] for index in path]
            assert allowed == (not bio.read_spans(names, scheme).faults)


@pytest.mark.parametrize(
    ("labels", "types"),
    [
        (["O", "B-A", "I-A", "B-B", "I-B"], ["A", "B"]),
        (["B-A", "I-A", "B-B", "I-B"], ["A", "B"]),
        (["O", "PER", "LOC"], ["PER", "LOC"]),  # O beside types is no type
        (["PER", "O", "B-A"], ["PER", "B-A"]),
        (["E-commerce", "S-Bahn"], ["E-commerce", "S-Bahn"]),
        (["O", "S-A"], ["A"]),
        ([], []),
    ],
)
def test_the_types_of_labels(labels, types):
    assert bio.types_of(labels) == types


@pytest.mark.parametrize("kind", ["job title", "a\u3000b", "a\x01"])
def test_a_type_is_one_word(kind):
    """Files whose columns blanks separate could not hold it."""
    ((unit, message, repairable),) = bio.read_spans(["O", f"B-{kind}"], "bio").faults
    assert unit == 1 and not repairable and "write a name without blanks" in message


def test_the_scheme_of_a_file():
    assert bio.scheme_of(["O", "B-A", "I-A", "junk", "E"]) == bio.BIO
    assert bio.scheme_of(["O", "I-A"]) == bio.BIO  # unless IOB1 is asked for
    for letter in "ESLUM":
        assert bio.scheme_of(["O", f"{letter}-A"]) == bio.BIOES
