"""The layout of the package: what stands where, and what may import what.

The table is docs/architecture.md's: a package imports from lower levels alone.
"""

import ast
import collections
import itertools
import re
import subprocess
import sys

import pytest

from tests.support.modules import (
    MODULES,
    PACKAGE,
    imports_of,
    name_of,
    package_of,
    trees,
)
from tests.support.paths import ROOT

# What each package may import, besides core.
MAY_IMPORT = {
    "core": "",
    "config": "",
    "text": "",
    "model": "",
    "distributed": "",
    "data": "text",
    "checkpoints": "config text model",
    "training": "distributed",
    "tasks": "config text model distributed data checkpoints",
    "evaluation": "config distributed data checkpoints training",
    "export": "config text model checkpoints",
    "data_prep": "config text model data checkpoints",
    "runs": "config text model distributed data checkpoints training tasks evaluation"
    " export",
    "api": "config text model distributed data checkpoints training tasks evaluation"
    " export runs",
    "serving": "",
    "cli": "config text model distributed data checkpoints training tasks evaluation"
    " export data_prep runs api serving",
}
MOST_LEVELS, MOST_PAIRS, LONGEST_FILE = 7, 90, 300
NEVER = {"keras", "tf_keras", "pickle", "h5py", "joblib", "dill", "torch"}
NEVER |= {"transformers", "tests", "benchmarks"}
ONLY_IN = {"horovod": "distributed/collective.py", "absl": "config/parsing.py"}
ONLY_IN |= {"prometheus_client": "serving/metrics.py", "uvicorn": "serving/server.py"}
ONLY_IN |= {"sacrebleu": "tasks/rewriting/metrics.py", "mlflow": "runs/mlflow_log.py"}
KNOW_A_FAMILY = {
    "tasks/registry.py",
    "runs/pretrain.py",
    "runs/score_sentences.py",
}
KNOW_A_HEAD = {
    "model/heads.py",
    "model/params.py",
    "checkpoints/weight_names.py",
    "checkpoints/vocab_growth.py",  # the bias that grows with the vocabulary
    "export/convert.py",  # compares each head that a model has
}
WITHOUT_TENSORFLOW = {"core", "config", "text", "serving"}


def edges():
    """(importing package, imported one, file:line) of the whole package."""
    for path, tree in trees().items():
        for line, name in imports_of(tree):
            parts = name.split(".")
            if parts[0] == "bert_mgpu" and {*parts[1:2]} & {*MAY_IMPORT}:
                yield package_of(path), parts[1], f"{name_of(path)}:{line}"


def test_nothing_lies_loose():
    loose = {path.name for path in PACKAGE.glob("*.py")}
    assert loose == {"__init__.py", "__main__.py"}
    folders = {path.parent.relative_to(PACKAGE).parts[0] for path in MODULES[2:]}
    assert folders == {*MAY_IMPORT}


def test_imports_go_down():
    wrong = [
        f"{place} imports {imported}"
        for own, imported, place in edges()
        if imported not in ("core", own, *MAY_IMPORT.get(own, "").split())
        and own  # __main__ imports the cli
    ]
    assert wrong == []


def test_levels_and_pairs():
    levels = {}
    for package, names in MAY_IMPORT.items():  # in the order of the table
        below = [levels[name] for name in ("core", *names.split()) if name in levels]
        levels[package] = 1 + max(below, default=0)
    assert max(levels.values()) <= MOST_LEVELS
    pairs = {
        (own, imported) for own, imported, _ in edges() if own not in ("", imported)
    }
    print(f"{len(pairs)} pairs of packages, {max(levels.values())} levels")
    assert len(pairs) <= MOST_PAIRS
    for own, imported in pairs:
        assert levels[imported] < levels[own], f"{own} and {imported}"


def test_modules_import_in_no_circle():
    names = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in MODULES
    }
    needed = collections.defaultdict(set)
    for path, tree in trees().items():
        own = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for node in tree.body:  # what functions import is there when they are called
            for _, name in imports_of(ast.Module([node], [])):
                for known in (name, name.rpartition(".")[0]):
                    if known in names:
                        needed[own].add(known)
                        break
    done = set()

    def visit(name, way):
        assert name not in way, " > ".join([*way, name])
        if name not in done:
            for other in sorted(needed[name]):
                visit(other, [*way, name])
            done.add(name)

    for name in names:
        visit(name, [])


def test_foreign_packages():
    for path, tree in trees().items():
        for line, name in imports_of(tree):
            top, place = name.split(".")[0], f"{name_of(path)}:{line} imports {name}"
            assert top not in NEVER, place
            assert ONLY_IN.get(top, name_of(path)) == name_of(path), place
            assert top != "tensorflow" or package_of(path) not in WITHOUT_TENSORFLOW, (
                place
            )


@pytest.mark.parametrize("module", ["cli.run_classifier", "cli.run_pretraining"])
def test_tensorflow_waits_until_the_flags_are_checked(module):
    """A mistake is said in a fraction of a second; SIGTERM meets no import."""
    code = f"import sys, bert_mgpu.{module}; sys.exit('tensorflow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0


def test_few_modules_know_a_family():
    """The table of families, and pretraining, which has one alone."""
    families = {path.name for path in (PACKAGE / "tasks").iterdir() if path.is_dir()}
    families -= {"__pycache__"}
    assert {"classification", "masked_lm"} <= families
    for path, tree in trees().items():
        parts = path.relative_to(PACKAGE).parts
        own = parts[1] if parts[0] == "tasks" else None
        knows = name_of(path) in KNOW_A_FAMILY
        for line, name in imports_of(tree):
            if name.startswith("bert_mgpu.tasks."):
                other = name.split(".")[2]
                known = other == own or knows
                assert other not in families or known, f"{name_of(path)}:{line}"


