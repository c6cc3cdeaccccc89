"""The entities of a row, read from its label: tags of words, or spans of a text."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from bert_mgpu.config.tagging import BEGIN, BIOES
from bert_mgpu.core.errors import listed, short_repr
from bert_mgpu.core.rows import Example
from bert_mgpu.core.text_files import Faults, RowFaults, report_faults
from bert_mgpu.tasks.files import Columns, TaskFiles
from bert_mgpu.tasks.tagging import bio
from bert_mgpu.tasks.tagging import spans as spans_lib
from bert_mgpu.tasks.tagging.bio import Span, TagFault

_ADVICE = "--repair_bio=begin lets an entity begin there, outside leaves it out"
_ENDS = "--repair_bio lets the entity end there"
_OTHERS = (  # advice on tags meant as O, and on BIOES
    ("'O' is meant", "--repair_bio reads it as that"),
    (" after it", _ENDS),
)
_SWAPPED = "the words are tags: name the columns, --text_a_column and --label_column"
_LONGER = "--repair_bio=begin keeps the longer one"


class Entities(NamedTuple):
    """The label of an example: its entities, by character, in the text's order."""

    spans: tuple[Span, ...]
    repaired: int = 0  # how many faults of its tags or spans were repaired

    @property
    def types(self) -> tuple[str, ...]:
        """The types of the entities, in the text's order."""
        return tuple(span.type for span in self.spans)


class Tags(tuple[str, ...]):
    """The tags of an example's words; only the whole file shows their notation."""


def read_label(
    files: TaskFiles, columns: Columns, cells: Sequence[Any]
) -> Entities | Tags:
    """The label of a row (a `tasks.reader.LabelReader`)."""
    assert columns.label is not None
    text, label = cells[columns.text_a], cells[columns.label]
    if isinstance(text, list):
        return _tags(text, label)
    return _entities(text, label, files)


def _tags(words: Sequence[str], tags: Any) -> Tags:
    if not isinstance(tags, list):
        raise ValueError(
            f"the words have the label {short_repr(tags)}: pass a tag for each"
        )
    if len(tags) != len(words):
        one, other = (
            f"{len(own)} {name}{'s' * (len(own) != 1)}"
            for own, name in ((words, "word"), (tags, "tag"))
        )
        raise ValueError(f"{one} and {other}")
    for tag in tags:
        if not isinstance(tag, str):
            raise ValueError(
                f"{short_repr(tag)} is not a tag: write its name, such as B-PER"
            )
    return Tags(tags)


def _entities(text: str, label: Any, files: TaskFiles) -> Entities:
    """The checked spans of a text. Raises RowFaults with everything that is wrong."""
    faults, spans = list[str](), list[Span]()
    for given in spans_lib.given(label):
        if fault := spans_lib.fault(text, given):
            faults.append(fault)
        else:
            spans.append(given.span)
    spans, overlaps = spans_lib.apart([*dict.fromkeys(spans)])
    repaired = len(overlaps)
    if overlaps and not files.options.get("repair_bio"):
        faults += [f"{overlap}: {_LONGER}" for overlap in overlaps]
    if faults:
        raise RowFaults([(None, fault) for fault in faults])
    return Entities(tuple(spans), repaired)


def complete(
    path: Any, examples: Sequence[Example], files: TaskFiles, *, faults: Faults
) -> list[Example]:
    """Turns the tags of a file into entities (a `tasks.reader.Completion`)."""
    if all(one.label is None for one in examples):  # a file to predict
        return [*examples]
    tags = [
        tag for one in examples if isinstance(one.label, Tags) for tag in {*one.label}
    ]
    scheme = files.options.get("scheme")
    guessed = scheme is None
    scheme = scheme or bio.scheme_of(tags)
    known, advised = bio.types_of(files.labels), set[str]()
    assert files.columns.table is not None
    form = files.columns.table.form
    done = []
    for example in examples:
        found, label = _read(example, scheme, files.options.get("repair_bio"))
        if known and not found:
            found += _unknown(example, label.spans, known)
        messages = list[tuple[int | None, str]]()
        for unit, message, repairable in found:
            advice = next((own for said, own in _OTHERS if said in message), _ADVICE)
            if repairable and advice not in advised:
                message = f"{message}: {advice}"
                if guessed and advice == _ENDS:
                    message += _why_bioes(examples, form.word_lines(path))
                advised.add(advice)
            messages.append((unit, message))
        if messages and _SWAPPED not in advised and _words_are_tags(example):
            messages[0] = messages[0][0], f"{messages[0][1]}: {_SWAPPED}"
            advised.add(_SWAPPED)
        if messages:
            report_faults(
                path,
                example.line,
                RowFaults(messages),
                faults=faults,
                word_lines=form.word_lines(path),
            )
        else:
            done.append(dataclasses.replace(example, label=label))
    return done


def _why_bioes(examples: Sequence[Example], word_lines: bool) -> str:
    """Names the tag for which a file is read as BIOES, and the flag to pass for BIO."""
    number, tag = next(
        (example.line + index * word_lines, tag)
        for example in examples
        for index, tag in enumerate(
            example.label if isinstance(example.label, Tags) else ()
        )
        if bio.scheme_of([tag]) == BIOES
    )
    return (
        f"; the file is read as BIOES, for {short_repr(tag)} in line {number}:"
        " --file_scheme=bio where it is BIO"
    )


def _words_are_tags(example: Example) -> bool:
    words = [example.text_a[start:end] for start, end in example.words or ()]
    return bool(words) and all(map(bio.is_tag, words))


def _read(
    example: Example, scheme: str, repair: str | None
) -> tuple[list[TagFault], Entities]:
    """The faults of a label that are not repaired, and its entities."""
    if not isinstance(example.label, Tags):
        return [], example.label
    assert example.words is not None
    read = bio.read_spans(example.label, scheme, repair or BEGIN)
    left = [fault for fault in read.faults if not (repair and fault.repairable)]
    spans = tuple(
        Span(example.words[start][0], example.words[end - 1][1], kind)
        for start, end, kind in read.spans
    )
    return left, Entities(spans, len(read.faults))


def _unknown(
    example: Example, spans: Sequence[Span], known: Sequence[str]
) -> Iterator[TagFault]:
    """Yields a fault for each type that the model lacks, where it first occurs."""
    why, seen = f"is not one of {listed(known)}", {*known}
    words = [start for start, _ in example.words or ()]
    for span in spans:
        if span.type not in seen:
            seen.add(span.type)
            unit = words.index(span.start) if words else None
            yield TagFault(unit, f"the type {short_repr(span.type)} {why}", False)
