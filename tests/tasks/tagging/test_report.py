"""The report's sections on entities."""

import numpy as np
import pytest

from bert_mgpu.tasks.tagging import report
from bert_mgpu.tasks.tagging.bio import Span
from tests.support.entities import Counted

TRUE = [Span(0, 2, "A"), Span(4, 6, "A"), Span(8, 9, "B"), Span(10, 12, "B")]


@pytest.mark.parametrize(
    ("true", "said", "kind"),
    [
        (Span(0, 2, "A"), Span(0, 2, "A"), "correct"),
        (Span(0, 2, "A"), Span(0, 3, "A"), "boundary"),
        (Span(0, 2, "A"), Span(0, 2, "B"), "type"),
        (Span(0, 2, "A"), Span(1, 3, "B"), "boundary and type"),
        (Span(0, 2, "A"), None, "missed"),
        (None, Span(0, 2, "A"), "spurious"),
    ],
)
def test_kinds_of_errors(true, said, kind):
    assert report.kind_of(true, said) == kind
    given = [[one] if one else [] for one in (true, said)]
    assert [*report.matched(*given)] == [(true, said)]


def test_each_entity_meets_one():
    true = [Span(0, 5, "A"), Span(6, 9, "A")]
    said = [Span(0, 5, "B"), Span(7, 8, "A"), Span(8, 9, "A")]
    pairs = [*report.matched(true, said)]
    assert pairs == [(true[0], said[0]), (true[1], said[1]), (None, said[2])]
    pairs = [*report.matched([Span(0, 2, "A"), Span(3, 5, "A")], [Span(1, 4, "A")])]
    assert pairs == [
        (Span(0, 2, "A"), Span(1, 4, "A")),
        (Span(3, 5, "A"), None),
    ]


def test_neighbours_do_not_overlap():
    """An end is excluded, so an entity may begin there."""
    for one, other in ((Span(2, 4, "A"), Span(0, 2, "A")),
                       (Span(0, 2, "A"), Span(2, 4, "A"))):  # fmt: skip
        assert [*report.matched([one], [other])] == [(one, None), (None, other)]


def test_pairing_reads_each_entity_a_few_times():
    """Its time is in proportion to their number: a text may have thousands."""
    Counted.reads = 0
    true = [Counted(10 * i, 10 * i + 3, "A") for i in range(500)]
    said = [Counted(10 * i + 5, 10 * i + 8, "A") for i in range(500)]
    assert len([*report.matched(true, said)]) == 1000
    assert Counted.reads < 5000  # 250,000 if each is compared with each


def test_the_matrix_counts_each_entity_once():
    said = [Span(0, 2, "A"), Span(4, 6, "B"), Span(8, 9, "B"), Span(13, 15, "A")]
    pairs = [*report.matched(TRUE, said)]
    counts = report.confusion(pairs, ["A", "B", report.NOTHING])
    assert counts.tolist() == [[1, 1, 0], [0, 1, 1], [1, 0, 0]]
    assert counts[:-1].sum() == len(TRUE) and counts[:, :-1].sum() == len(said)


def test_texts_with_their_entities():
    text = "sun joy，rain"
    assert report.marked(text, [Span(0, 3, "A"), Span(8, 12, "B")]) == (
        "[sun A] joy，[rain B]"
    )
    assert report.marked(text, []) == text
    assert report.marked("a" * 500, []).endswith(" ...")


def test_what_is_shown_of_a_set():
    from bert_mgpu.core.rows import Example

    class Scored:
        """What the report reads of a `TaggedSet`."""

        tags = ["O", "B-A", "I-A", "B-B", "I-B"]
        true_entities = [
            [Span(0, 3, "A")],
            [Span(0, 3, "B"), Span(4, 6, "A")],
            [],
        ]
        entities = [[Span(0, 3, "A")], [Span(4, 6, "A")], [Span(0, 3, "A")]]
        losses = np.array([0.1, 5.0, 7.0])
        examples = [Example("", "sun joy", line=1), Example("", "joy of", line=2),
                    Example("", "win", line=3)]  # fmt: skip

        def __len__(self):
            return 3

    found = report.of_set(Scored())
    worst, other = found.mistakes.worst_first
    assert (worst.number, other.number) == (2, 1)
    assert worst.cells == ("win", "[win A]") and worst.truth == []
    assert worst.places == [(2, 0)]  # of A, B and nothing
    assert other.truth[0] == {"start": 0, "end": 3, "type": "B", "text": "joy"}
    assert other.places == [(1, 2)]
    kinds = found.blocks[2].rows
    assert kinds[1] == ("A", 2, 0, 0, 0, 0, 1) and kinds[2] == ("B", 0, 0, 0, 0, 1, 0)
    assert found.blocks[3].labels == ["A", "B", report.NOTHING]
