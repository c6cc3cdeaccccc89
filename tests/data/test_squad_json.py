"""Questions of JSON files: their forms, their lines, and what is wrong with them."""

import json

import pytest

from bert_mgpu.data import squad_json, tables
from bert_mgpu.data.squad_json import COLUMNS

FORM = tables.TableFormat("squad")


def question(name, **more):
    return {"id": name, "question": f"who {name}?", "answers": [], **more}


def nested(*paragraphs):
    return {"data": [{"title": "x", "paragraphs": [*paragraphs]}]}


def paragraph(*questions, context="sun joy"):
    return {"context": context, "qas": [*questions]}


def read(path, text, names=COLUMNS, id_may_lack=False):
    """The rows of a file of this text, and the faults."""
    path.write_text(text if isinstance(text, str) else json.dumps(text, indent=1))
    faults = []
    rows = tables.rows(
        path,
        FORM,
        names,
        id_at=3,
        id_may_lack=id_may_lack,
        nested_at=2,
        faults=lambda line, fault: faults.append((line, fault.partition(": ")[2])),
    )
    return [*rows], faults


def test_each_question_has_the_line_of_its_id(tmp_path):
    value = nested(paragraph(question("a"), question("é")), paragraph(question(7)))
    rows, faults = read(tmp_path / "x.json", value)
    lines = (tmp_path / "x.json").read_text().splitlines()
    assert not faults and [cells[3] for _, cells in rows] == ["a", "é", 7]
    for (line, cells), place in zip(
        rows,
        ("paragraphs[0].qas[0]", "paragraphs[0].qas[1]", "paragraphs[1].qas[0]"),
        strict=True,
    ):
        assert json.dumps(cells[3]) in lines[line - 1]
        assert cells[1] == "sun joy" and cells[2]["place"] == f"data[0].{place}"
    rows, _ = read(tmp_path / "x.json", json.dumps(value, ensure_ascii=False))
    assert [line for line, _ in rows] == [1, 1, 1]


def test_cmrcs_own_form(tmp_path):
    own = {"query_id": "Q", "query_text": "who?", "answers": ["joy", "sun"]}
    value = [{"context_id": "C", "context_text": "sun joy", "qas": [own]}]
    rows, faults = read(tmp_path / "x.json", value)
    assert not faults
    assert rows[0][1] == [
        *("who?", "sun joy"),
        {"answers": ["joy", "sun"], "place": "[0].qas[0]"},
        "Q",
    ]


def test_the_form_of_transformers(tmp_path):
    """run_qa.py reads a list of questions, each with its context, under "data"."""
    answers = {"text": ["joy"], "answer_start": [4]}
    own = {"id": "a", "question": "who?", "context": "sun joy", "answers": answers}
    rows, faults = read(tmp_path / "x.json", {"version": "1", "data": [own]})
    assert not faults and rows[0][1] == [
        *("who?", "sun joy", {"answers": answers, "place": "data[0]"}, "a")
    ]


def test_questions_without_ids(tmp_path):
    """May be answered; whether they have to have one the labels' reader says."""
    bare = {"question": "who?", "answers": []}
    rows, faults = read(tmp_path / "x.json", nested(paragraph(bare, question("b"))))
    assert not faults and [cells[3] for _, cells in rows] == ["", "b"]


@pytest.mark.parametrize("ascii_only", [True, False])
def test_ids_are_found_among_other_ids(tmp_path, ascii_only):
    """Of articles and answers, as some files have them; escaped or not."""
    names = ["a", 'q"\\"', "é\n", 7, -3, "b"]
    answers = [{"text": "joy", "answer_start": 4, "id": "x"}]
    value = nested(paragraph(*(question(name, answers=answers) for name in names)))
    value["data"].insert(0, {"id": "b", "paragraphs": []})
    text = json.dumps(value, indent=1, ensure_ascii=ascii_only)
    rows, faults = read(tmp_path / "x.json", text)
    assert not faults and [cells[3] for _, cells in rows] == names
    lines = text.splitlines()
    shown = [json.dumps(name, ensure_ascii=ascii_only) for name in names]
    assert [lines[line - 1].strip() for line, _ in rows] == [
        f'"id": {name},' for name in shown
    ]
    assert rows[-1][0] == max(line for line, _ in rows)


