"""Signs of print in rows of a file: only those of texts are written plainly."""

import json

import pytest

from bert_mgpu.cli.doctor.plain_signs import PlainSigns
from bert_mgpu.data.tables import TableFormat
from bert_mgpu.tasks.files import Columns, TableColumns

PLAIN = {"“": '"', "”": '"', "…": "..."}


def signs(kind, names, *, with_label=False, header=True):
    form = TableFormat(kind, header=header)
    columns = Columns(0, label=1, table=TableColumns(form, names))
    return PlainSigns(PLAIN, columns, kind, with_label=with_label)


def test_the_objects_of_a_list_keep_what_stands_around_them():
    own = signs("jsonl", ("text", "label"))
    first = json.dumps({"text": "“a”", "label": "“", "other": "”"})
    rows = ["[\n", f"  {first},\n", '{"text": "b"},\n', '{"text": "…"}\n]\n']
    wanted = '{"text": "\\"a\\"", "label": "“", "other": "”"}'
    assert [*own.rows(iter(rows))] == [
        "[\n", f"  {wanted},\n", '{"text": "b"},\n', '{"text": "..."}\n]\n'
    ]  # fmt: skip
    assert own.changed == 2


@pytest.mark.parametrize(("with_label", "label"), [(False, "“y”"), (True, '"y"')])
def test_a_label_that_is_a_text_is_mended_too(with_label, label):
    own = signs("tsv", (0, 1), with_label=with_label, header=False)
    assert [*own.rows(iter(["“x”\t“y”\t…\n", "short\n"]))] == [
        f'"x"\t{label}\t…\n',
        "short\n",
    ]


def test_lists_of_words():
    own = signs("jsonl", ("text", "label"))
    (row,) = own.rows(iter(['{"text": ["“", "a"], "label": []}\n']))
    assert json.loads(row)["text"] == ['"', "a"]
