"""What the package needs, by extra: from a clone's files, or as pip recorded it."""

from __future__ import annotations

import importlib.metadata
import pathlib
import re

_PACKAGE = "bert_mgpu"
_CLONE = pathlib.Path(__file__).parents[2]


def file(extra: str = "") -> pathlib.Path | None:
    """The file with the requirements of an extra; None where pip has installed us."""
    path = _CLONE / f"requirements{extra and '-'}{extra}.txt"
    return path if path.is_file() else None


def lines(extra: str = "") -> list[str]:
    """The requirements, as pip takes them: ["cloudpickle==3.1.2", ...].

    Raises:
      importlib.metadata.PackageNotFoundError: neither a clone nor installed.
    """
    if path := file(extra):
        text = re.sub(r"#.*", "", path.read_text(encoding="utf-8"))
        return [line.strip() for line in text.splitlines() if line.strip()]
    found = []
    for line in importlib.metadata.requires(_PACKAGE) or ():
        requirement, _, marker = line.partition(";")
        named = re.search(r"""extra == ["'](\w+)["']""", marker)
        if (named[1] if named else "") == extra:
            found.append(requirement.strip())
    return found


def advice(extra: str) -> str:
    """The command that installs an extra here."""
    if file(extra):
        named = f"-r requirements.txt -r requirements-{extra}.txt"
        return f"pip install -c constraints.txt {named}"
    return f"pip install '{_PACKAGE}[{extra}]'"
