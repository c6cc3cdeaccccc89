"""What report.html shows of questions."""

import numpy as np
import pytest

from bert_mgpu.core.report import ReportTable, ScoreCurves
from bert_mgpu.core.rows import Example
from bert_mgpu.tasks.span_qa import dataset, metrics, report
from bert_mgpu.tasks.span_qa.reader import Answers
from bert_mgpu.tasks.span_qa.task import SpanQa
from bert_mgpu.text.tokenization import Tokenizer
from tests.support.tiny import VOCAB, small_config
from tests.tasks.span_qa.test_answers import answered, drawn_logits

LONG = "the of in it a " * 9 + "sun joy"


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    path = tmp_path_factory.mktemp("vocab") / "vocab.txt"
    path.write_text("".join(f"{token}\n" for token in VOCAB))
    return Tokenizer(path)


def shown(tokenizer, *examples, negative=False, chinese=False, threshold=0.0):
    scored = answered(
        tokenizer,
        *examples,
        logits=lambda rows: drawn_logits(rows, 3),
        negative=negative,
        threshold=threshold,
    )
    return scored, report.of_set(scored, chinese=chinese)


def tables(found):
    return {b.note: b.rows for b in found.blocks if isinstance(b, ReportTable)}


@pytest.mark.parametrize("negative", [False, True])
@pytest.mark.parametrize("blank", [" ", "\u3000", "\u00a0", "\n", "  "])
def test_a_right_chinese_answer_has_the_best_scores(tokenizer, blank, negative):
    """Whatever white space it has; predictions.json has one blank for it."""
    text = f"好{blank}新"
    example = Example(
        "1", "a", f"新{text}好", label=Answers((text,), (1, 1 + len(text)))
    )

    def logits(rows):
        drawn = drawn_logits(rows, 3)
        for column, key in enumerate((dataset.STARTS, dataset.ENDS)):
            drawn.values[rows.dense[key][0], column] += 99
        return drawn

    scored = answered(tokenizer, example, logits=logits, negative=negative)
    assert [one.text for one in scored.chosen] == ["好 新"]
    own = SpanQa(
        "x", small_config(), max_seq_length=9, choice=scored.choice, chinese=True
    )
    scores = own.scores(scored)
    assert (scores["cmrc_em"], scores["cmrc_f1"]) == (100, 100)
    trusted = own.trust(scored)
    assert trusted.intervals["cmrc_f1"] == (100, 100)
    made = report.of_set(scored, chinese=True)
    assert not made.mistakes.worst_first
    if negative:
        assert [row[-2:] for row in tables(made)["by --null_score_diff_threshold"]][
            -1
        ] == ("100.0", "100.0")


def test_scores_by_length_and_by_windows(tokenizer):
    examples = [
        Example("1", "a", "sun joy", label=Answers(("sun joy",), (0, 7)), line=2),
        Example("2", "a", LONG, label=Answers(("joy",), (139, 142)), line=3),
        Example("3", "a", LONG, label=Answers((LONG[:100],), (0, 100)), line=4),
    ]
    scored, made = shown(tokenizer, *examples)
    found = tables(made)
    lengths = found["by the length of the longest true answer"]
    assert [row[:2] for row in lengths[1:]] == [
        ("1 to 5 characters", 1),
        ("6 to 10 characters", 1),
        ("41 characters and more", 1),
    ]
    own = report.Scored(scored, chinese=False)
    means = [f"{100 * each[0]:.1f}" for each in (own.exact, own.f1)]
    assert [*lengths[2][2:]] == means
    windows = found["by the windows of their contexts"]
    assert [row[1] for row in windows[1:]] == [1, 2]
    mistakes = made.mistakes.worst_first
    assert len(mistakes) == (own.f1 < 1).sum()
    scores = [float(one.cells[0]) for one in mistakes]
    assert scores == sorted(scores) and made.mistakes.columns[0] == "f1"
    one = next(one for one in mistakes if one.number == 1)
    assert one.cells[3].endswith("sun [joy]") and one.cells[2] == "a"
    answer = scored.chosen[1]
    assert f"[{LONG[answer.start : answer.end]}]" in one.cells[4]
    assert one.truth == ["joy"]


