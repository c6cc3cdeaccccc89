"""The answers of questions: where they stand, and what is wrong with them."""

import json

import pytest

from bert_mgpu.data import tables
from bert_mgpu.tasks import reader as rows_reader
from bert_mgpu.tasks.span_qa import files, reader
from tests.support.paths import DATA

CONTEXT = "sun joy sun joy the sun"
CELLS = {"text_a": 0, "text_b": 1, "label": 2, "id": 3}


def label_of(answers, context=CONTEXT, task="squad"):
    own = files.BUILTIN[task]
    return reader.read_label(own, own.columns, ["who?", context, answers, "x"])


def at(text, start):
    return {"text": text, "answer_start": start}


@pytest.mark.parametrize(
    ("answers", "span", "misplaced"),
    [
        ([at("joy", 4), at("sun", 0)], (4, 7), 0),
        ([at("joy", 5), at("sun", 8)], (8, 11), 1),  # the first at its place
        ([at("joy", 11)], (12, 15), 1),  # the nearest one
        ([at("joy", 8)], (4, 7), 1),  # of two equally near the first
        ([at("sun", -1)], (0, 3), 1),
        ([at("rain", 0), at("the", 16)], (16, 19), 1),
        ([at("rain", 0)], None, 1),
        ([at("joy", 10**30)], (12, 15), 1),
        (["the"], (16, 19), 0),  # as CMRC's own files have them
        ("the", (16, 19), 0),
        ({"text": ["the", "joy"], "answer_start": [16, 4]}, (16, 19), 0),
    ],
)
def test_the_place_of_an_answer(answers, span, misplaced):
    label = label_of(answers)
    assert label.span == span and len(label.misplaced) == misplaced
    assert label.is_not_in_context == (span is None)


@pytest.mark.parametrize(
    ("context", "answer", "span", "misplaced"),
    [
        ("in New  York city", at("New York", 3), (3, 12), 0),
        ("in New\nYork city", at("New York", 3), (3, 11), 0),
        ("in New York city", at("New \tYork", 3), (3, 11), 0),
        ("it is Paris.", at("Paris ", 6), (6, 11), 0),
        ("it is Paris.", at(" Paris", 5), (5, 11), 0),  # as it stands there
        ("it is (Paris).", at(" Paris", 6), (7, 12), 0),
        ("New  York, New York, New  York", at("New York", 21), (21, 30), 0),
        ("New  York, New York, New  York", at("New York", 23), (11, 19), 1),
        ("New  York, joy, New\u3000York", at("New York", 12), (16, 24), 1),
        ("New  York", "New York", (0, 9), 0),
        ("NewYork", at("New York", 0), None, 1),
    ],
)
def test_white_space_does_not_matter(context, answer, span, misplaced):
    """First at the place, then as the text is written, then with other white space."""
    label = label_of([answer], context)
    assert label.span == span and len(label.misplaced) == misplaced
    assert label.texts[0] == (answer if isinstance(answer, str) else answer["text"])


def test_faults_behind_a_line_that_is_none_have_their_own_lines(tmp_path):
    """In JSON Lines and in one value, with the lines of the file."""
    entry = {"id": "1", "question": "a", "context": CONTEXT, "answers": [at("joy", 4)]}
    good, broken = json.dumps(entry), json.dumps({**entry, "answers": [at("joy", "4")]})
    path, task = tmp_path / "train.json", files.BUILTIN["squad"]

    def found(text):
        path.write_bytes(text)
        faults = []
        examples = [
            *rows_reader.stream(
                task,
                path,
                "train",
                columns=task.columns,
                label=reader.read_label,
                with_label=True,
                faults=lambda line, _: faults.append(line),
            )
        ]
        return faults, [one.line for one in examples]

    lines = [good.encode(), b"\xff", good.encode(), broken.encode(), good.encode()]
    assert found(b"\n".join(lines)) == ([2, 4], [1, 3, 5])
    paragraph = {"context": CONTEXT, "qas": [entry, json.loads(broken)]}
    text = json.dumps({"data": [{"paragraphs": [paragraph]}]}, indent=1)
    whole = found(text.encode())
    assert len(whole[0]) == len(whole[1]) == 1
    first, rest = text.encode().split(b"\n", 1)
    faults, kept = found(first + b"\n\xff\n" + rest)
    assert faults == [2, whole[0][0] + 1] and kept == [whole[1][0] + 1]


