"""The lines of result files that rewritten texts give."""

import numpy as np

from bert_mgpu.tasks.rewriting import predictions
from bert_mgpu.tasks.rewriting.decoding import TokenRewriting
from tests.support.tiny import VOCAB

WIN = VOCAB.index("win")
BEST = TokenRewriting([True, False], [0, 1, 0], [WIN], score=-0.12345678, rounds=1)
OTHER = TokenRewriting([True, True], [0, 0, 0], [], score=-2.0, rounds=0)


def test_a_text_a_line_and_a_record_each(rewritten):
    pairs = [(None, "Sun\nloss", None), (None, "sun rain", None)]
    found = predictions.decide(rewritten(pairs, [[BEST, OTHER], [OTHER]]))
    assert found.texts == ["Sun win", "sun rain"]
    assert found.remarks == ["1 line end became spaces in predict.txt"]
    plain = predictions.decide(rewritten([(None, "sun rain", None)], [[OTHER]]))
    assert plain.remarks == []
    one, other = found.values
    np.testing.assert_array_equal(one, [-0.12345678, -2.0])
    assert other.tolist() == [-2.0]
    assert found.records == [
        {
            "text": "Sun\nwin",
            "score": -0.123457,
            "edits": [[4, 8, "loss", "win"]],
            "candidates": [
                {"text": "Sun\nwin", "score": -0.123457},
                {"text": "Sun\nloss", "score": -2.0},
            ],
        },
        {
            "text": "sun rain",
            "score": -2.0,
            "edits": [],
            "candidates": [{"text": "sun rain", "score": -2.0}],
        },
    ]


def test_texts_without_a_slot_that_stay_are_counted(rewritten):
    pairs = [(None, "sun loss", None), (None, "sun [SLOT] rain", None)]
    scored = rewritten(pairs, [[OTHER], [OTHER]])
    (remark,) = predictions.decide(scored, keeps_texts=True).remarks
    assert remark.startswith("texts without [SLOT], which stay as they are: 1 of 2")
    assert predictions.decide(scored).remarks == []


def test_people_see_the_best_text_first(rewritten):
    pairs = [(None, "sun loss", None)]
    (record,) = predictions.decide(rewritten(pairs, [[BEST, OTHER]])).records
    shown = predictions.display(record)
    assert (shown.text, shown.others) == ("sun win", ["sun loss"])
    assert shown.edits == [(4, 8, "loss", "win")]
