"""Copies of a task's files in which everything that is safe to repair is repaired.

The training file loses rows that repeat an earlier one with the same label, and rows
whose text, or nearly that text with the same label, is also in another file, so that
scores measured there are valid; but no row of a group, and not all rows of a label.
Typographic signs that the vocabulary lacks are written plainly. Tags and
spans are repaired as --repair_bio says. All other lines stay as they are, but without a
byte order mark, and each ends in a line feed.
"""

from __future__ import annotations

import gzip
import lzma
import os
import pathlib
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence

from bert_mgpu.cli.doctor.near_rows import classes_of, same_label
from bert_mgpu.cli.doctor.plain_characters import PlainCharacters, object_in
from bert_mgpu.cli.doctor.task_sets import ReadSet
from bert_mgpu.core import encodings, hashing, text_files
from bert_mgpu.core.errors import UserError
from bert_mgpu.core.files import replacing_folder, unwritable
from bert_mgpu.core.rows import Example
from bert_mgpu.core.text_files import Lines
from bert_mgpu.core.units import counted
from bert_mgpu.tasks import task_json
from bert_mgpu.tasks.base import Family
from bert_mgpu.tasks.files import TaskFiles
from bert_mgpu.tasks.predict_format import encoding_of
from bert_mgpu.text import near_duplicates

_BY_LINES = ("tsv", "csv", "jsonl", "conll")  # the formats that are copied row by row
_PACK: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".xz": lzma.compress,
}


def check(target: pathlib.Path) -> None:
    """Raises UserError if the new folder exists already."""
    if os.path.lexists(target):  # False, too, for a name that cannot be one
        raise UserError(
            f"--repaired_dir={target}: it exists already: pass a new folder"
        )


def left_out(sets: Sequence[ReadSet]) -> tuple[set[int], set[int]]:
    """Lines of the training file with repeated rows, and with rows of other sets."""
    trains = [read for read in sets if read.split == "train" and _kind(read)]
    train = trains[0].examples if trains else []
    if any(one.group is not None for one in train):
        return set(), set()  # what is left of a group might not be ranked
    others = [one for read in sets if read.split != "train" for one in read.examples]
    seen = {_key(one) for one in others}
    rows = [(one.text_a, one.text_b or "") for one in (*others, *train)]
    near = near_duplicates.first_near(rows)[len(others) :].tolist()
    repeated, leaking = set[int](), set[int]()
    labels = set[tuple[int, str]]()
    for example, first in zip(train, near, strict=True):
        key = _key(example)
        like = others[first] if 0 <= first < len(others) else None
        # Nearly the same text with another label teaches the difference.
        if key in seen or (like and same_label(example, like) is not False):
            leaking.add(example.line)
        elif (key, repr(example.label)) in labels:
            repeated.add(example.line)
        labels.add((key, repr(example.label)))
    return repeated, leaking


def _key(example: Example) -> int:
    return hashing.text_key(example.text_a, example.text_b)


def write(
    target: pathlib.Path,
    sets: Sequence[ReadSet],
    task: TaskFiles,
    *,
    family: Family,
    data_dir: str,
    repair_bio: bool,
    plain: Mapping[str, str],
) -> list[str]:
    """Writes the copies, and task.json, to a new folder; returns the report's lines.

    A file that several sets share is written once, for the first of them. plain: signs
    -> what replaces them. Raises UserError, and leaves no folder, if writing fails.
    """
    repeated, leaking = left_out(sets)
    said = list[str]()
    if repeated or leaking:
        line = f"rows of train: {len(repeated)} repeated, {len(leaking)} in other files"
        rows = next(len(read.examples) for read in sets if read.split == "train")
        if len(repeated) + len(leaking) == rows:
            line += ", which stay: without them none would be left to learn from"
            leaking = set()
        elif last := _last_of_labels(sets, repeated | leaking, family):
            line += f", {len(last)} of which stay: no other rows have their labels"
            leaking -= last
        said.append(line)
    written: dict[pathlib.Path, pathlib.Path] = {}
    try:
        with replacing_folder(target) as new:
            for read in sets:
                name = _name_of(read.path, data_dir)
                if (other := written.setdefault(name, read.path)) is not read.path:
                    if os.path.samefile(other, read.path):
                        continue
                    raise UserError(
                        f"{read.path}: its copy and that of {other} would have the same"
                        " name: rename one of them"
                    )
                lines = None
                if repair_bio and read.labelled:
                    lines = family.repaired(
                        task, read.columns, read.examples, path=read.path
                    )
                done = _write_copy(
                    new / name,
                    read,
                    lines,
                    shown=target / name,
                    dropped=repeated | leaking if read.split == "train" else set(),
                    # Else labels with places in the text would be wrong.
                    plain={} if family.has_windows else plain,
                    with_label=family.labels_are_texts and read.labelled,
                )
                said.append(done)
            own = pathlib.Path(data_dir, task_json.FILE)
            if own.is_file():
                shutil.copyfile(own, new / own.name)
                said.append(f"copied {own.name}")
    except OSError as error:
        raise unwritable(f"--repaired_dir={target}", "folder", error) from None
    return said


