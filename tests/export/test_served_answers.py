"""The answers of a graph to raw texts are those of a run, at the same places."""

import functools
import json

import numpy as np
import pytest
import tensorflow as tf

from bert_mgpu.config.span_qa import Choice, WindowCut
from bert_mgpu.core.rows import Example, Ragged
from bert_mgpu.export import saved_model
from bert_mgpu.export.served_answers import ServedAnswers, windows_of
from bert_mgpu.model import params as params_lib
from bert_mgpu.tasks.span_qa import answers, dataset, predictions
from bert_mgpu.tasks.span_qa.scored import AnsweredSet
from bert_mgpu.tasks.span_qa.task import SpanQa
from bert_mgpu.text.tokenization import Tokenizer
from bert_mgpu.text.windows import windows
from tests.export.test_graph_tokenizer import HARD
from tests.export.test_graph_tokenizer import PIECES as MORE
from tests.support import questions
from tests.support.paths import DATA
from tests.support.tiny import VOCAB, small_config

LENGTH, CUT = 24, WindowCut(7, max_query_length=5)
CHOICE = Choice(20, 6, True, null_score_diff_threshold=0.0)
WORDS = "the sun of joy in it a loss rain fear "
HARD_TEXTS = [
    *(
        "",
        " ",
        "sun",
        "  sun \u3000 joy\n",
        "rain\u0301 joy\u0301\u0302the",
        "한국 sun",
    ),
    *(
        "e\u0301\ufe0f 🎉 the\ufe0f sun 👩‍👩‍👧 joy",
        "ｓｕｎ，ｊｏｙ the",
        "sun\u200b joy\ufffdthe\u00ad \u200brain\u0301\u200c\u200b",
        "好新坏旧" * 9,
    ),
    *(WORDS * 6, "sun\u00a0 joy of sun  joy in sun joy " * 3, "suns 🎉 " * 20),
    *HARD,
]
ASKED = ["it", "the sun of joy in it a loss", "", "한国 🎉 e\u0301"]
PAIRS = [(ASKED[number % 4], text) for number, text in enumerate(HARD_TEXTS)]


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    path = tmp_path_factory.mktemp("vocab") / "vocab.txt"
    path.write_text("\n".join([*VOCAB, *MORE]) + "\n", encoding="utf-8")
    return Tokenizer(path, True)


def made(tokenizer, choice=CHOICE, cut=CUT, length=LENGTH):
    """(task, weights): all of them drawn, so that answers differ."""
    size = len(tokenizer.tokens)
    config = small_config(0.0, vocab_size=size, max_position_embeddings=length)
    task = SpanQa("x", config, max_seq_length=length, choice=choice, cut=cut)
    return task, params_lib.initialize(task.param_specs(), 0.5, seed=3)


def in_a_run(task, values, tokenizer, pairs):
    """The records of predictions.jsonl."""
    examples = [Example(str(n), *pair) for n, pair in enumerate(pairs)]
    rows = dataset.featurise(
        examples, tokenizer, max_seq_length=task.max_seq_length, **task.cut._asdict()
    )
    made = []
    for start in range(0, len(rows), 32):
        own = rows.take(np.arange(start, min(start + 32, len(rows))))
        batch = saved_model._padded(own)
        batch["is_real_example"] = np.ones(len(own), np.float32)
        logits = task.outputs(values, batch)["logits"].numpy()
        made.append(logits[batch["input_mask"] > 0])
    offsets = np.concatenate([[0], np.cumsum(rows.lengths)])
    logits = Ragged(np.concatenate(made), offsets)
    read = lambda: examples  # noqa: E731
    scored = AnsweredSet({"logits": logits}, rows, read, choice=task.choice)
    return scored, predictions.decide(scored).records


def check(model, pairs, records):
    """The answers are those of the records; batches may be of any size."""
    texts = [tf.constant([*each], tf.string) for each in zip(*pairs, strict=True)]
    found = {n: v.numpy() for n, v in model.answers_for_pairs(*texts).items()}
    assert {*found} == {*records[0]}
    for number, record in enumerate(records):
        own = {name: values[number] for name, values in found.items()}
        start, end = record["start"], record["end"]
        if start is None:
            start = end = -1
        assert own["answer"].decode() == record["answer"], pairs[number]
        assert (own["start"], own["end"]) == (start, end), pairs[number]
        for name in {"probability", "null_odds"} & {*own}:
            assert own[name] == pytest.approx(record[name], abs=1e-5, rel=1e-5)
    return found


