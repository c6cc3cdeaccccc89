"""Thirty faults in three copies of real questions: each is found at its place."""

import json
import random
import re

import pytest

from bert_mgpu.cli.doctor import task_data
from bert_mgpu.tasks import reader as rows_reader
from bert_mgpu.tasks.data_checks import CheckedSet
from bert_mgpu.tasks.span_qa import dataset, files, question_checks, reader
from bert_mgpu.text.tokenization import Tokenizer
from tests.support import questions
from tests.support.paths import DATA
from tests.support.runs import assert_refused

pytestmark = pytest.mark.skipif(
    not DATA.is_dir(), reason="the folder ../shared with data and models is absent"
)
COUNT = 10  # faults of a copy


def copied():
    """cmrc2018 trial without the five answers that are not at their place."""
    with open(DATA / "cmrc2018" / "cmrc2018_trial.json", encoding="utf-8") as file:
        value = json.load(file)
    for paragraph in (p for entry in value["data"] for p in entry["paragraphs"]):
        paragraph["qas"] = [
            question
            for question in paragraph["qas"]
            if all(
                paragraph["context"].startswith(a["text"], a["answer_start"])
                for a in question["answers"]
            )
        ]
    return value


def questions_of(value):
    return [
        (paragraph, question)
        for entry in value["data"]
        for paragraph in entry["paragraphs"]
        for question in paragraph["qas"]
    ]


def answer(key, value):
    def plant(paragraph, question):
        question["answers"][0][key] = value

    return plant


def own(**changed):
    def plant(paragraph, question):
        question.update(changed)

    return plant


def moved(by):
    def plant(paragraph, question):
        question["answers"][0]["answer_start"] += by

    return plant


# name: (how it is planted, what the message says)
REFUSED = {
    "an offset as text": (answer("answer_start", "12"), "answer_start is '12'"),
    "an offset as a fraction": (answer("answer_start", 1.5), "answer_start is 1.5"),
    "an answer of numbers": (answer("text", 7), "the answer is 7"),
    "an empty answer": (answer("text", ""), "the answer '' is empty"),
    "a blank answer": (answer("text", " \t"), "is empty"),
    "no answers": (own(answers=[]), "a question without an answer needs"),
    "answers of null": (own(answers=[None]), "the answer is None"),
    "impossible with answers": (own(is_impossible=True), "is_impossible is true, but"),
    "impossible as text": (own(is_impossible="no"), "is_impossible is 'no'"),
    "two lists of other lengths": (
        own(answers={"text": ["a"], "answer_start": []}),
        "1 texts and 0 starts",
    ),
}
MISPLACED = {
    "one behind": (moved(1), "off by one"),
    "one before": (moved(-1), "off by one"),
    "three behind": (moved(3), ", but at "),
    "at none": (answer("answer_start", -1), "is not at -1"),
    "far behind": (answer("answer_start", 10**9), "is not at 1000000000"),
    "a text of another context": (answer("text", "xyzzy"), "nor elsewhere"),
    "a text with a blank more": (answer("text", "x y z z y"), "nor elsewhere"),
    "another case": (answer("text", "XYZZY"), "nor elsewhere"),
    "with its question": (answer("text", "答案是什么呢"), "nor elsewhere"),
    "an accent more": (answer("text", "x\u0301y"), "nor elsewhere"),
}


def planted(value, faults, seed):
    """The ids of the questions that got each fault, and its words."""
    pairs = questions_of(value)
    found = []
    chosen = random.Random(seed).sample(range(50, len(pairs)), len(faults))
    for number, (plant, words) in zip(sorted(chosen), faults.values(), strict=True):
        paragraph, question = pairs[number]
        plant(paragraph, question)
        found.append((question["id"], words))
    return found


def line_of(lines, name):
    return next(i for i, text in enumerate(lines, 1) if f'"{name}"' in text)


