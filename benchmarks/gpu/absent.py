"""Stand-ins for packages that bert_mgpu imports and that no row here calls.

A row trains on random arrays. That needs neither a progress bar nor a safetensors
reader, but the modules involved import them, and the machine with the card may have
TensorFlow and nothing else.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
import types
from collections.abc import Sequence
from typing import Any, NoReturn

# The top-level imports of bert_mgpu's modules that TensorFlow does not need itself. No
# others: TensorFlow has optional imports, too, and would believe in a stand-in.
PACKAGES = ("safetensors", "tqdm", "google_crc32c")


def missing(names: Sequence[str]) -> list[str]:
    """Those of these packages that are not installed; a stand-in does not count."""
    specs = {name: importlib.util.find_spec(name) for name in names}
    return [n for n, s in specs.items() if s is None or isinstance(s.loader, _Finder)]


class _Absent(types.ModuleType):
    """Any attribute is an exception class that, when used, says what is missing."""

    __path__: list[str] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)

        def refuse(*_: Any, **__: Any) -> NoReturn:
            raise ModuleNotFoundError(f"{self.__name__} is not installed")

        return type(name, (Exception,), {"__new__": refuse})


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def __init__(self, names: Sequence[str]):
        self._names = frozenset(names)

    def find_spec(
        self, fullname: str, path: Any = None, target: Any = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname.split(".")[0] not in self._names:
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        return _Absent(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        """There is nothing to run."""


def stand_in() -> list[str]:
    """Makes missing packages importable from now on; returns their names."""
    names = missing(PACKAGES)
    sys.meta_path.append(_Finder(names))
    return names
