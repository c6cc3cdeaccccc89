"""Entities of rows: real files as they lie, and every fault with its place."""

import json

import pytest

from bert_mgpu.data import tables
from bert_mgpu.tasks import reader as files_reader
from bert_mgpu.tasks.files import Columns, TableColumns, TaskFiles
from bert_mgpu.tasks.tagging import files, reader, spans
from bert_mgpu.tasks.tagging.bio import Span
from tests.support.entities import Counted
from tests.support.paths import DATA

needs_data = pytest.mark.skipif(
    not DATA.is_dir(), reason="the data folder ../shared/data is absent"
)
WEIBO = DATA / "weibo_ner"
NAMES = {"conll": (0, -1), "jsonl": ("text", "label")}


def read(path, form, types=(), **options):
    """(examples, faults) of a file."""
    table = TableColumns(tables.TableFormat(form), NAMES[form])
    columns = files.columns(Columns(0, label=1, table=table), options)
    task = TaskFiles("ner", types, path, None, None, columns=columns, options=options)
    faults = []
    examples = files_reader.read_examples(
        task,
        path,
        "train",
        label=reader.read_label,
        with_label=True,
        faults=lambda line, fault: faults.append((line, fault.split(": ", 1)[1])),
        complete=lambda *given, faults: reader.complete(*given, task, faults=faults),
    )
    return examples, faults


def written(tmp_path, text):
    path = tmp_path / "train"
    path.write_text(text)
    return path


@needs_data
@pytest.mark.parametrize(
    ("split", "lines", "sentences", "entities"),
    [
        ("train", [1266, 22000, 24537, 28617, 35046, 35119, 49249, 62980, 62990, 69376],
         1350, 1895),
        ("dev", [], 270, 389),
        ("test", [4450, 5021, 10279, 14155], 270, 418),
    ],
)  # fmt: skip
def test_weibo_as_it_lies(split, lines, sentences, entities):
    """Its orphans are found; repaired, every sentence has its words."""
    path, pattern = WEIBO / f"weiboNER_2nd_conll.{split}", "(.+)[0-9]"
    _, faults = read(path, "conll", token_pattern=pattern)
    assert [line for line, _ in faults] == lines
    for repair in ("begin", "outside"):
        examples, faults = read(path, "conll", token_pattern=pattern, repair_bio=repair)
        assert faults == [] and len(examples) == sentences
        assert sum(one.label.repaired for one in examples) >= len(lines)
        found = sum(len(one.label.spans) for one in examples)
        assert found == entities if repair == "begin" else found <= entities
    with path.open(encoding="utf-8") as file:
        words = [line.split("\t")[0][:-1] for line in file if line.strip()]
    read_words = [one.text_a[start:end] for one in examples for start, end in one.words]
    assert read_words == words


@needs_data
@pytest.mark.parametrize(
    ("split", "texts", "entities", "overlaps"),
    [("train", 10748, 23971, 2), ("dev", 1343, 3072, 0)],
)
def test_cluener_as_it_lies(split, texts, entities, overlaps):
    """Pretty-printed JSON. One book's title holds the names of two companies."""
    path = DATA / "cluener" / f"{split}.json"
    _, faults = read(path, "jsonl")
    assert len(faults) == overlaps
    assert all("lies in 15 to 35 (book)" in fault for _, fault in faults)
    examples, faults = read(path, "jsonl", repair_bio="begin")
    assert (len(examples), faults) == (texts, [])
    assert sum(len(one.label.spans) for one in examples) == entities - overlaps
    decoder, position = json.JSONDecoder(), 0
    content = path.read_text(encoding="utf-8")
    for example in examples[:500]:
        record, position = decoder.raw_decode(content, position)
        position = content.find("{", position)
        mentions = {
            (start, last + 1, kind): mention
            for kind, own in record["label"].items()
            for mention, places in own.items()
            for start, last in places
        }
        for span in example.label.spans:
            assert example.text_a[span.start : span.end] == mentions[tuple(span)]


