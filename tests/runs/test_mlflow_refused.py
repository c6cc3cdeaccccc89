"""--mlflow where it cannot be had, and where nobody asked for it."""

import ast
import importlib.util
import pathlib

import pytest

from bert_mgpu.runs import mlflow_log
from tests.support.modules import imports_of
from tests.support.runs import assert_refused

NOBODY = "http://127.0.0.1:9"  # a port that nothing listens at


@pytest.fixture(autouse=True)
def folders_are_stores(monkeypatch):
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")


@pytest.mark.parametrize(
    ("flags", "fragment"),
    [
        ({"mlflow": "htp://here"}, "--mlflow=htp://here: Unsupported"),
        ({"mlflow": "/proc/x"}, "--mlflow=/proc/x: FileNotFoundError: "),
        ({"mlflow": "http://a:b@c"}, "--mlflow: a password in it would be saved"),
        ({"mlflow": NOBODY, "do_train": False}, "--mlflow does nothing without --do_"),
    ],
)
def test_mistakes(tiny, inside, tmp_path, flags, fragment):
    out = tmp_path / "out"
    result = inside(tiny.flags(out, **{"do_train": True, "do_eval": True, **flags}))
    assert_refused(result, fragment)
    assert not [*out.glob("model.ckpt*")]


def test_without_the_package_it_is_refused_at_once(tiny, inside, tmp_path, monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name, package=None: None if name == "mlflow" else find(name, package),
    )
    result = inside(tiny.flags(tmp_path / "out", do_train=True, mlflow=NOBODY))
    assert_refused(result, "--mlflow needs mlflow-skinny: ", "[mlflow]'")


def test_nothing_imports_it_unasked():
    """It takes seconds: only functions that the flag alone leads to have the import."""
    tree = ast.parse(pathlib.Path(mlflow_log.__file__).read_text())
    inner = (ast.FunctionDef, ast.ClassDef)
    outside = [node for node in tree.body if not isinstance(node, inner)]
    imported, at_once = (
        {name.split(".")[0] for _, name in imports_of(part)}
        for part in (tree, ast.Module(outside, []))
    )
    assert "mlflow" in imported and "mlflow" not in at_once
