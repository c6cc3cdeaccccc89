"""Damaged and hostile files of questions: one line, its place, nothing changed."""

import gzip
import json

import pytest

from tests.support.hostile_rows import check
from tests.tasks.span_qa.test_dataset import examples_of

CONTEXT = "the sun of joy"
DEEP = b"[" * 100_000 + b"]" * 100_000


def question(**changed):
    answers = [{"text": "sun", "answer_start": 4}]
    values = {"id": "a", "question": "it", "answers": answers, **changed}
    return {key: value for key, value in values.items() if value is not ...}


def nested(*questions, context=CONTEXT, **changed):
    paragraph = {"context": context, "qas": [*questions], **changed}
    return {"version": "1", "data": [{"title": "t", "paragraphs": [paragraph]}]}


def squad(value):
    return ("a.json", json.dumps(value, indent=1).encode())


def answered(*answers):
    """A second question, whose id is on line 21, with these answers."""
    return squad(nested(question(), question(id="b", answers=[*answers])))


def at(text, start):
    return {"text": text, "answer_start": start}


def line(**changed):
    values = {"id": "a", "question": "it", "context": CONTEXT, "answers": ["sun"]}
    record = {k: v for k, v in {**values, **changed}.items() if v is not ...}
    first = {**values, "id": "first"}
    return ("a.jsonl", f"{json.dumps(first)}\n{json.dumps(record)}\n".encode())


def raw(content, name="a.json"):
    return (name, content)


GOOD = squad(nested(question()))[1]
SQUAD = {
    "cut off": (raw(GOOD[:-30]), "a.json:", "not a JSON file"),
    "cut in a packed file": (
        raw(gzip.compress(GOOD * 99)[:-9], "a.json.gz"),
        "a.json.gz: damaged or cut",
    ),
    "nested a thousand deep": (raw(b'{"data": ' + DEEP + b"}"), "nested too deep"),
    "a context that is deep": (
        raw(b'{"data": [{"paragraphs": [{"context": ' + DEEP + b"}]}]}"),
        "a.json:1: not a JSON file: nested too deep",
    ),
    "nothing": (raw(b""), "a.json: no rows for the task own"),
    "an empty object": (raw(b"{}"), "a.json:1: no column 'question'"),
    "no data": (squad({"data": []}), "a.json: no rows for the task own"),
    "data of another kind": (squad({"data": "x"}), "data: 'x', where a list is needed"),
    "null": (squad({"data": [None]}), "data[0]: None, where an object is needed"),
    "ids twice": (
        squad(nested(question(), question())),
        "a.json:21: data[0].paragraphs[0].qas[1]: the id 'a' is that of data[0]",
    ),
    "no id": (squad(nested(question(id=...))), "qas[0]: there is no 'id'"),
    "an id of a list": (squad(nested(question(id=["a"]))), "'id' is ['a']: a text"),
    "no question": (
        squad(nested(question(question=...))),
        "qas[0]: there is no 'question'",
    ),
    "a question of numbers": (squad(nested(question(question=7))), "'question' is 7"),
    "no context": (squad(nested(question(), context=None)), "'context' is None"),
    "no questions": (squad(nested(qas={})), "qas: {}, where a list is needed"),
    "a key twice": (
        raw(b'{"data": [{"paragraphs": [], "paragraphs": []}]}'),
        "'paragraphs' appears 2 times",
    ),
    "NUL": (raw(GOOD.replace(b"joy", b"j\0y")), "a.json:8: NUL byte at column"),
    "NUL as an escape": (
        raw(GOOD.replace(b"joy", b"j\\u0000y").replace(b'"sun"', b'"rain"')),
        "no answer occurs in its context",
    ),
    "utf-16": (raw(GOOD.decode().encode("utf-16")), "a.json:1: not UTF-8 but UTF-16"),
    "gbk": (raw(GOOD.replace(b"sun", "太阳".encode("gbk"))), "a.json:8: not UTF-8"),
    "half a character": (
        raw(GOOD.replace(b"joy", b"\\ud83d")),
        "column 'context' contains an unpaired surrogate",
    ),
    "half a character in an answer": (
        raw(GOOD.replace(b'"text": "sun"', b'"text": "\\ud83d"')),
        "has an unpaired surrogate",
    ),
    "offsets as text": (answered(at("sun", "4")), "a.json:21: ", "answer_start is '4'"),
    "offsets as fractions": (answered(at("sun", 4.0)), "a.json:21: ", "4.0: a number"),
    "offsets as bool": (answered(at("sun", True)), "a.json:21: ", "is True: a number"),
    "an answer of numbers": (answered(at(7, 4)), "a.json:21: ", "the answer is 7"),
    "an empty answer": (answered(at("", 4)), "a.json:21: ", "the answer '' is empty"),
    "a blank answer": (answered(at(" \n", 4)), "a.json:21: ", "is empty"),
    "answers of null": (answered(None), "a.json:21: ", "the answer is None"),
    "answers of lists": (answered(["sun", 4]), "a.json:21: ", "the answer is ['sun'"),
    "no answers": (answered(), "a.json:21: ", "needs --version_2_with_negative=true"),
    "no answers at all": (
        squad(nested(question(answers=...))),
        "there is no 'answers'",
    ),
    "impossible": (
        squad(nested(question(answers=[], is_impossible=True))),
        "needs --version_2_with_negative=true",
    ),
    "impossible with an answer": (
        squad(nested(question(is_impossible=True))),
        "is_impossible is true, but it has 1 answer",
    ),
    "impossible as text": (
        squad(nested(question(is_impossible="no"))),
        "is_impossible is 'no': pass a bool",
    ),
    "answers elsewhere": (
        squad(nested(question(answers=[at("rain", 4)]))),
        "no answer occurs in its context",
    ),
}
LINES = {
    "not JSON": (raw(b"sun\n", "a.jsonl"), "a.jsonl:1: not a JSON object"),
    "no context": (line(context=...), "a.jsonl:2: no column 'context'"),
    "a context of words": (line(context=["sun"]), "a.jsonl:2: the context is"),
    "a question of words": (line(question=["a", "b"]), "a.jsonl:2: the question is"),
    "no id": (
        line(id=...),
        "a.jsonl:2: no column 'id'",
        "give each question one of its own",
    ),
    "no id in another file": (
        raw(line(id=...)[1]),
        "a.json:2: no column 'id'",
        "give each question one of its own",
    ),
    "an id twice": (line(id="first"), "a.jsonl:2: the id 'first' is that of line 1"),
    "lists of other lengths": (
        line(answers={"text": ["sun"], "answer_start": []}),
        "a.jsonl:2: answers: 1 texts and 0 starts",
    ),
    "an object of none": (line(answers={"x": 1}), "lists 'text' and 'answer_start'"),
    "a number": (line(answers=[7]), "a.jsonl:2: "),
    "null": (line(answers=None), "a.jsonl:2: "),
    "deep": (raw(DEEP + b"\n", "a.jsonl"), "a.jsonl:1: not a JSON object"),
}