# An output of exports, a format of files, a command: they have the names of tasks.
OTHER_MEANING = {
    ("export/served_tags.py", "tags"),
    ("data/squad_json.py", "squad"),
    ("config/finetuning.py", "squad"),
    ("data_prep/rewrite_data.py", "rewrite"),
    ("data_prep/rewrite_pairs.py", "rewrite"),
    ("config/squad.py", "squad"),
    ("cli/main.py", "squad"),
}


def test_task_names_stand_in_tasks_only():
    from bert_mgpu.tasks import registry

    types = registry.TYPES
    special = {*registry.BUILTIN} - {"ad", "abuse", "sentiment"}  # English words
    special |= {*types, *(each.huggingface_problem_type for each in types.values())}
    special |= {each.module for each in types.values()}
    for path, tree in trees().items():
        if package_of(path) == "tasks":
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                other = (name_of(path), node.value) in OTHER_MEANING
                known = node.value not in special or other
                assert known, f"{name_of(path)}:{node.lineno}"


def test_few_modules_know_the_parameters_of_a_head():
    """Heads, and the tables of their names; others ask for what a table says."""
    know = {
        name_of(path)
        for path, tree in trees().items()
        for node in ast.walk(tree)
        if package_of(path) != "tasks" and isinstance(node, ast.Constant)
        if isinstance(node.value, str)
        if node.value.rpartition("/")[2] in ("output_weights", "output_bias")
    }
    assert know == KNOW_A_HEAD


def test_files_are_short():
    long = {
        name_of(path): lines
        for path in MODULES
        if (lines := len(path.read_text("utf-8").splitlines())) > LONGEST_FILE
    }
    assert long == {}
    for script in [*ROOT.glob("*.py"), *ROOT.glob("data_prep/*.py")]:
        assert len(script.read_text().splitlines()) <= 20


def test_the_cache_key_covers_what_makes_features(monkeypatch):
    from bert_mgpu.config.finetuning import FinetuneConfig
    from bert_mgpu.core import hashing
    from bert_mgpu.tasks import registry
    from bert_mgpu.tasks.classification.builtin import BUILTIN

    packages, files = [], []
    monkeypatch.setattr(hashing, "hash_of_code", lambda *parts: packages.extend(parts))
    monkeypatch.setattr(hashing, "file_hash", files.append)
    family = registry.family_of(BUILTIN["mrpc"], FinetuneConfig())
    registry.code_of.__wrapped__(type(family))
    shared = {"core.encodings", "core.rows", "core.text_files", "text", "data", "tasks"}
    assert shared <= {*packages}
    own = PACKAGE / "tasks" / "classification"
    assert {*files} == {*own.glob("*.py")}


def test_the_hash_of_code_changes_with_each_file(tmp_path, monkeypatch):
    from bert_mgpu.core import hashing

    (tmp_path / "data").mkdir()
    files = [
        tmp_path / "one.py",
        tmp_path / "data" / "a.py",
        tmp_path / "data" / "b.py",
    ]
    for file in files:
        file.write_text("1")
    monkeypatch.setattr(hashing, "_PACKAGE", tmp_path)
    actual = [hashing.hash_of_code("one", "data")]
    for file in files:
        file.write_text("2")
        actual.append(hashing.hash_of_code("one", "data"))
    assert len({*actual}) == 4


def test_no_sum_in_an_order_that_changes():
    """tf.add_n: two processes got other norms of the same gradient, and two runs."""
    for path, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute):
                assert node.attr not in ("add_n", "accumulate_n"), name_of(path)


def test_the_table_of_architecture_md_has_all_packages():
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    section = text.partition("## Packages")[2].partition("\n## ")[0]
    named = re.findall(r"^\| `(\w+)` \| (.*?) \|", section, re.MULTILINE)
    written = {name: {*re.findall(r"\w+", may)} - {"nothing"} for name, may in named}
    assert written == {name: {*may.split()} for name, may in MAY_IMPORT.items()}
    order = [name for name, _ in named]
    for one, other in itertools.combinations(order, 2):
        assert other not in MAY_IMPORT[one].split()  # the ground floor comes first


@pytest.mark.parametrize("name", ["README.md", "README.zh.md"])
def test_the_repository_map_names_what_there_is(name):
    text = (ROOT / name).read_text(encoding="utf-8")
    heading = {"README.md": "## Repository map", "README.zh.md": "## 仓库地图"}[name]
    drawn = text.partition(f"{heading}\n")[2].split("```")[1]
    places = [line[:26].strip() for line in drawn.splitlines() if line[:1].strip()]
    names = {part.rstrip("/") for place in places for part in place.split()}
    packages = {f"bert_mgpu/{package}" for package in MAY_IMPORT}
    assert packages <= names
    for part in names:
        assert [*ROOT.glob(part)], f"{name}: there is no {part}"
    folders = {path.name for path in ROOT.iterdir() if path.is_dir()}
    folders &= {"tests", "benchmarks", "docs", "examples", "data_prep"}
    assert folders <= {part.split("/")[0] for part in names}


def test_a_class_name_occurs_once():
    places = collections.defaultdict(list)
    for path, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(name_of(path))
    assert {name: actual for name, actual in places.items() if len(actual) > 1} == {}
