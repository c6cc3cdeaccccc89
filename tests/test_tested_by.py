"""Every module has tests: in the folder of its package, or where a table says."""

import ast
import functools

import pytest

from tests.support.modules import MODULES, PACKAGE, imports_of, name_of, package_of
from tests.support.paths import ROOT
from tests.support.tested_by import ELSEWHERE, PARTS


@functools.cache
def named_in(path):
    """The modules that a file imports, or names in a text as a table does."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    names = set()
    for _, name in imports_of(tree):
        names |= {name, name.rpartition(".")[0]}
    texts = (node for node in ast.walk(tree) if isinstance(node, ast.Constant))
    return names | {node.value for node in texts if isinstance(node.value, str)}


def dotted(name):
    """cli/main.py -> bert_mgpu.cli.main."""
    return f"bert_mgpu.{name.removesuffix('.py').replace('/', '.')}"


def test_every_module_has_tests():
    named = {}  # folder of tests/ -> names
    for path in (ROOT / "tests").rglob("*.py"):
        folder = path.relative_to(ROOT / "tests").parts[0]
        named.setdefault(folder, set()).update(named_in(path))
    without = {
        name_of(path)
        for path in MODULES
        if path.name not in ("__init__.py", "__main__.py")
        and dotted(name_of(path)) not in named.get(package_of(path), ())
    }
    assert without == {*ELSEWHERE, *PARTS}
    assert not {*ELSEWHERE} & {*PARTS}


@pytest.mark.parametrize("module", ELSEWHERE)
def test_a_test_elsewhere_imports_the_module(module):
    path = ROOT / "tests" / ELSEWHERE[module]
    assert path.name.startswith("test_")
    assert dotted(module) in named_in(path)


@pytest.mark.parametrize("module", PARTS)
def test_a_part_belongs_to_a_module_with_tests(module):
    """And no test could as well be named in its place."""
    whole, reason = PARTS[module]
    assert dotted(module) in named_in(PACKAGE / whole) and " " in reason
    tests = (ROOT / "tests").rglob("test_*.py")
    assert [path for path in tests if dotted(module) in named_in(path)] == []
