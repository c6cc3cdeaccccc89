"""Copies of a task's files in which is mended what can be mended safely.

Of the training file rows are left out that stand there before with the same label, or
whose text, or nearly it, stands in another file, too: what is measured there is true
then. Signs that the vocabulary lacks are written as it has them. Tags and spans are
repaired as --repair_bio says. All other lines stay as they are, without a byte order
mark, and end in one line feed.
"""

from __future__ import annotations

import bisect
import csv
import io
import pathlib
import shutil
from collections.abc import Iterator, Mapping, Sequence

from bert_mgpu.cli.doctor.task_sets import ReadSet
from bert_mgpu.core import hashing, text_files
from bert_mgpu.core.errors import UserError
from bert_mgpu.core.files import make_folder, write_bytes
from bert_mgpu.core.rows import Example
from bert_mgpu.core.text_files import Lines
from bert_mgpu.tasks.predict_format import encoding_of
from bert_mgpu.text import near_duplicates

_BY_LINES = ("tsv", "csv", "jsonl", "conll")  # the formats whose rows have own lines


def check(target: pathlib.Path) -> None:
    """Raises UserError where the new folder is there already."""
    if target.exists():
        raise UserError(
            f"--repaired_dir={target}: it exists already: pass a new folder"
        )


def left_out(sets: Sequence[ReadSet]) -> tuple[set[int], set[int]]:
    """Lines of the training file: those of repeated rows, and of rows in other sets."""
    train = next((read.examples for read in sets if read.split == "train"), [])
    others = [one for read in sets if read.split != "train" for one in read.examples]
    seen = {_key(one) for one in others}
    rows = [(one.text_a, one.text_b or "") for one in (*others, *train)]
    near = near_duplicates.first_near(rows)[len(others) :].tolist()
    repeated, leaking = set[int](), set[int]()
    labels = set[tuple[int, str]]()
    for example, first in zip(train, near, strict=True):
        key = _key(example)
        if key in seen or 0 <= first < len(others):
            leaking.add(example.line)
        elif (key, repr(example.label)) in labels:
            repeated.add(example.line)
        labels.add((key, repr(example.label)))
    if len(repeated) + len(leaking) == len(train):  # nothing would be left to learn
        leaking.clear()
    return repeated, leaking


def _key(example: Example) -> int:
    return hashing.text_key(example.text_a, example.text_b)


def write(
    target: pathlib.Path,
    read: ReadSet,
    lines: Lines | None,
    *,
    dropped: set[int],
    plain: Mapping[str, str],
) -> str:
    """Writes the copy of a file; returns what was changed.

    lines: with other labels; None: those of the file. plain: signs -> what replaces
    them.
    """
    name = read.path.name
    make_folder(target)
    table = read.columns.table
    kind = table.form.format_of(read.path) if table else "tsv"
    if kind not in _BY_LINES:
        shutil.copyfile(read.path, target / name)
        return f"copied {name} as it is: rows of this format are not mended"
    name = name.removesuffix(".gz").removesuffix(".xz")
    encoding = encoding_of(read.columns)
    codec = text_files.ENCODINGS[encoding]
    lines = lines or text_files.read_lines(read.path, encoding)
    changed = [0]
    kept = _plain(_kept(lines, read.examples, dropped), kind, plain, changed=changed)
    write_bytes(target / name, (line.encode(codec) for line in kept))
    parts = [f"{len(dropped)} rows left out"] * bool(dropped)
    parts += [f"signs written plainly in {changed[0]} rows"] * bool(changed[0])
    return f"wrote {target / name}" + f": {', '.join(parts)}" * bool(parts)


def _kept(
    lines: Lines, examples: Sequence[Example], dropped: set[int]
) -> Iterator[str]:
    """Rows as one text each, with their line ends, but for those left out."""
    starts = sorted(example.line for example in examples)
    held, row = list[str](), 0
    for number, line in lines:
        own = bisect.bisect_right(starts, number)
        if own != row:
            if held:
                yield "".join(held)
            held, row = [], own
        if not own or starts[own - 1] not in dropped:
            held.append(f"{line}\n")
    if held:
        yield "".join(held)


def _plain(
    rows: Iterator[str], kind: str, plain: Mapping[str, str], *, changed: list[int]
) -> Iterator[str]:
    """The rows with plain signs; changed[0] counts those that have others."""
    escaped = {sign: own.replace('"', '\\"') for sign, own in plain.items()}
    own = str.maketrans(escaped if kind == "jsonl" else {**plain})
    for row in rows:
        if plain and not plain.keys().isdisjoint(row):
            changed[0] += 1
            row = _csv_row(row, own) if kind == "csv" else row.translate(own)
        yield row


def _csv_row(row: str, plain: Mapping[int, str]) -> str:
    """The row with its cells quoted anew, since a quote may be among the signs."""
    out = io.StringIO()
    for cells in csv.reader(io.StringIO(row, newline="")):
        csv.writer(out, lineterminator="\n").writerow(
            [cell.translate(plain) for cell in cells]
        )
    return out.getvalue()
