"""Copies of a task's files in which is mended what can be mended safely.

Of the training file rows are left out that stand there before with the same label, or
whose text, or nearly it, stands in another file, too: what is measured there is true
then. Signs that the vocabulary lacks are written as it has them. Tags and spans are
repaired as --repair_bio says. All other lines stay as they are, without a byte order
mark, and end in one line feed.
"""

from __future__ import annotations

import bisect
import gzip
import lzma
import pathlib
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence

from bert_mgpu.cli.doctor.plain_signs import PlainSigns
from bert_mgpu.cli.doctor.task_sets import ReadSet
from bert_mgpu.core import hashing, text_files
from bert_mgpu.core.errors import UserError
from bert_mgpu.core.files import make_folder, write_bytes
from bert_mgpu.core.rows import Example
from bert_mgpu.core.text_files import Lines
from bert_mgpu.tasks.predict_format import encoding_of
from bert_mgpu.text import near_duplicates

_BY_LINES = ("tsv", "csv", "jsonl", "conll")  # the formats whose rows have own lines
_PACK: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".xz": lzma.compress,
}


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


def target_of(path: pathlib.Path, data_dir: str, target: pathlib.Path) -> pathlib.Path:
    """Where the copy of a file of the task goes: task.json names it as before."""
    own, folder = path.resolve(), pathlib.Path(data_dir).resolve()
    inside = own.is_relative_to(folder)
    return target / (own.relative_to(folder) if inside else own.name)


def write(
    copy: pathlib.Path,
    read: ReadSet,
    lines: Lines | None,
    *,
    dropped: set[int],
    plain: Mapping[str, str],
    with_label: bool,
) -> str:
    """Writes the copy of a file; returns what was changed.

    lines: with other labels; None: those of the file. plain: signs -> what replaces
    them in texts and, if with_label, in labels.
    """
    if copy.exists():
        raise UserError(f"{read.path}: a file of its name is in {copy.parent} already")
    make_folder(copy.parent)
    table = read.columns.table
    kind = table.form.format_of(read.path) if table else "tsv"
    if kind not in _BY_LINES:
        shutil.copyfile(read.path, copy)
        return f"copied {copy.name} as it is: rows of this format are not mended"
    encoding = encoding_of(read.columns)
    codec = text_files.ENCODINGS[encoding]
    lines = lines or text_files.read_lines(read.path, encoding)
    own = PlainSigns(
        plain,
        read.columns,
        kind,
        with_label=with_label,
        stripped=read.labelled and read.columns.strip_lines,
        codec=codec,
    )
    kept = own.rows(_kept(lines, read.examples, dropped))
    pack = _PACK.get(copy.suffix, bytes)
    write_bytes(copy, pack(b"".join(line.encode(codec) for line in kept)))
    parts = [f"{len(dropped)} rows left out"] * bool(dropped)
    parts += [f"signs written plainly in {own.changed} rows"] * bool(own.changed)
    return f"wrote {copy}" + f": {', '.join(parts)}" * bool(parts)


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
