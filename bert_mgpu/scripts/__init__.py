"""The scripts that people type, each the whole of its command line.

In a clone they are started as `python run_classifier_mgpu.py`; where pip has installed
the package, as `run_classifier_mgpu` or `python -m bert_mgpu.scripts.NAME`.
"""

from __future__ import annotations

import pathlib
import re

_IN_A_CLONE = r"python (?:data_prep/)?(\w+)\.py"


def usage(text: str, typed: str) -> str:
    """A script's docstring, with the commands as this one was typed (argv[0])."""
    path = pathlib.Path(typed)
    if path.suffix != ".py":
        return re.sub(_IN_A_CLONE, r"\1", text)
    if path.parent == pathlib.Path(__file__).parent:
        return re.sub(_IN_A_CLONE, rf"python -m {__name__}.\1", text)
    return text
