"""Arguments beyond three go by name: where functions are written, and called."""

import ast

from tests.support.modules import MODULES, name_of, trees
from tests.support.paths import ROOT

POSITIONAL = {  # others call these, by position
    "export/onnx.py:_erfc": "a handler of tf2onnx",
}
FUNCTIONS = [
    node
    for tree in trees().values()
    for node in ast.walk(tree)
    if isinstance(node, ast.FunctionDef | ast.ClassDef)
]
OWN = {node.name for node in FUNCTIONS}
ANY_NUMBER = {
    node.name
    for node in FUNCTIONS
    if isinstance(node, ast.FunctionDef) and node.args.vararg
}


def called(call):
    """The last name of what is called: f of f(), a.f() and a.b.f()."""
    return getattr(call.func, "id", getattr(call.func, "attr", None))


def test_arguments_beyond_three_go_by_name():
    many = set()
    for path, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef):
                names = [one.arg for one in node.args.posonlyargs + node.args.args]
                top = node in tree.body  # of a module: else self and locals' bindings
                if len(names) - (not top and names[:1] in (["self"], ["cls"])) > 3:
                    many.add(f"{name_of(path)}:{node.name}")
    assert many == {*POSITIONAL}


def test_calls_pass_arguments_beyond_three_by_name():
    """Of our functions and classes, whose fields may be given by position."""
    wrong = []
    for path, tree in trees().items():
        for node in ast.walk(tree):
            many = isinstance(node, ast.Call) and len(node.args) > 3
            if many and called(node) in OWN - ANY_NUMBER:
                wrong.append(f"{name_of(path)}:{node.lineno} calls {called(node)}")
    assert wrong == []


def test_no_call_unpacks_a_literal():
    for path in [*MODULES, *(ROOT / "tests").rglob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            for argument in node.args if isinstance(node, ast.Call) else ():
                if isinstance(argument, ast.Starred):
                    place = f"{path.relative_to(ROOT)}:{node.lineno}"
                    assert not isinstance(argument.value, ast.Tuple | ast.List), place


def literals_of(function):
    """The names that a function binds to a tuple or list of known length."""
    for node in ast.walk(function):
        if isinstance(node, ast.Assign):
            (target, value), *several = [(node.targets[0], node.value)]
            if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
                several = zip(target.elts, value.elts, strict=False)
            for one, bound in [(target, value), *several]:
                items = getattr(bound, "elts", None) or [ast.Starred()]
                if not any(isinstance(item, ast.Starred) for item in items):
                    yield getattr(one, "id", None)


def test_no_call_unpacks_a_local_literal():
    """A tuple that is made a line above hides as many arguments."""
    wrong = []
    for path, tree in trees().items():
        for function in ast.walk(tree):
            if not isinstance(function, ast.FunctionDef):
                continue
            literals = {*literals_of(function)} - {None}
            for node in ast.walk(function):
                for one in node.args if isinstance(node, ast.Call) else ():
                    name = getattr(getattr(one, "value", None), "id", None)
                    unpacked = isinstance(one, ast.Starred) and name in literals
                    if unpacked and called(node) not in ANY_NUMBER:
                        wrong.append(f"{name_of(path)}:{node.lineno} unpacks {name}")
    assert wrong == []
