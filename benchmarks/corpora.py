"""Raw corpora of ../shared as text: one sentence a line, blank lines between documents.

python -m benchmarks.corpora FOLDER    # laws.txt, news.txt, headlines.txt
"""

from __future__ import annotations

import lzma
import pathlib
import re
import sys
import tarfile
from collections.abc import Iterator

from benchmarks.harness import SHARED

DATA = SHARED / "data"
_SENTENCES = re.compile(r"[^。！？；]*[。！？；]*")
_PARAGRAPHS = 10  # in a document of the newspaper, which does not mark its articles
_HEADER_END = "<!-- INFO END -->"


def sentences(text: str) -> list[str]:
    """The text's sentences, split after 。！？； as is usual for Chinese corpora."""
    return [found for found in map(str.strip, _SENTENCES.findall(text)) if found]


def laws() -> Iterator[list[str]]:
    """Statutes; each file is a document."""
    with tarfile.open(DATA / "zh_laws" / "zh_laws_national.tar.xz") as archive:
        for member in archive:
            file = archive.extractfile(member)
            if file is None or not member.name.endswith(".md"):
                continue
            text = file.read().decode("utf-8").partition(_HEADER_END)[2]
            lines = [line.strip().lstrip("#").strip() for line in text.splitlines()]
            yield [one for line in lines for one in sentences(line)]


def news() -> Iterator[list[str]]:
    """A newspaper of 1998 without its tags; ten paragraphs make a document."""
    document: list[str] = []
    path = DATA / "zh_peoplesdaily199801" / "199801.txt.xz"
    with lzma.open(path, "rt", encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            words = (word.rpartition("/")[0] for word in line.split())
            document += sentences("".join(words))
            if number % _PARAGRAPHS == 0:
                yield document
                document = []
    yield document


def headlines() -> Iterator[list[str]]:
    """The texts of sub_train.txt without their labels; each is a document."""
    path = DATA / "thucnews_title" / "sub_train.txt"
    for line in path.read_text(encoding="utf-8").splitlines():
        yield [line.partition("\t")[0]]


CORPORA = {"laws": laws, "news": news, "headlines": headlines}


def write(name: str, folder: pathlib.Path) -> pathlib.Path:
    """The file of the corpus in the folder, written if it does not exist."""
    path = folder / f"{name}.txt"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        text = "\n".join("".join(f"{s}\n" for s in doc) for doc in CORPORA[name]())
        path.write_text(text, encoding="utf-8")
    return path


if __name__ == "__main__":
    for each in CORPORA:
        made = write(each, pathlib.Path(sys.argv[1]))
        print(f"{made}: {made.stat().st_size / 1e6:.1f} MB")
