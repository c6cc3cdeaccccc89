"""Imports only go down, and some things are imported nowhere."""

import ast
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[1]
PACKAGE = ROOT / "bert_mgpu"
# The floors of docs/architecture.md: a module imports from lower floors, or
# from its own folder.
FLOORS = {
    "__init__": 0,
    "errors": 0,
    "config": 2,
    "files": 1,
    "horovod_parts": 1,
    "machine": 1,
    "requirements": 1,
    "rng": 1,
    "run_config": 2,
    "install_horovod": 2,
    "task": 2,
    "text": 3,
    "nn": 3,
    "interop": 3,
    "data": 4,
    "train": 4,
    "tasks": 5,
    "flags": 5,
    "growth": 5,
    "command": 6,
    "preparing": 7,
    "inference": 6,
    "results": 6,
    "sources": 6,
    "remembered": 5,
    "inputs": 7,
    "labels": 7,
    "job": 7,
    "recorded": 7,
    "weights": 7,
    "starting": 8,
    "training": 9,
    "opening": 6,
    "launch": 1,
    "meeting": 3,
    "watch": 4,
    "peers": 2,
    "planning": 10,
    "evaluating": 8,
    "page": 0,
    "pictures": 2,
    "reporting": 10,
    "exporting": 6,
    "serving": 8,
    "converting": 8,
    "convert": 12,
    "__main__": 13,
    "streaming": 8,
    "finetune": 11,
    "pretrain": 11,
    "selftest": 11,
    "data_doctor": 11,
    "doctor": 12,
    "run": 12,
    "scripts": 13,
}
APART = {"text", "nn", "train"}
NEVER = {"keras", "tf_keras", "pickle", "h5py", "joblib", "dill", "torch", "horovod"}
NEVER |= {"transformers", "tests", "benchmarks"}
MODULES = sorted(PACKAGE.rglob("*.py"))


def own_part(path):
    """bert_mgpu/train/towers.py -> train; bert_mgpu/run.py -> run."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def part_of(module):
    """bert_mgpu.train.towers -> train; bert_mgpu -> __init__."""
    return (module.split(".") + ["__init__"])[1]


def imports_of(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            if node.module == "bert_mgpu":
                for alias in node.names:
                    yield f"bert_mgpu.{alias.name}"
            else:
                yield node.module


def ids(path):
    return str(path.relative_to(PACKAGE))


@pytest.mark.parametrize("path", MODULES, ids=ids)
def test_imports_go_down(path):
    own = own_part(path)
    for name in imports_of(path):
        if not name.startswith("bert_mgpu"):
            top = name.split(".")[0]
            known = top == "horovod" and path == PACKAGE / "train" / "collective.py"
            assert known or top not in NEVER, f"{path}: {name}"
            continue
        other = part_of(name)
        if other.startswith("_") or other == own:
            continue
        assert FLOORS[other] < FLOORS[own], f"{path} imports {name}"


@pytest.mark.parametrize(
    "path", [path for path in MODULES if own_part(path) in APART], ids=ids
)
def test_text_nn_and_train_do_not_know_each_other(path):
    others = APART - {own_part(path)}
    for name in imports_of(path):
        if name.startswith("bert_mgpu"):
            assert part_of(name) not in others, f"{path} imports {name}"


def test_task_names_stand_in_tasks_only():
    from bert_mgpu.tasks.builtin import BUILTIN

    special = set(BUILTIN) - {"ad", "abuse", "sentiment"}  # English words
    for path in MODULES:
        if "tasks" in path.parts:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                assert node.value not in special, f"{path}:{node.lineno}"


def test_tensorflow_waits_until_the_flags_are_checked():
    """A mistake is said in a fraction of a second; SIGTERM meets no import."""
    code = "import sys, bert_mgpu.run; sys.exit('tensorflow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0


def test_scripts_are_short():
    lines = (ROOT / "run_classifier_mgpu.py").read_text().splitlines()
    assert len(lines) <= 80


@pytest.mark.parametrize("path", MODULES, ids=ids)
def test_no_sum_in_an_order_that_changes(path):
    """tf.add_n: two processes got other norms of the same gradient, and two runs."""
    called = {
        node.attr
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute)
    }
    assert not called & {"add_n", "accumulate_n"}