CHOICES = {
    "usual": CHOICE,
    "all have one": CHOICE._replace(version_2_with_negative=False),
    "the best one alone": CHOICE._replace(n_best_size=1),
    "two of one token": CHOICE._replace(n_best_size=2, max_answer_length=1),
    "more than there are": CHOICE._replace(n_best_size=1000, max_answer_length=50),
    "nearly none": CHOICE._replace(null_score_diff_threshold=-4.0),
    "nearly all": CHOICE._replace(null_score_diff_threshold=4.0),
}


@pytest.mark.parametrize("name", CHOICES)
def test_hard_texts(tokenizer, name):
    task, values = made(tokenizer, CHOICES[name])
    _, records = in_a_run(task, values, tokenizer, PAIRS)
    model = ServedAnswers(task, values, tokenizer)
    check(model, PAIRS, records)
    kinds = {record["start"] is None for record in records}
    assert len({record["answer"] for record in records}) > 3
    assert True in kinds  # an empty context has no answer
    for number in (0, 4, len(PAIRS) - 1):
        check(model, PAIRS[number : number + 1], records[number : number + 1])


def test_a_question_that_is_longer_than_a_row(tokenizer):
    """One token of its context stands beside its beginning."""
    pairs = [(WORDS * 5, "sun joy"), ("it", "sun joy of"), (WORDS * 5, "")]
    task, values = made(tokenizer, cut=WindowCut(7, max_query_length=64))
    scored, records = in_a_run(task, values, tokenizer, pairs)
    assert scored.windows.tolist() == [2, 1, 1]
    check(ServedAnswers(task, values, tokenizer), pairs, records)


def near_ties(count, seed):
    """Contexts of few words, whose answers have equal texts, with other blanks."""
    draw = np.random.default_rng(seed)
    words = ("sun", "joy", "sun  joy", "好", "the\n")
    return [
        ("it", " ".join(draw.choice(words, draw.integers(1, 90)))) for _ in range(count)
    ]


def whole_numbers(at_cls):
    """Logits from 0 to 10 by id and place, many of them equal; another one at [CLS]."""

    def logits(params, batch, key):
        ids = tf.constant(batch["input_ids"], tf.int32)[..., None]
        place = tf.range(tf.shape(ids)[1])[:, None]
        drawn = (ids * [31, 17] + place * place * [7, 13]) % 11
        return tf.cast(tf.where(place == 0, at_cls, drawn), tf.float32)

    return logits


@pytest.mark.parametrize("size", [3, 8])
def test_equal_scores_and_equal_texts(tokenizer, size):
    """Of equal scores the first pair is better, no answer stands behind all of them;
    of equal texts the first one counts.
    """
    task, values = made(tokenizer, CHOICE._replace(n_best_size=size))
    seen = set()
    for at_cls in (4, 7, 8, 9, 10):
        pairs = near_ties(40, at_cls)
        task._logits = whole_numbers(at_cls)
        scored, records = in_a_run(task, values, tokenizer, pairs)
        check(ServedAnswers(task, values, tokenizer), pairs, records)
        seen |= {[one.text for one in own].index("") for own in scored.n_best}
        assert scored.windows.max() > 4
    assert {0, 1, size - 1, size} <= seen  # places of no answer


@pytest.mark.parametrize("negative", [False, True])
def test_where_no_pair_is_an_answer(tokenizer, negative):
    """No start and no end of the best is in the context."""
    choice = CHOICE._replace(version_2_with_negative=negative, n_best_size=3)
    task, values = made(tokenizer, choice)
    task._logits = lambda params, batch, key: tf.cast(
        tf.stack([batch["segment_ids"], batch["segment_ids"]], -1) * -9, tf.float32
    )
    _, records = in_a_run(task, values, tokenizer, PAIRS)
    found = check(ServedAnswers(task, values, tokenizer), PAIRS, records)
    assert {*found["start"]} >= {-1} and {*found["probability"]} >= {1.0}
    if negative:
        assert answers.NO_BEST in found["null_odds"]


