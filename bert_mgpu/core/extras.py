"""The requirements of the installed package, as its metadata records them."""

from __future__ import annotations

import importlib.metadata
import json
import re

from bert_mgpu.core.errors import UserError

_PACKAGE = "bert_mgpu"


def lines(extra: str = "") -> list[str]:
    """The requirements of an extra, as pip takes them: ["cloudpickle==3.1.2", ...].

    Raises UserError where Python finds the package without its metadata, as in a clone
    that was never installed.
    """
    try:
        requirements = importlib.metadata.requires(_PACKAGE) or ()
    except importlib.metadata.PackageNotFoundError:
        raise UserError(
            f"{_PACKAGE} is not installed in this Python: run `make setup`, or"
            " `pip install -c constraints.txt -e .` in the clone"
        ) from None
    selected = []
    for line in requirements:
        requirement, _, marker = line.partition(";")
        condition = re.search(r"""extra == ["']([\w-]+)["']""", marker)
        # Metadata has a hyphen where pyproject.toml has an underscore.
        if (condition[1] if condition else "") == extra.replace("_", "-"):
            selected.append(requirement.strip())
    return selected


def advice(extra: str) -> str:
    """The command that installs an extra in this Python."""
    try:
        origin = importlib.metadata.distribution(_PACKAGE).read_text("direct_url.json")
        is_clone = bool(json.loads(origin or "{}").get("dir_info", {}).get("editable"))
    except importlib.metadata.PackageNotFoundError:
        is_clone = True
    if is_clone:
        return f"pip install -c constraints.txt -e '.[{extra}]'"
    return f"pip install '{_PACKAGE}[{extra}]'"
