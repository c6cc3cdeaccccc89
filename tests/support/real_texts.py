"""The texts of ../shared/data: each line of each file, each string of JSON."""

from __future__ import annotations

import csv
import io
import json
import lzma
import pathlib
import tarfile
import zipfile
from collections.abc import Iterator

from tests.support.paths import DATA

ABSENT = "the folder ../shared with data and models is absent"


def files(folder: str = ".") -> list[pathlib.Path]:
    return sorted(path for path in (DATA / folder).rglob("*") if path.is_file())


def texts_of(path: pathlib.Path) -> Iterator[str]:
    """The texts of a file, or of all that an archive holds."""
    for content in _contents(path):
        try:
            lines = content.decode().split("\n")
        except UnicodeDecodeError:
            lines = content.decode("gb18030", errors="replace").split("\n")
        yield from lines
        if path.suffix in (".json", ".jsonl"):
            yield from _strings("\n".join(lines))


def _contents(path: pathlib.Path) -> Iterator[bytes]:
    if path.suffix == ".zip":
        with zipfile.ZipFile(path) as archive:
            for name in archive.namelist():
                yield archive.read(name)
    elif path.name.endswith(".tar.xz"):
        with tarfile.open(path) as archive:
            for member in filter(tarfile.TarInfo.isfile, archive):
                yield archive.extractfile(member).read()
    elif path.suffix == ".xz":
        yield lzma.decompress(path.read_bytes())
    else:
        yield path.read_bytes()


def _strings(content: str) -> Iterator[str]:
    """The strings of JSON objects, one after the other."""

    def inside(value: object) -> Iterator[str]:
        if isinstance(value, dict):
            value = [*value, *value.values()]
        if isinstance(value, str):
            yield value
        elif isinstance(value, list):
            for item in value:
                yield from inside(item)

    decoder, content = json.JSONDecoder(), content.rstrip()
    place = 0
    while place < len(content):
        if content[place].isspace():
            place += 1
            continue
        value, place = decoder.raw_decode(content, place)
        yield from inside(value)


def utterances() -> Iterator[tuple[str, str, str]]:
    """(source, target, context) of the complete rows of utterance_rewriter."""
    path = DATA / "utterance_rewriter" / "corpus.txt"
    for line in path.read_text("utf-8").split("\n"):
        cells = line.split("\t\t")
        if len(cells) == 4:
            yield cells[2], cells[3], f"{cells[0]} {cells[1]}"


def splits() -> Iterator[tuple[str, str, str]]:
    """(source, target, "") of wikisplit's rows."""
    for name in ("tune", "validation"):
        content = (DATA / "wikisplit" / f"{name}.tsv").read_text("utf-8")
        for line in filter(None, content.split("\n")):
            source, target = line.split("\t")
            yield source, target, ""


def ads() -> Iterator[tuple[str, str, str]]:
    """(source, target, "") of adparaphrase_v2, in Japanese."""
    folder = DATA / "rewrite_data" / "adparaphrase_v2"
    for name in ("train", "dev"):
        rows = csv.DictReader(io.StringIO((folder / f"{name}.csv").read_text("utf-8")))
        for row in rows:
            yield row["ad1"], row["ad2"], ""


PAIRS = {
    "utterance_rewriter": (utterances, "chinese"),
    "wikisplit": (splits, "uncased"),
    "adparaphrase_v2": (ads, "chinese"),
}
