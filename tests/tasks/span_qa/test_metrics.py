"""Scores of answers: those of SQuAD's and CMRC's own scripts."""

import importlib.util
import json
import types

import numpy as np
import pytest

from bert_mgpu.tasks.span_qa import metrics
from tests.support.paths import DATA

WORDS = ["the", "a", "An", "Cat's", "cat", "sun-joy", "1,000", "3.5", "u.s."]
WORDS += ["don't", "猫", "猫咪", "“joy”", ",", ".", "()", "é"]


@pytest.fixture(scope="module")
def official():
    """The functions of SQuAD's script of version 2.0, as allennlp-models has them.

    The file is loaded by itself: the package imports torch.
    """
    folder = importlib.util.find_spec("allennlp_models").submodule_search_locations[0]
    path = f"{folder}/rc/tools/squad.py"
    module = types.ModuleType("squad")
    with open(path) as file:
        exec(compile(file.read(), path, "exec"), vars(module))
    return module


def drawn(count, seed):
    draw = np.random.default_rng(seed)
    return [
        " ".join(draw.choice(WORDS, draw.integers(0, 6)).tolist()) for _ in range(count)
    ]


def test_exact_and_f1_are_those_of_squads_script(official):
    pairs = [*zip(drawn(3000, 1), drawn(3000, 2), strict=True)]
    pairs += [(text, f"The {text.upper()}!") for text in drawn(500, 3)]
    equal = 0
    for true, said in pairs:
        assert metrics.exact(true, said) == official.compute_exact(true, said)
        assert metrics.f1(true, said) == official.compute_f1(true, said)
        equal += metrics.exact(true, said)
    assert equal > 300


def test_f1_where_no_word_is_left():
    """By the script of SQuAD 1.1 nothing is common then; that of 2.0 says 1."""
    truth, said = [["The"], ["a", "cat"]], ["the", "the cat"]
    assert metrics.scores(truth, said, chinese=False) == {"exact_match": 100, "f1": 50}
    assert metrics.f1("The", "the") == 1.0
    for negative, low in ((True, 100.0), (False, 0.0)):
        own = metrics.trust([["The"]], ["the"], chinese=False, negative=negative)
        assert own.intervals["f1"][0] == low


def test_the_best_of_several_answers_counts(official):
    truth = [drawn(3, seed) for seed in range(200)]
    said = drawn(200, 9)
    wanted = [
        official.get_metric_score(text, texts)
        for text, texts in zip(said, truth, strict=True)
    ]
    for column, score in enumerate((metrics.exact, metrics.f1)):
        found = metrics.question_scores(truth, said, score)
        assert found.tolist() == [pair[column] for pair in wanted]


@pytest.mark.parametrize("seed", range(20))
def test_the_best_threshold_is_that_of_trying_all(seed):
    draw = np.random.default_rng(seed)
    count = 40
    with_answer = draw.choice([0, 0.5, 1], count)
    none = (draw.random(count) < 0.4).astype(float)
    with_answer[none > 0] = 0
    odds = draw.choice(np.round(draw.normal(size=15), 1), count)  # many are equal
    tried = [*odds, odds.min() - 1]
    means = [np.where(odds > t, none, with_answer).mean() for t in tried]
    best = metrics.best_threshold(with_answer, none, odds)
    assert best.score == pytest.approx(max(means), abs=1e-12)
    if best.score > none.mean():
        reached = np.where(odds > best.threshold, none, with_answer).mean()
        assert reached == pytest.approx(best.score, abs=1e-12)


def test_scores_with_negative():
    """By hand: three questions with an answer, one of no word; and one without."""
    found = metrics.scores_with_negative(
        [["cat"], ["a dog", "dog"], [], ["the"]],
        ["cat", "", "", "cat"],
        answers=["cat", "dog", "sun", "cat"],
        odds=np.array([-3.0, 1.0, 2.0, -1.0]),
    )
    assert found["exact"] == found["f1"] == 50 and found["total"] == 4
    assert found["HasAns_exact"] == pytest.approx(100 / 3)
    assert (found["HasAns_total"], found["NoAns_total"]) == (3, 1)
    assert found["NoAns_f1"] == 100
    assert found["best_exact"] == 75 and found["best_exact_thresh"] == 1.0


def test_chinese_scores_with_negative():
    found = metrics.scores_with_negative(
        [["北京大学"], ["上海"], [], []],
        ["北京大学", "", "", "上海"],
        answers=["北京大学", "上海", "上海", "上海"],
        odds=np.array([-3.0, 1.0, 2.0, -1.0]),
        chinese=True,
    )
    assert found["cmrc_em"] == found["cmrc_f1"] == 50
    assert found["HasAns_cmrc_f1"] == found["NoAns_cmrc_f1"] == 50
    assert found["exact"] == 50 and found["best_f1"] == 75


