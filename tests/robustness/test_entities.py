"""Damaged and hostile files of entities: one line, its place, and nothing changed."""

import gzip
import json

import pytest

from bert_mgpu.core import text_files
from tests.support.hostile_rows import bomb, check

WORDS = b"sun O\njoy B-A\n\n"
SPAN = b'{"text": "sun joy", "label": [[0, 3, "A"]]}\n'
DEEP = b"[" * 100_000 + b"]" * 100_000
LONG = text_files.LONGEST_LINE + 1


def labelled(label, text="sun joy"):
    return SPAN + json.dumps({"text": text, "label": label}).encode() + b"\n"


# name: (name of the train file, its bytes, what the error says)
CONLL = {
    "orphan": ("a.txt", WORDS + b"win I-A\n", "a.txt:4: 'I-A' without a B-A before it"),
    "other type": ("a.txt", b"sun B-A\njoy I-B\n", "a.txt:2: 'I-B' after 'B-A'"),
    "orphan E": ("a.txt", b"sun E-A\n", "a.txt:1: 'E-A' without a B-A before it"),
    "no E": ("a.txt", b"sun S-A\n\njoy B-A\nwin O\n", "a.txt:3: 'B-A' has no E-A"),
    "zero": ("a.txt", WORDS + b"win 0\n", "a.txt:4: '0' (zero) where 'O' is meant"),
    "unknown": ("a.txt", WORDS + b"win X-A\n", "a.txt:4: 'X-A' is not a tag of BIO"),
    "no prefix": ("a.txt", WORDS + b"win LOC\n", "a.txt:4: 'LOC' is not a tag"),
    "no type": ("a.txt", WORDS + b"win B-\n", "a.txt:4: 'B-' is not a tag of BIO"),
    "one column": ("a.txt", WORDS + b"win\n", "a.txt:4: 1 column, but 2 are needed"),
    "commas": ("a.txt", WORDS + b"win,O\n", "a.txt:4: 1 column", "not commas"),
    "word and tag swapped": ("a.txt", b"O sun\nB-A joy\n", "a.txt:1: 'sun'", "columns"),
    "an empty word": ("a.txt", WORDS + b"\tO\n", "a.txt:4: the word is empty"),
    "an empty tag": ("a.txt", WORDS + b"win\t\n", "a.txt:4: '' is not a tag"),
    "colour codes": ("a.txt", WORDS + b"win \x1b[31mO\n", "a.txt:4: ", "is not a tag"),
    "a long tag": ("a.txt", b"sun " + b"B" * 10**6 + b"\n", "a.txt:1: ", "not a tag"),
    "nothing": ("a.txt", b"", "a.txt: no rows for the task own"),
    "blank lines": ("a.txt", b"\n \n\t\n" * 99, "a.txt: no rows for the task own"),
    "documents alone": ("a.txt", b"-DOCSTART- O\n\n" * 9, "a.txt: no rows"),
    "no entity": ("a.txt", b"sun O\n\n" * 9, "a.txt: no entity in any row: nothing"),
    "NUL": ("a.txt", WORDS + b"w\0n O\n", "a.txt:4: NUL byte at column 2"),
    "utf-16": ("a.txt", "sun O\n".encode("utf-16"), "a.txt:1: not UTF-8 but UTF-16"),
    "gb18030": ("a.txt", WORDS + "新闻 O\n".encode("gbk"), "a.txt:4: not UTF-8"),
    "CR alone": ("a.txt", b"sun O\rjoy B-A\r", "a.txt:1: its lines end in CR alone"),
    "a long line": ("a.txt", b"s" * LONG, "a.txt:1: more than 16777216 bytes"),
    "a bomb": ("a.txt.gz", bomb(), "a.txt.gz:1: more than 16777216 bytes"),
    "cut": ("a.txt.gz", gzip.compress(WORDS * 99)[:-9], "a.txt.gz: damaged or cut"),
    "many faults": ("a.txt", b"sun I-A\n\n" * 2000, "a.txt:1: ", "more than 1000"),
    "one long sentence": ("a.txt", b"sun I-A\njoy X\n" * 9999, "a.txt:1: 'I-A'"),
}
JSON = {
    "outside": ("a.json", labelled([[0, 99, "A"]]), "a.json:2: the span 0 to 99 (A)"),
    "huge": ("a.json", labelled([[0, 10**30, "A"]]), "a.json:2: the span 0 to 1000"),
    "backwards": ("a.json", labelled([[3, 0, "A"]]), "a.json:2: ", "is empty"),
    "a blank": ("a.json", labelled([[3, 7, "A"]]), "a.json:2: ", "a blank at an end"),
    "overlap": ("a.json", labelled([[0, 3, "A"], [1, 7, "B"]]), ":2: ", "crosses"),
    "fractions": ("a.json", labelled([[0.0, 3.0, "A"]]), "a.json:2: ", "is no span"),
    "texts": ("a.json", labelled([["0", "3", "A"]]), "a.json:2: ", "is no span"),
    "a number": ("a.json", labelled(7), "a.json:2: '7' is no span"),
    "null": ("a.json", labelled(None), "a.json:2: None is no span: write [start"),
    "no mention": ("a.json", labelled({"A": {"rain": [[0, 2]]}}), "not 'rain'"),
    "no places": ("a.json", labelled({"A": ["sun"]}), "a.json:2: ['sun'] is no span"),
    "a type with a line": ("a.json", labelled([[0, 3, "A\nB"]]), "is no type"),
    "half a character": ("a.json", SPAN + b'{"text": "\\ud83d", "label": []}\n',
                         "a.json:2: column 'text' contains an unpaired surrogate"),
    "half in a type": ("a.json", SPAN + b'{"text": "a", "label": [[0, 1, "\\ud83d"]]}',
                       "a.json:2: ", "is no type"),
    "a number of words": ("a.json", labelled(["O"], ["sun", "joy"]), "2 words and 1"),
    "a line break": ("a.json", labelled(["O"], ["a\nb"]), "a.json:2: word 1: the word"),
    "tags of a text": ("a.json", labelled(["O", "O"]), "a.json:2: 'O' is no span"),
    "deep": ("a.json", SPAN + DEEP, "a.json:2: not a JSON object"),
    "a deep label": ("a.json", b'{"text": "a", "label": ' + DEEP + b"}", "not a JSON"),
    "not closed": ("a.json", SPAN + b'{\n"text": "a",\n', "a.json:2: not a JSON"),
    "a key twice": ("a.json", b'{"text": "a", "text": "b", "label": []}', "2 times"),
    "no label": ("a.json", SPAN + b'{"text": "a"}\n', "a.json:2: no column 'label'"),
    "no entity": ("a.json", labelled([])[len(SPAN) :], "no entity in any row"),
}  # fmt: skip


@pytest.mark.parametrize("file", CONLL.values(), ids=CONLL)
def test_conll(tmp_path, tiny, inside, file):
    check(tmp_path, tiny, inside, file, {"type": "tags"})


@pytest.mark.parametrize("file", JSON.values(), ids=JSON)
def test_spans(tmp_path, tiny, inside, file):
    check(tmp_path, tiny, inside, file, {"type": "tags"})


SETTINGS = {
    "a pattern that never ends": ({"token_pattern": "(a|a)*$" * 9}, "9 groups"),
    "a pattern of a list": ({"token_pattern": ["(a)"]}, "must be of type str"),
    "a scheme of another": ({"scheme": "bilou"}, "pass one of bio, bioes, iob1"),
    "types that are tags": ({"labels": ["B-A", 7]}, "must be a list of strings"),
    "no types": ({"labels": [""]}, "must be a list of strings, not empty"),
    "a column by its name": ({"label": "tag"}, "column 'tag': columns of a CoNLL"),
}


@pytest.mark.parametrize("name", [*SETTINGS])
def test_settings(tmp_path, tiny, inside, name):
    keys, fragment = SETTINGS[name]
    check(tmp_path, tiny, inside, ("a.txt", WORDS, fragment), {"type": "tags"}, **keys)
