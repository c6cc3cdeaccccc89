"""The modules of the package, as the tests read them that hold rules over the code."""

import ast
import functools

from tests.support.paths import ROOT

PACKAGE = ROOT / "bert_mgpu"
MODULES = sorted(PACKAGE.rglob("*.py"))


@functools.cache
def trees():
    """The syntax tree of each module; nobody changes them."""
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in MODULES}


def name_of(path):
    return str(path.relative_to(PACKAGE))


def package_of(path):
    """The package directly below bert_mgpu; "" for __init__ and __main__."""
    return "/".join(path.relative_to(PACKAGE).parts[:-1]).split("/")[0]


def imports_of(tree):
    """(line, name) of what a module imports, function by function too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "a relative import"
            for alias in node.names:
                yield node.lineno, f"{node.module}.{alias.name}"