# Answers of cmrc2018 dev, changed; EM and F1 by CMRC's cmrc2018_evaluate.py of
# squad-style-data, with NLTK's NLTKWordTokenizer for nltk.word_tokenize, whose data no
# registry has (Python 3, NLTK 3.10.4).
CHANGES = {
    "as it is": (lambda text, _: text, (100.0, 100.0)),
    "without its first character": (
        lambda text, _: text[1:],
        (7.020813917365642, 84.50906211936775),
    ),
    "without its last character": (
        lambda text, _: text[:-1],
        (14.103758931345139, 86.52799121940214),
    ),
    "its first half": (
        lambda text, _: text[: len(text) // 2],
        (0.6213109661385523, 56.56082213801281),
    ),
    "with the text behind it": (
        lambda text, context: (
            context[context.find(text) :][: len(text) + 7]
            if text in context
            else text + context[:7]
        ),
        (2.2367194780987885, 67.35327710306767),
    ),
    "with punctuation": (lambda text, _: f"《{text}》。", (100.0, 100.0)),
    "with ASCII punctuation": (lambda text, _: f"({text}), ", (0, 77.0615364849876)),
    "in capitals": (lambda text, _: text.upper(), (100.0, 100.0)),
    "with a blank inside": (
        lambda text, _: text[: len(text) // 2] + " " + text[len(text) // 2 :],
        (0.21745883814849332, 92.62197953645374),
    ),
    "reversed": (
        lambda text, _: text[::-1],
        (0.31065548306927615, 22.495819022364383),
    ),
    "the beginning of the context": (
        lambda _, context: context[:12],
        (0.031065548306927617, 8.614262134814597),
    ),
    "empty": (lambda *_: "", (0.0, 0.0)),
}


@pytest.mark.skipif(
    not DATA.is_dir(), reason="the folder ../shared with data and models is absent"
)
@pytest.mark.parametrize("name", CHANGES)
def test_scores_of_cmrc2018_are_those_of_its_script(name):
    change, wanted = CHANGES[name]
    with open(DATA / "cmrc2018" / "cmrc2018_dev.json") as file:
        entries = json.load(file)["data"]
    truth, said = [], []
    for paragraph in (p for entry in entries for p in entry["paragraphs"]):
        for question in paragraph["qas"]:
            truth.append([answer["text"] for answer in question["answers"]])
            said.append(change(truth[-1][0], paragraph["context"]))
    found = metrics.scores(truth, said, chinese=True)
    assert (found["cmrc_em"], found["cmrc_f1"]) == pytest.approx(wanted, abs=1e-9)


@pytest.mark.parametrize(
    ("true", "said", "wanted"),
    [
        ("北京大学", "北京大学校园", 2 * 4 / (4 + 6)),
        ("iPhone 4S", "iphone", 2 / 3),
        ("3.5%", "3.5", 2 / 3),
        ("don't", "do", 2 / 3),
        ("", "", 0.0),  # as CMRC's script: nothing is common
    ],
)
def test_chinese_characters_and_other_words(true, said, wanted):
    assert metrics.cmrc_f1(true, said) == pytest.approx(wanted)


def test_the_interval_of_f1_and_one_answer_for_all():
    truth = [[f"word{n}"] if n % 2 else [] for n in range(100)]
    said = [texts[0] if texts and n % 4 == 1 else "" for n, texts in enumerate(truth)]
    found = metrics.trust(truth, said, chinese=False)
    low, high = found.intervals["f1"]
    assert low < 75.0 < high and 10 < high - low < 25 and found.one_answer == ""
    same = metrics.trust(truth, ["word1"] * 100, chinese=True)
    said = "100 of 100 questions get the answer 'word1', which is right for 1"
    assert same.one_answer == said
    assert {*same.intervals} == {"cmrc_f1", "cmrc_em"}
    one_of_100 = pytest.approx((0.18, 5.45), abs=0.01)
    assert same.intervals["cmrc_em"] == one_of_100
    low, high = found.intervals["exact_match"]
    assert low < 75.0 < high
    none = metrics.trust(truth, [""] * 100, chinese=False)
    said = "100 of 100 questions get no answer, which is right for 50"
    assert none.one_answer == said
    assert metrics.trust(truth[:4], [""] * 4, chinese=False).one_answer == ""
    assert metrics.trust([[]] * 100, [""] * 100, chinese=False).one_answer == ""
    assert metrics.trust([], [], chinese=False).intervals == {}
