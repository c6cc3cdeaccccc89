"""JSON objects on one line each, or pretty-printed."""

import json

import pytest

from bert_mgpu.data.json_lines import objects

RECORDS = [{"a": "sun", "b": {"c": [1, [2]]}}, {"a": "}\n{"}, {}, {"a": ["]", "["]}]


def read(text):
    return [*objects(enumerate(text.split("\n"), 1))]


@pytest.mark.parametrize("indent", [None, 1, 2, "\t"])
def test_one_after_the_other(indent):
    texts = [json.dumps(record, indent=indent) for record in RECORDS]
    found = read("\n".join(texts))
    assert [json.loads(text) for _, text in found] == RECORDS
    lines = [1 + sum(t.count("\n") + 1 for t in texts[:i]) for i in range(4)]
    assert [line for line, _ in found] == lines


def test_a_list_of_them():
    found = read(json.dumps(RECORDS, indent=2))
    assert [json.loads(text) for _, text in found] == RECORDS
    assert [line for line, _ in found][:2] == [2, 13]


def test_blank_lines_and_lines_that_are_no_object():
    assert read('\n{"a": 1}\n{broken\n') == [
        (1, ""),
        (2, '{"a": 1}'),
        (3, "{broken"),
        (4, ""),
    ]


def test_one_that_does_not_end_is_one_fault():
    assert read('{\n"a": 1\n') == [(1, '{\n"a": 1\n')]
