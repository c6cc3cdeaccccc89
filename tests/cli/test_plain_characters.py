"""Signs of print in rows of a file: only those of texts are written plainly."""

import json

import pytest

from bert_mgpu.cli.doctor.plain_characters import PlainCharacters
from bert_mgpu.data.tables import TableFormat
from bert_mgpu.tasks.classification.builtin import BUILTIN
from bert_mgpu.tasks.files import Columns, TableColumns

PLAIN = {"“": '"', "”": '"', "…": "..."}


def signs(kind, names, *, with_label=False, header=True):
    form = TableFormat(kind, header=header)
    columns = Columns(0, label=1, table=TableColumns(form, names))
    return PlainCharacters(PLAIN, columns, kind, with_label=with_label)


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


def built_in(name, **own):
    columns = BUILTIN[name].columns
    return PlainCharacters(PLAIN, columns, "tsv", with_label=False, **own)


def test_rows_of_a_built_in_task_that_are_json_stay_json():
    """Its text has a name there, and a quote in it is escaped."""
    record = {"comment": "a “good” film…", "id": "“", "items": [{"sentiment": 2}]}
    own = built_in("sentiment")
    (row,) = own.rows(iter([json.dumps(record, ensure_ascii=False) + "\n"]))
    assert row.endswith("}\n")
    assert json.loads(row) == record | {"comment": 'a "good" film...'}


def test_blanks_before_a_row_are_no_column():
    rows = ["\tnews_car\t“a” \t“\n", "news_car\t“b”\n"]
    read = built_in("toutiao", stripped=True)
    assert [*read.rows(iter(rows))] == ['\tnews_car\t"a" \t“\n', 'news_car\t"b"\n']
    assert [*built_in("toutiao").rows(iter(["\t“”\t“\n"]))] == ['\t""\t“\n']


def test_escapes_stay_where_the_encoding_lacks_the_character():
    columns = Columns(0, table=TableColumns(TableFormat(), ("text",)))
    own = PlainCharacters(PLAIN, columns, "jsonl", with_label=False, codec="cp1252")
    content = {"text": "“中", "other": "\ud800"}
    (row,) = own.rows(iter([json.dumps(content) + "\n"]))
    row.encode("cp1252")
    assert json.loads(row) == content | {"text": '"中'}
