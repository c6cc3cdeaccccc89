"""The keys of task.json for the type "tags", and its built-in tasks."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping
from typing import Any

from bert_mgpu.core.errors import UserError, short_repr
from bert_mgpu.data import tables
from bert_mgpu.tasks.files import Columns, TableColumns, TaskFiles
from bert_mgpu.tasks.task_keys import FILES

TYPE = "tags"
MODEL_KEYS = ("repair_bio", "units")  # the others describe only the files
KEYS = ("scheme", "token_pattern", *MODEL_KEYS)
_CONLL, _JSON = "conll", "jsonl"


def with_defaults(values: Mapping[str, Any]) -> dict[str, Any]:
    """Adds the format and the columns that task.json leaves out to its values.

    Raises UserError if the names of the files imply different formats.
    """
    forms = {values[key]: _format_of(values[key]) for key in FILES if values.get(key)}
    form = values.get("format") or next(iter(forms.values()), _CONLL)
    if "format" not in values and {*forms.values()} > {form}:
        found = ", ".join(f"{name} is {own}" for name, own in forms.items())
        raise UserError(f"{found}: all files of the type {TYPE} need the same format")
    names: dict[str, Any] = {"text_a": "text", "label": "label"}
    if form == _CONLL:
        names = {"text_a": 0, "label": -1}
    return {**names, **values, "format": form}


def _format_of(name: str) -> str:
    form = tables.TableFormat().format_of(name)
    return _CONLL if form in ("tsv", "csv") else form  # .txt and others, too


def columns(given: Columns, options: Mapping[str, Any]) -> Columns:
    """Completes the given columns of a task's files.

    Raises UserError for a bad "token_pattern", or for a second text.
    """
    if given.text_b is not None:
        raise UserError("text_b: entities are found in one text: leave it out")
    pattern = options.get("token_pattern")
    clean = given.clean if pattern is None else _word_finder(str(pattern))
    return dataclasses.replace(given, nested=True, clean=clean)


def _word_finder(pattern: str) -> Callable[[str], str]:
    try:
        expression = re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise UserError(
            f"token_pattern: {short_repr(pattern)} is not a regular expression: {error}"
        ) from None
    if expression.groups != 1:
        raise UserError(
            f"token_pattern: {short_repr(pattern)} has {expression.groups} groups: put"
            " the word in parentheses, and nothing else"
        )

    def find_word(token: str) -> str:
        match = expression.fullmatch(token)
        if match is None or not match[1]:
            raise ValueError(f"{short_repr(token)} does not match token_pattern")
        return match[1]

    return find_word


def _builtin(name: str, suffix: str, form: str, *, text: Any, label: Any) -> TaskFiles:
    table = TableColumns(tables.TableFormat(form), (text, label))
    return TaskFiles(
        name,
        labels=(),
        train=f"train.{suffix}",
        dev=f"dev.{suffix}",
        test=f"test.{suffix}",
        columns=Columns(text_a=0, label=1, nested=True, table=table),
        task_type=TYPE,
        built_in=True,
    )


BUILTIN = {
    # As in BERT-NER and BERT-BiLSTM-CRF-NER.
    "ner": _builtin("ner", "txt", _CONLL, text=0, label=-1),
    "cluener": _builtin("cluener", "json", _JSON, text="text", label="label"),
}