@pytest.mark.parametrize("task", ["squad", "own"])
def test_questions_may_stand_in_a_parquet_file(tmp_path, task):
    """As in transformers' data sets, also for a built-in task, beside JSON."""
    import pyarrow
    from pyarrow import parquet

    from bert_mgpu.config.squad import SquadConfig
    from bert_mgpu.tasks import registry
    from bert_mgpu.tasks.reader import stream

    columns = {
        "id": ["a1", "a2"],
        "title": ["x", "x"],
        "context": [CONTEXT, CONTEXT],
        "question": ["who?", "why?"],
        "answers": [{"text": ["joy"], "answer_start": [4]}] * 2,
    }
    packed, plain = tmp_path / "train.parquet", tmp_path / "dev.json"
    parquet.write_table(pyarrow.table(columns), packed)
    rows = [
        dict(zip(columns, row, strict=True))
        for row in zip(*columns.values(), strict=True)
    ]
    plain.write_text("\n".join(map(json.dumps, rows)))
    named = {"task_name": task, "train_file": str(packed), "dev_file": str(plain)}
    if task == "own":
        named["task_type"] = "qa"
    own = registry.find_task_files(SquadConfig(**named))
    for path in (packed, plain):
        found = stream(own, path, "train", label=reader.read_label, with_label=True)
        assert [
            (each.guid, each.text_a, each.text_b, each.label.span) for each in found
        ] == [("a1", "who?", CONTEXT, (4, 7)), ("a2", "why?", CONTEXT, (4, 7))]


def test_what_is_told_of_misplaced_answers():
    told = label_of([at("joy", 5), at("rain", 3), at("sun", -1)]).misplaced
    assert told == (
        "the answer 'joy' is not at 5, but at 4, off by one",
        "the answer 'rain' is not at 3, nor elsewhere in the context: left out",
        "the answer 'sun' is not at -1, but at 0",
    )
    alone = label_of(["rain"]).misplaced
    assert alone == ("the answer 'rain' is not in the context: left out",)


def test_a_question_that_only_misspells_its_answers():
    """Is none without an answer."""
    for label in ({"place": "p"}, {"place": "p", "is_impossible": False}):
        with pytest.raises(ValueError, match="p: there is no 'answers'"):
            label_of(label, task="squad2")


def test_a_nested_question_that_is_scored_has_an_id():
    own = files.BUILTIN["squad"]
    cells = ["who?", CONTEXT, {"place": "p", "answers": [at("joy", 4)]}, ""]
    with pytest.raises(ValueError, match="p: there is no 'id'"):
        reader.read_label(own, own.columns, cells)


def test_answers_may_be_null_in_json_lines(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"answers": null}\n{"answers": ["joy"]}\n')
    rows = tables.rows(path, tables.TableFormat(), ["answers"], nested_at=0)
    assert [*rows] == [(1, [None]), (2, [["joy"]])]


def test_questions_without_an_answer():
    for answers in ([], None, {"text": [], "answer_start": []}):
        assert label_of(answers, task="squad2") == reader.Answers((), None)
    nested = {"place": "data[0]", "is_impossible": True, "answers": []}
    assert label_of(nested, task="squad2").texts == ()


WRONG = {
    "no answer": ([], "a question without an answer needs --version_2_with_negative"),
    "answers of an impossible one": (
        {"place": "p", "is_impossible": True, "answers": [at("joy", 4)]},
        "p: is_impossible is true, but it has 1 answer",
    ),
    "answers that are missing": (
        {"place": "p", "answer": []},
        "p: there is no 'answers'",
    ),
    "is_impossible": ({"place": "p", "is_impossible": 1}, "is_impossible is 1"),
    "a number": ([at(5, 4)], "the answer is 5: a text is needed"),
    "empty": ([at(" ", 4)], "the answer ' ' is empty"),
    "offsets as text": ([at("joy", "4")], "answer_start is '4': a number is needed"),
    "offsets as bool": ([at("joy", True)], "answer_start is True"),
    "lists": ({"text": "joy", "answer_start": 4}, "lists 'text' and 'answer_start'"),
    "lengths": ({"text": ["joy"], "answer_start": []}, "1 texts and 0 starts"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_answers_are_refused(name):
    answers, message = WRONG[name]
    with pytest.raises(ValueError, match="^") as error:
        label_of(answers)
    assert message in str(error.value)


def test_a_question_that_has_no_answer_says_so():
    nested = {"place": "p", "is_impossible": False, "answers": []}
    with pytest.raises(ValueError, match="no answer, but is_impossible is false"):
        label_of(nested, task="squad2")


@pytest.mark.skipif(
    not DATA.is_dir(), reason="the folder ../shared with data and models is absent"
)
def test_the_misplaced_answers_of_cmrc2018():
    """200 of 9,657 in dev, 5 of 1,002 in trial; no question loses all of its own."""
    from bert_mgpu.tasks import reader as rows

    own = files.BUILTIN["cmrc2018"]
    found = {}
    for part in ("dev", "trial"):
        examples = rows.read_examples(
            own,
            DATA / "cmrc2018" / f"cmrc2018_{part}.json",
            "dev",
            label=reader.read_label,
            with_label=True,
        )
        labels = [example.label for example in examples]
        answers = sum(len(label.texts) for label in labels)
        misplaced = sum(len(label.misplaced) for label in labels)
        found[part] = (
            answers,
            misplaced,
            sum(label.is_not_in_context for label in labels),
        )
    assert found == {"dev": (9657, 200, 0), "trial": (1002, 5, 0)}