def _last_of_labels(
    sets: Sequence[ReadSet], dropped: set[int], family: Family
) -> set[int]:
    """Lines of train that would be left out though no row that stays has their label.

    Only of labels that are classes: another file with one of them could not be read.
    """
    train = next(read.examples for read in sets if read.split == "train")
    if family.labels_are_texts:
        return set()
    kept = {n for one in train if one.line not in dropped for n in classes_of(one)}
    return {
        one.line for one in train if one.line in dropped and {*classes_of(one)} - kept
    }


def _name_of(path: pathlib.Path, data_dir: str) -> pathlib.Path:
    """The path of a file's copy in the new folder: the one that task.json names.

    Links keep their names: they are not followed.
    """
    own, folder = (pathlib.Path(os.path.abspath(one)) for one in (path, data_dir))
    return own.relative_to(folder if own.is_relative_to(folder) else own.parent)


def _write_copy(
    copy: pathlib.Path,
    read: ReadSet,
    lines: Lines | None,
    *,
    shown: pathlib.Path,
    dropped: set[int],
    plain: Mapping[str, str],
    with_label: bool,
) -> str:
    """Writes the copy of a file; returns a line on what was changed.

    lines: with repaired labels; None: those of the file. shown: the final name of the
    copy. plain: signs -> what replaces them in texts and, if with_label, in labels.
    """
    copy.parent.mkdir(parents=True, exist_ok=True)
    if not (kind := _kind(read)):
        shutil.copyfile(read.path, copy)
        return f"copied {copy.name} as it is: rows of this format are not repaired"
    encoding = text_files.detect_encoding(read.path, encoding_of(read.columns))
    codec = encodings.ENCODINGS[encoding]
    lines = lines or text_files.read_lines(read.path, encoding)
    own = PlainCharacters(
        plain,
        read.columns,
        kind,
        with_label=with_label,
        stripped=read.labelled and read.columns.strip_lines,
        codec=codec,
    )
    rows = _rows(lines, {one.line for one in read.examples}, by_lines=kind == "tsv")
    kept = (_kept_objects if kind == "jsonl" else _kept)(rows, dropped)
    pack = _PACK.get(copy.suffix, bytes)
    copy.write_bytes(pack(b"".join(row.encode(codec) for row in own.rows(kept))))
    parts = [f"{counted(len(dropped), 'row')} left out"] * bool(dropped)
    if own.changed:
        rows_changed = counted(own.changed, "row")
        parts.append(f"typographic characters replaced in {rows_changed}")
    return f"wrote {shown}" + f": {', '.join(parts)}" * bool(parts)


def _kind(read: ReadSet) -> str:
    """The format of a file that is copied row by row, "" of others."""
    table = read.columns.table
    kind = table.form.format_of(read.path) if table else "tsv"
    return kind if kind in _BY_LINES else ""


def _rows(lines: Lines, starts: set[int], *, by_lines: bool) -> Lines:
    """The rows with the numbers of their first lines; a row is one text with line ends.

    starts: the first lines of the rows that were read; the lines after one belong to
    it. by_lines: each line is a row instead.
    """
    first, held = 0, list[str]()
    for number, line in lines:
        if held and (by_lines or number in starts):
            yield first, "".join(held)
            held = []
        if not held:
            first = number
        held.append(f"{line}\n")
    if held:
        yield first, "".join(held)


def _kept(rows: Lines, dropped: set[int]) -> Iterator[str]:
    return (row for first, row in rows if first not in dropped)


def _kept_objects(rows: Lines, dropped: set[int]) -> Iterator[str]:
    """Like `_kept`, for JSON: keeps the end of a list, without a comma before it."""
    held = ""
    for first, row in rows:
        if first in dropped:
            found = object_in(row)
            row = row[found.end :].lstrip(" \t\r\n,") if found else ""
            if row.startswith("]"):
                held = held.rstrip().removesuffix(",") + "\n"
        if row:
            if held:
                yield held
            held = row
    if held:
        yield held