def test_no_pattern_is_compiled_for_each_question(monkeypatch):
    """Which made a file of many lines ten times as slow to read."""
    text = json.dumps(nested(paragraph(question("a"), question("b"))), indent=1)
    monkeypatch.setattr(squad_json.re, "compile", None)
    found = [*squad_json.questions(text)]
    monkeypatch.undo()
    assert [cells["id"] for _, cells in found] == ["a", "b"]


def test_ids_that_are_numbers(tmp_path):
    """Which stand elsewhere in the file, too."""
    context = paragraph(question(1), question(10), context="1 of 10 suns")
    value = {"version": 1, "data": [{"title": "1", "paragraphs": [context]}]}
    rows, _ = read(tmp_path / "x.json", value)
    lines = (tmp_path / "x.json").read_text().splitlines()
    assert [lines[line - 1].strip() for line, _ in rows] == ['"id": 1,', '"id": 10,']
    twice = nested(paragraph(question(1), question("1")))
    rows, faults = read(tmp_path / "x.json", json.dumps(twice))
    assert len(rows) == 1 and "is that of" in faults[0][1]


def test_a_file_of_json_objects_is_read_as_such(tmp_path):
    records = [
        {"id": str(i), "question": "who?", "context": "c", "answers": ["c"]}
        for i in range(3)
    ]
    lines = "".join(json.dumps(record) + "\n" for record in records)
    for text in (lines, json.dumps(records, indent=1)):
        rows, faults = read(tmp_path / "x.json", text)
        assert not faults and [cells[3] for _, cells in rows] == ["0", "1", "2"]


@pytest.mark.parametrize("indent", [None, 1])
def test_objects_to_answer_may_lack_an_id(tmp_path, indent):
    """Those with answers to learn or to compare may not."""
    record = {"question": "who?", "context": "c"}
    lines = "".join(
        json.dumps(one, indent=indent) + "\n" for one in (record, {**record, "id": 3})
    )
    to_answer = ("question", "context", None, "id")
    rows, faults = read(tmp_path / "x.json", lines, to_answer, id_may_lack=True)
    assert not faults and [cells[3] for _, cells in rows] == ["", 3]
    rows, faults = read(tmp_path / "x.json", lines.replace('"c"', '"c", "answers": []'))
    assert len(rows) == 1 and len(faults) == 1
    assert (
        faults[0][1].startswith("no column 'id'") and "one of its own" in faults[0][1]
    )


FAULTS = {
    "cut off": (json.dumps(nested(paragraph(question("a"))))[:-9], "not a JSON file"),
    "nested deep": ('{"data": ' + "[" * 100_000, "nested too deep"),
    "a key twice": ('{"data": [], "data": []}', "'data' appears 2 times"),
    "no list": ({"data": {}}, "data: {}, where a list is needed"),
    "no object": (nested(3), "data[0].paragraphs[0]: 3, where an object"),
    "no context": (
        nested({"qas": [question("a")]}),
        "data[0].paragraphs[0]: there is no 'context'",
    ),
    "no questions": (
        nested({"context": "c"}),
        "data[0].paragraphs[0].qas: None, where a list is needed",
    ),
    "a context that is none": (
        nested(paragraph(question("a"), context=5)),
        "'context' is 5: a text is needed",
    ),
    "an id that is none": (nested(paragraph(question(None))), "'id' is None"),
    "an id twice": (
        nested(paragraph(question("a"), question("b")), paragraph(question("a"))),
        "data[0].paragraphs[1].qas[0]: the id 'a' is that of"
        " data[0].paragraphs[0].qas[0], too",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_faults_have_their_place(tmp_path, name):
    text, wanted = FAULTS[name]
    _, faults = read(tmp_path / "x.json", text)
    assert len(faults) == 1 and wanted in faults[0][1], faults


def test_a_column_of_another_name_is_refused(tmp_path):
    from bert_mgpu.core.errors import UserError

    with pytest.raises(UserError, match="no column 'q' .there are 'question', 'con"):
        read(tmp_path / "x.json", nested(), ["q", "context"])