@pytest.mark.parametrize("case", SQUAD.values(), ids=SQUAD)
def test_squads_form(tmp_path, tiny, inside, case):
    file, *wanted = case
    check(tmp_path, tiny, inside, (*file, *wanted), {"type": "qa"})


@pytest.mark.parametrize("case", LINES.values(), ids=LINES)
def test_json_lines(tmp_path, tiny, inside, case):
    file, *wanted = case
    check(tmp_path, tiny, inside, (*file, *wanted), {"type": "qa"})


SETTINGS = {
    "a format without answers": ({"format": "tsv"}, "its cells hold no answers"),
    "labels": ({"labels": ["a", "b"]}, "labels"),
    "negative as text": ({"version_2_with_negative": "yes"}, "must be of type bool"),
    "columns of other names": ({"text_a": "q"}, "no column 'q'"),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_settings(tmp_path, tiny, inside, name):
    keys, fragment = SETTINGS[name]
    check(tmp_path, tiny, inside, ("a.json", GOOD, fragment), {"type": "qa"}, **keys)


def test_a_context_of_ten_megabytes(tmp_path, tiny, inside):
    """It is read, with the answer far behind it; so is a fault."""
    long = "the of " * 1_500_000 + "sun"
    start = len(long) - 3
    value = nested(question(answers=[at("sun", start)]), context=long)
    wrong = nested(question(answers=[at("sun", "x")]), context=long)
    (tmp_path / "long.json").write_text(json.dumps(value))
    assert (tmp_path / "long.json").stat().st_size > 10**7
    (example,) = examples_of(tmp_path / "long.json")
    assert example.label.span == (start, start + 3) and not example.label.misplaced
    check(
        tmp_path, tiny, inside, (*squad(wrong), "answer_start is 'x'"), {"type": "qa"}
    )