SINGLE = (
    "'B-X' has no E-X after it: write S-X for one unit alone: --repair_bio lets the"
    " entity end there; the file is read as BIOES, for 'E-X' in line 5:"
    " --file_scheme=bio where it is BIO"
)
TAGS = {  # the lines of a file: lines of faults, and words of the first
    "orphan": ("a O\nb I-X\n", [2], "'I-X' without a B-X before it: --repair_bio="),
    "type": ("a B-X\nb I-Y\n", [2], "'I-Y' after 'B-X': the type changes inside"),
    "zero": ("a O\nb 0\n", [2], "'0' (zero) where 'O' is meant"),
    "unknown": ("a O\n\nb Q-X\n\nc O\n", [3], "'Q-X' is not a tag of BIO: write O"),
    "columns": ("a O\nb\nc O\n\nd\n", [2, 5], "1 column, but 2 are needed"),
    "empty": ("a\tO\n\tO\n", [2], "the word is empty"),
    "no E": ("a B-X\nb O\n\nc B-X\nd E-X\n", [1], SINGLE),
}


@pytest.mark.parametrize("name", [*TAGS])
def test_faults_of_tags(tmp_path, name):
    text, lines, words = TAGS[name]
    path = written(tmp_path, f"{text}\n\ngood O\n")
    examples, faults = read(path, "conll")
    assert [line for line, _ in faults] == lines
    assert faults[0][1].startswith(words)
    assert "good" in [one.text_a for one in examples]


SPANS = {  # a label of the text "In New York": words of the fault, whether it is mended
    "outside": ([[3, 12, "LOC"]], "the span 3 to 12 (LOC) is outside of the text"),
    "negative": ([[-1, 2, "LOC"]], "the span -1 to 2 (LOC) is outside of the text"),
    "empty": ([[3, 3, "LOC"]], "the span 3 to 3 (LOC) is empty: its end is excluded"),
    "blank": ([[2, 6, "LOC"]], "the span 2 to 6 (LOC) is ' New', with a blank at an"),
    "crossing": ([[0, 6, "A"], [3, 11, "B"]], "the span 0 to 6 (A) crosses 3 to 11"),
    "inside": ([[3, 11, "A"], [3, 6, "B"]], "the span 3 to 6 (B) lies in 3 to 11 (A)"),
    "twice": ([[3, 11, "A"], [3, 11, "B"]], "the span 3 to 11 (B) lies in 3 to 11"),
    "off by one": ({"LOC": {"New York": [[4, 11]]}}, "the span 4 to 12 (LOC) is outs"),
    "mention": ({"LOC": {"New York": [[2, 9]]}}, "the span 2 to 10 (LOC) is ' New Yor"
                "', not 'New York': off by 1"),
    "excluded": ({"LOC": {"New": [[3, 6]]}}, "the span 3 to 7 (LOC) is 'New ', not"),
    "mention of an object": ([{"start": 4, "end": 8, "type": "LOC", "text": "New"}],
             "the span 4 to 8 (LOC) is 'ew Y', not 'New': off by 1: write [3, 6]"),
    "another": ({"LOC": {"Paris": [[3, 7]]}}, "the span 3 to 8 (LOC) is 'New Y', not"),
    "no type": ([[3, 6, ""]], "'' is no type: write a name without blanks"),
    "type of two words": ([[3, 6, "a b"]], "'a b' is no type"),
    "number": ([[3, 6, 7]], "7 is no type"),
    "text": ("LOC", "'LOC' is no span: write [start, end, type], end excluded"),
    "two numbers": ([[3, 6]], "[3, 6] is no span"),
    "texts": ([["3", "6", "LOC"]], "['3', '6', 'LOC'] is no span"),
    "truth": ([[True, 6, "LOC"]], "[True, 6, 'LOC'] is no span"),
    "nothing": (None, "None is no span"),
    "no places": ({"LOC": ["New York"]}, "['New York'] is no span"),
}  # fmt: skip


@pytest.mark.parametrize("name", [*SPANS])
def test_faults_of_spans(tmp_path, name):
    label, words = SPANS[name]
    rows = [{"text": "ok", "label": []}, {"text": "In New York", "label": label}]
    path = written(tmp_path, "".join(f"{json.dumps(row)}\n" for row in rows))
    examples, faults = read(path, "jsonl")
    assert [line for line, _ in faults] == [2] and len(examples) == 1
    assert faults[0][1].startswith(words)


def test_an_empty_mention_gets_no_advice():
    """It stands nowhere, so no place is right."""
    given = spans.Given(0, 2, "A", mention="", ends=1)
    assert spans.fault("EU says", given) == "the span 0 to 2 (A) is 'EU', not ''"