def test_the_scores_of_other_thresholds(tokenizer):
    examples = [
        Example(str(i), "a", LONG, label=Answers((), None) if i % 2 else
                Answers(("joy",), (139, 142)))
        for i in range(8)
    ]  # fmt: skip
    scored, made = shown(tokenizer, *examples, negative=True)
    rows = tables(made)["by --null_score_diff_threshold"]
    assert rows[1][1] != rows[-1][1] == "0.0%" and len(rows) > 3
    # Where an answer is always given, half of the questions cannot be right.
    best = [answer.text for answer in scored.best]
    wanted = np.mean([text == "joy" and not i % 2 for i, text in enumerate(best)])
    assert rows[-1][2] == f"{100 * wanted:.1f}"


def test_thresholds_are_odds_that_occur(tokenizer):
    """Also beside those of a question that has no answer at all, a million."""
    examples = [
        Example(str(i), "a", LONG if i else "", label=Answers((), None))
        for i in range(4)
    ]
    scored, made = shown(tokenizer, *examples, negative=True)
    (_, *rows) = tables(made)["by --null_score_diff_threshold"]
    assert {row[0] for row in rows} <= {f"{value:.3f}" for value in scored.odds}


@pytest.mark.parametrize("lost", [False, True])
def test_the_curves_of_thresholds(tokenizer, lost):
    """At every threshold those of a set to which it is given; chosen: that of the run.

    lost: one question has no answer to predict at any threshold.
    """
    examples = [
        Example(str(i), "a", "" if lost and not i else LONG,
                label=Answers((), None) if i % 2 else Answers(("joy",), (139, 142)))
        for i in range(12)
    ]  # fmt: skip
    _, made = shown(tokenizer, *examples, negative=True, threshold=1.5)
    (curves,) = [b for b in made.blocks if isinstance(b, ScoreCurves)]
    assert curves.name == "thresholds" and curves.chosen == 1.5
    assert curves.setting == "--null_score_diff_threshold"
    assert len(curves.values) == 12 - lost + 2 and (np.diff(curves.values) > 0).all()
    assert curves.values[-1] < 1000 and curves.lowest == "never answering"
    for index, threshold in enumerate(curves.values):
        scored = answered(
            tokenizer,
            *examples,
            logits=lambda rows: drawn_logits(rows, 3),
            threshold=threshold,
        )
        said = [answer.text for answer in scored.chosen]
        truth = [example.label.texts for example in examples]
        wanted = metrics.scores(truth, said, chinese=False)
        found = curves.scores["exact"][index], curves.scores["f1"][index]
        assert found == pytest.approx((wanted["exact_match"], wanted["f1"]))


def test_a_question_without_an_answer_that_gets_one(tokenizer):
    """Its true answer is not an empty cell."""
    example = Example("1", "a", LONG, label=Answers((), None))
    _, made = shown(tokenizer, example, negative=True, threshold=1000.0)
    (mistake,) = made.mistakes.worst_first
    assert mistake.cells[3] == "no answer" != mistake.cells[4]


def test_without_any_answer_there_is_no_curve(tokenizer):
    example = Example("1", "a", "", label=Answers((), None))
    _, made = shown(tokenizer, example, negative=True)
    assert not [b for b in made.blocks if isinstance(b, ScoreCurves)]


def test_a_set_without_a_mistake(tokenizer):
    scored, _ = shown(tokenizer, Example("1", "a", LONG, label=Answers((), None)))
    answer = scored.chosen[0]
    label = Answers((answer.text,), (answer.start, answer.end))
    _, made = shown(tokenizer, Example("1", "a", LONG, label=label))
    assert made.mistakes.worst_first == []