@pytest.mark.parametrize("form", ["squad", "jsonl"])
def test_every_planted_fault_is_found(tiny, tmp_path, inside, form):
    """By a training, which does not begin."""
    value = copied()
    found = planted(value, REFUSED, form)
    path = tmp_path / f"train.{'json' if form == 'squad' else form}"
    if form == "squad":
        path.write_text(json.dumps(value, ensure_ascii=False, indent=1))
    else:
        # Lines have no is_impossible: there answers say it.
        for _, question in questions_of(value):
            question["answers"] = (
                {"x": 1} if "is_impossible" in question else question["answers"]
            )
        found = [
            (name, "lists 'text' and" if "is_impossible" in words else words)
            for name, words in found
        ]
        records = [
            {"context": paragraph["context"], **question}
            for paragraph, question in questions_of(value)
        ]
        text = "".join(json.dumps(r, ensure_ascii=False) + "\n" for r in records)
        path.write_text(text)
    task = {"type": "qa", "train": path.name, "dev": path.name}
    (tmp_path / "task.json").write_text(json.dumps(task))
    out = tmp_path / "out"
    flags = {"data_dir": tmp_path, "do_train": True, "init_checkpoint": None}
    result = inside(tiny.flags(out, "mine", **flags))
    assert_refused(result, f"(the first of {COUNT} faults, see above)")
    shown = [line for line in result[2].splitlines() if f"{path}:" in line]
    lines = path.read_text().splitlines()
    assert len(found) == len(shown) == COUNT
    for name, words in found:
        at = f"{path}:{line_of(lines, name)}: "
        assert [line for line in shown if at in line and words in line], (at, words)
    assert not [*out.glob("model.ckpt*")] and "training:" not in result[2]


def test_every_misplaced_answer_is_named(tmp_path):
    """With file, line and id; the training goes on without those that are lost."""
    value = copied()
    found = planted(value, MISPLACED, 3)
    path = tmp_path / "train.json"
    path.write_text(json.dumps(value, ensure_ascii=False, indent=1))
    examples = rows_reader.read_examples(
        files.BUILTIN["squad"],
        path,
        "train",
        label=reader.read_label,
        with_label=True,
    )
    tokenizer = Tokenizer(DATA / "vocab" / "chinese_vocab.txt")
    flags = {"max_seq_length": 384, "doc_stride": 128, "max_query_length": 64}
    rows = dataset.featurise(examples, tokenizer, **flags)
    assert rows.notes["misplaced"] == COUNT and rows.notes["lost"] == 5
    checked = CheckedSet("train", str(path), rows, unknown=tokenizer.unk_id)
    shown = [*question_checks.warnings(checked)]
    lines = path.read_text().splitlines()
    for name, words in found:
        at = f"{path}:{line_of(lines, name)}: {name}: "
        assert [line for line in shown if line.startswith(at) and words in line], at


def test_the_doctor_tells_of_rows_that_can_be_read(tmp_path, capsys):
    """Long answers, cut questions and a context of both sets; then an id twice."""
    value = copied()
    train, dev = {"data": value["data"][:60]}, {"data": value["data"][60:80]}
    asked = questions_of(train)
    for _, question in asked[10:40]:
        question["question"] *= 9
    shared = json.loads(json.dumps(train["data"][0]))
    dev["data"].append(shared)
    for _, question in questions_of({"data": [shared]}):
        question["id"] += "x"
    folder = questions.write(tmp_path / "squad", "squad", {"train": train, "dev": dev})
    flags = {"data_dir": folder, "task_name": "squad", "max_seq_length": 128}
    flags["vocab_file"] = DATA / "vocab" / "chinese_vocab.txt"

    def said(**changed):
        given = [f"--{name}={value}" for name, value in (flags | changed).items()]
        code, shown = task_data.main(given), capsys.readouterr()
        return code, " ".join((shown.out + shown.err).split())

    code, text = said(doc_stride=64)
    assert code == 0
    path, other = folder / "train-v1.1.json", folder / "dev-v1.1.json"
    assert f"{path}: {30 / len(asked):.0%} of the questions are cut: raise" in text
    assert re.search(
        r"3\d\.\d% of the answers have more tokens than --max_answer", text
    )
    assert "contexts that are in train, too - 1 " in text
    assert re.search(f"{re.escape(str(other))}:.* rows .* with the text of a row", text)
    code, text = said(doc_stride=126)
    assert code == 2 and "--doc_stride=126: a row has 125 tokens" in text
    code, text = said(max_seq_length=4)
    assert code == 2 and "--max_seq_length=4: a row has no room" in text
    record = json.dumps({"id": "a", "question": "b", "context": "c"})
    (tmp_path / "new.jsonl").write_text(f"{record}\n{record}\n")
    code, text = said(predict_file=tmp_path / "new.jsonl")
    assert code == 2 and f"{tmp_path / 'new.jsonl'}:2: the id 'a' is" in text
    first, second = asked[3][1], asked[90][1]
    second["id"] = first["id"]
    questions.write(folder, "squad", {"train": train})
    code, text = said()
    assert code == 2 and f"{path}:" in text and first["id"] in text