FORMS = [
    [[3, 11, "LOC"]],
    [{"start": 3, "end": 11, "type": "LOC"}],
    [{"start_offset": 3, "end_offset": 11, "label": "LOC", "id": 7}],
    [{"start": 3, "end": 11, "type": "LOC", "text": "New York"}],
    {"LOC": {"New York": [[3, 10]]}},
    [[3, 11, "LOC"], [3, 11, "LOC"]],
]


@pytest.mark.parametrize("label", FORMS)
def test_forms_of_spans(tmp_path, label):
    path = written(tmp_path, json.dumps({"text": "In New York", "label": label}))
    (example,), faults = read(path, "jsonl")
    assert faults == [] and example.label.spans == (Span(3, 11, "LOC"),)
    assert example.words is None
    assert spans.fault("In New York", spans.Given(3, 11, "LOC")) is None


def test_lists_of_words_and_tags(tmp_path):
    rows = [
        {"text": ["In", "New", "York"], "label": ["O", "B-LOC", "I-LOC"]},
        {"text": ["In", "York"], "label": ["O"]},
        {"text": ["In"], "label": [["O"]]},
        {"text": ["York"], "label": "B-LOC"},
    ]
    path = written(tmp_path, "".join(f"{json.dumps(row)}\n" for row in rows))
    (example,), faults = read(path, "jsonl")
    assert example.text_a == "In New York" and example.label.spans == (
        Span(3, 11, "LOC"),
    )
    assert [fault.split(":")[0] for _, fault in faults] == [
        "2 words and 1 tag",
        "['O'] is not a tag",
        "the words have the label 'B-LOC'",
    ]


def test_types_that_the_model_does_not_have(tmp_path):
    path = written(tmp_path, "a B-LOC\nb O\n\nc B-PER\n")
    for types in (("LOC", "ORG"), ("O", "B-LOC", "I-LOC", "B-ORG", "I-ORG")):
        _, faults = read(path, "conll", types)
        assert faults == [(4, "the type 'PER' is not one of LOC, ORG")]


def test_repairs_are_counted(tmp_path):
    path = written(tmp_path, "a I-X\nb I-Y\n\nc O\n")
    examples, faults = read(path, "conll", repair_bio="begin")
    assert faults == [] and [one.label.repaired for one in examples] == [2, 0]
    assert examples[0].label.spans == (Span(0, 1, "X"), Span(2, 3, "Y"))
    examples, _ = read(path, "conll", repair_bio="outside")
    assert examples[0].label.spans == ()


def test_what_is_no_tag_is_not_repaired(tmp_path):
    path = written(tmp_path, "a Q-X\nb I-X\n\nc O\n")
    _, faults = read(path, "conll", repair_bio="begin")
    assert [line for line, _ in faults] == [1]


def test_a_stray_letter_is_named(tmp_path):
    """By it a file of BIO would be one of BIOES, with a fault in every entity."""
    path = written(tmp_path, "a B-X\nb I-X\nc O\n\nd B-X\n\ne O\nf S-X\n")
    _, faults = read(path, "conll")
    assert [line for line, _ in faults] == [2, 5]
    assert "read as BIOES, for 'S-X' in line 8: --file_scheme=bio" in faults[0][1]
    assert "read as" not in faults[1][1]
    _, faults = read(path, "conll", scheme="bio")
    assert [line for line, _ in faults] == [8]
    _, faults = read(path, "conll", scheme="bioes")
    assert len(faults) == 2 and "read as" not in faults[0][1]


def test_iob1_where_it_is_said(tmp_path):
    path = written(tmp_path, "a I-X\nb B-X\nc I-X\n\nd O\n")
    assert len(read(path, "conll")[1]) == 1
    (example, _), faults = read(path, "conll", scheme="iob1")
    assert faults == [] and example.label.spans == (Span(0, 1, "X"), Span(2, 5, "X"))


def test_spans_are_compared_with_their_neighbours_alone():
    """Checking them takes time in proportion to their number."""
    Counted.reads = 0
    many = [Counted(10 * i, 10 * i + 3, "A") for i in range(500)]
    kept, faults = spans.apart([*many, Span(1, 2, "B"), Span(12, 22, "C")])
    assert kept == [many[0], Span(12, 22, "C"), *many[3:]]
    assert [fault.split(") ")[0] + ")" for fault in faults] == [
        "the span 10 to 13 (A)",
        "the span 20 to 23 (A)",
        "the span 1 to 2 (B)",
    ]
    assert Counted.reads < 5000  # 125,000 if each is compared with each