def test_windows_are_those_of_a_run():
    """Also where their lengths make two of them equally good for a token."""
    draw = np.random.default_rng(5)
    sizes = np.concatenate([np.arange(40), draw.integers(0, 1500, 300)])
    room = np.concatenate([draw.integers(1, 30, 40), draw.integers(1, 500, 300)])
    stride = np.array([draw.integers(1, most + 1) for most in room])
    found = windows_of(*(tf.constant(v, tf.int32) for v in (sizes, room, stride)))
    found = {name: part.numpy() for name, part in found._asdict().items()}
    for number, facts in enumerate(zip(sizes, room, stride, strict=True)):
        size, own_room, own_stride = map(int, facts)
        wanted = windows(np.ones(size, np.int64), own_room, own_stride)
        own = {name: part[found["owners"] == number] for name, part in found.items()}
        assert own["starts"].tolist() == wanted.starts.tolist(), facts
        assert own["ends"].tolist() == wanted.ends.tolist(), facts
        if size:
            starts, ends = (
                own["starts"] + own[f"core_{n}"] for n in ("starts", "ends")
            )
            assert starts.tolist() == wanted.core_starts.tolist(), facts
            assert ends.tolist() == wanted.core_ends.tolist(), facts


def real(name):
    """Pairs of real texts; some contexts have several windows."""
    value = questions.english(30, 4) if name == "english" else questions.chinese(30)
    return [
        (question["question"], paragraph["context"])
        for entry in value["data"]
        for paragraph in entry["paragraphs"]
        for question in paragraph["qas"]
    ]


@functools.cache
def real_tokenizer(name):
    return Tokenizer(DATA / "vocab" / f"{name}_vocab.txt")


@pytest.mark.skipif(
    not DATA.is_dir(), reason="the folder ../shared with data and models is absent"
)
@pytest.mark.parametrize("negative", [False, True])
@pytest.mark.parametrize("name", ["uncased", "chinese"])
def test_real_questions(name, negative):
    pairs = real("english" if name == "uncased" else name)
    choice = Choice(20, 30, negative, null_score_diff_threshold=0.0)
    task, values = made(real_tokenizer(name), choice, WindowCut(64, 32), length=160)
    scored, records = in_a_run(task, values, real_tokenizer(name), pairs)
    assert scored.windows.max() > 4 and len(pairs) == 30
    check(ServedAnswers(task, values, real_tokenizer(name)), pairs, records)
    assert any(record["start"] is not None for record in records)


def test_the_folder(tokenizer, tmp_path):
    """Loaded without this package's code; facts let clients of ONNX do the same."""
    task, values = made(tokenizer)
    model = ServedAnswers(task, values, tokenizer)
    saved_model.write(str(tmp_path / "served"), model, True)
    loaded = tf.saved_model.load(str(tmp_path / "served"))
    names = {"answer", "start", "end", "probability", "null_odds"}
    for pairs in (PAIRS, [], PAIRS[:1], [("", "")]):
        texts = np.array(pairs, object).reshape(-1, 2).T
        given = [tf.constant([*each], tf.string) for each in texts]
        call = loaded.signatures["serving_default"]
        actual = call(text_a=given[0], text_b=given[1])
        assert {*actual} == names
        for name, wanted in model.answers_for_pairs(*given).items():
            value = actual[name].numpy()
            assert value.shape == (len(pairs),)
            if value.dtype == np.float32:
                assert value == pytest.approx(wanted.numpy(), abs=1e-5, rel=1e-5)
            else:
                assert (value == wanted.numpy()).all()
    ids = tf.constant([[2, 5, 3, 6, 3, 0]])
    mask = tf.cast(ids > 0, tf.int32)
    made_ = loaded.signatures["ids"](
        input_ids=ids, input_mask=mask, segment_ids=tf.zeros_like(ids)
    )
    assert {*made_} == {"logits"} and made_["logits"].shape == (1, 6, 2)
    facts = json.loads((tmp_path / "served" / "bert_mgpu.json").read_text())
    assert Choice(*(facts[name] for name in Choice._fields)) == CHOICE
    assert (
        WindowCut(*(facts[name] for name in WindowCut._fields)) == CUT
        and not facts["labels"]
    )
