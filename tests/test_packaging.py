"""What pip gets: an archive, a wheel built from it, extras, commands."""

import ast
import configparser
import email
import importlib.metadata
import itertools
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile

import pytest

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10, for which pytest brings it
    import tomli as tomllib

from bert_mgpu.core import extras
from bert_mgpu.core.errors import UserError
from tests.support.modules import imports_of
from tests.support.paths import ROOT

EXTRAS = ("gpu", "horovod", "mlflow", "onnx", "parquet", "serve", "tf-text", "zh")
BUILD = """
import sys
from setuptools import build_meta
print(getattr(build_meta, sys.argv[1])(sys.argv[2]))
"""


def build(what, source, target):
    command = [sys.executable, "-c", BUILD, what, target]
    done = subprocess.run(command, cwd=source, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return target / done.stdout.splitlines()[-1]


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    """The sdist, built in a copy: building leaves its marks."""
    folder = tmp_path_factory.mktemp("sdist")
    copy = folder / "copy"
    left_out = shutil.ignore_patterns(".*", "demo", "build", "dist", "*.egg-info")
    shutil.copytree(ROOT, copy, ignore=left_out)
    return build("build_sdist", copy, folder)


@pytest.fixture(scope="module")
def wheel(archive, tmp_path_factory):
    """The wheel of the sdist, unpacked."""
    folder = tmp_path_factory.mktemp("wheel")
    with tarfile.open(archive) as file:
        file.extractall(folder, filter="data")
    (source,) = folder.iterdir()
    unpacked = folder / "unpacked"
    with zipfile.ZipFile(build("build_wheel", source, folder)) as file:
        file.extractall(unpacked)
    return unpacked


def metadata(wheel):
    (path,) = wheel.glob("*.dist-info/METADATA")
    return email.message_from_string(path.read_text(encoding="utf-8"))


def test_the_wheel_holds_the_package_alone(wheel):
    held = {p.relative_to(wheel) for p in wheel.rglob("*") if p.is_file()}
    held = {path for path in held if not path.parts[0].endswith(".dist-info")}
    package = ROOT / "bert_mgpu"
    code = {*package.rglob("*.py"), *package.rglob("*.css"), package / "py.typed"}
    code |= {*(package / "serving" / "page").iterdir()}
    assert held == {path.relative_to(ROOT) for path in code}


def requirements(wheel):
    """The lines of each extra; "": what is always needed."""
    actual = {extra: [] for extra in ("", *EXTRAS)}
    for line in metadata(wheel).get_all("Requires-Dist"):
        requirement, _, marker = line.partition("; ")
        extra = re.fullmatch(r'extra == "([\w-]+)"', marker)
        actual[extra[1] if extra else ""].append(requirement)
    return actual


def pins(lines):
    """The versions of each package: one, or one for each marker."""
    actual = {}
    for line in lines:
        name, version = re.fullmatch(r"([\w.-]+)==(\S+?)(?:; .*)?", line).groups()
        actual.setdefault(re.sub(r"[_.-]+", "-", name.lower()), []).append(version)
    return actual


def lines_of(name):
    lines = (ROOT / name).read_text().splitlines()
    return [line for line in lines if not line.startswith("#")]


def test_the_requirements_and_the_extras_are_pinned(wheel):
    actual = requirements(wheel)
    assert set(metadata(wheel).get_all("Provides-Extra")) == {*EXTRAS}
    assert sorted(actual[""]) == sorted(lines_of("requirements.txt"))
    assert actual.pop("gpu") == ["tensorflow[and-cuda]"]
    for lines in actual.values():
        assert len(pins(lines)) == len(lines) > 0


def test_what_the_page_of_the_package_says(wheel):
    lines = metadata(wheel)
    assert lines["Requires-Python"] == "<3.14,>=3.10"
    assert lines["License-Expression"] == "Apache-2.0"
    assert lines["Description-Content-Type"] == "text/markdown"
    pythons = re.findall(r"Python :: (3\.\d+)", " ".join(lines.get_all("Classifier")))
    assert pythons == ["3.10", "3.11", "3.12", "3.13"]
    assert "3.10 to 3.13" in (ROOT / "Makefile").read_text()


def test_each_version_is_pinned_once(wheel):
    """Apart from what several extras and others need, which must be the same."""
    actual = requirements(wheel)
    del actual["gpu"]
    published = pins(itertools.chain(*actual.values()))
    fixed = pins(lines_of("constraints.txt"))
    assert len(published) > 15 and len(fixed) > 50
    assert {len(versions) for versions in published.values()} == {1}
    shared = published.keys() & fixed.keys()
    assert shared == {"cloudpickle", "packaging", "pyyaml", "starlette", "uvicorn"}
    assert {name: published[name] for name in shared} == {n: fixed[n] for n in shared}


def test_the_groups_are_pinned_in_the_constraints():
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]
    assert set(groups) == {"demo", "dev", "parity", "reference"}
    assert {*itertools.chain(*groups.values())} <= {*pins(lines_of("constraints.txt"))}


def at_once(path):
    """The packages that a file of tests/ imports as it is collected."""
    found, left = set(), {path}
    seen = set()
    while left:
        path = left.pop()
        seen.add(path)
        tree = ast.parse(path.read_text(encoding="utf-8"))
        outside_functions = [n for n in tree.body if not isinstance(n, ast.FunctionDef)]
        for _, name in imports_of(ast.Module(outside_functions, [])):
            found.add(name.split(".")[0])
            parts = name.split(".")
            for end in (len(parts), len(parts) - 1):
                own = ROOT.joinpath(*parts[:end]).with_suffix(".py")
                if parts[0] == "tests" and own.is_file() and own not in seen:
                    left.add(own)
    return found


def test_make_test_needs_no_package_of_parity():
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]
    imported_as = {"pytorch-crf": "torchcrf"}
    parity = {imported_as.get(name, name) for name in groups["parity"]}
    assert "torch" in at_once(ROOT / "tests/reference/sentence_vectors.py")
    needing = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "tests").rglob("*.py")
        if path.name.startswith(("test_", "conftest")) and at_once(path) & parity
    }
    assert needing == set(), "import it within a nightly test"


def test_the_hook_has_the_pinned_ruff():
    hooks = (ROOT / ".pre-commit-config.yaml").read_text()
    (version,) = re.findall(r"ruff-pre-commit\n +rev: v(\S+)", hooks)
    assert pins(lines_of("constraints.txt"))["ruff"] == [version]


def outside(wheel, *arguments, cwd):
    """Python with the wheel as if it were installed, and without the clone."""
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(wheel)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_an_installed_package_knows_its_requirements(wheel, tmp_path):
    """install_horovod and the doctor ask for them."""
    code = (
        "from bert_mgpu.cli.doctor import hardware as h\n"
        "from bert_mgpu.core import extras as e\n"
        "print(e.lines(), e.lines('horovod'), e.lines('tf_text'),"
        " h.pinned(e.lines()), e.advice('tf_text'), sep='\\n')"
    )
    shown = outside(wheel, "-c", code, cwd=tmp_path).splitlines()
    base, horovod, tf_text, tensorflow, advice = shown
    actual = requirements(wheel)
    assert base == str(actual[""]) and f"'tensorflow=={tensorflow}'" in base
    assert horovod == str(actual["horovod"])
    assert tf_text == str(actual["tf-text"])
    assert advice == "pip install 'bert_mgpu[tf_text]'"


def test_a_package_that_is_not_installed_says_how(monkeypatch):
    def missing(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "distribution", missing)
    assert extras.advice("zh") == "pip install -c constraints.txt -e '.[zh]'"
    with pytest.raises(UserError, match="not installed in this Python: run `make"):
        extras.lines("horovod")


def test_the_commands_are_the_scripts_of_a_clone(wheel, tmp_path):
    (path,) = wheel.glob("*.dist-info/entry_points.txt")
    points = configparser.ConfigParser()
    points.read_string(path.read_text())
    commands = dict(points["console_scripts"])
    assert commands.pop("bert_mgpu") == "bert_mgpu.cli.main:main"
    scripts = [*ROOT.glob("*.py"), *(ROOT / "data_prep").glob("*.py")]
    assert set(commands) == {script.stem for script in scripts}
    for name, target in commands.items():
        module = f"bert_mgpu.cli.{name.removesuffix('_mgpu')}"
        assert target == f"{module}:main"
        shown = outside(wheel, "-m", module, "--help", cwd=tmp_path)
        assert re.search(rf"^ +python (data_prep/)?{name}.py --\w+=", shown, re.M)


@pytest.mark.parametrize("name", ["run_classifier_mgpu", "data_prep/domain_vocab"])
def test_a_script_of_a_clone_names_itself(name, tmp_path):
    shown = subprocess.check_output(
        [sys.executable, ROOT / f"{name}.py", "--help"], cwd=tmp_path, text=True
    )
    assert f"python {name}.py --" in shown


def test_a_script_beside_the_clone_finds_the_package(tmp_path):
    """Its folder is first on the path, and the clone's has the package's name there."""
    (tmp_path / "bert_mgpu").mkdir()
    code = "import bert_mgpu; print(bert_mgpu.load.__name__)"
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    command = [sys.executable, "-c", code]
    printed = subprocess.check_output(command, cwd=tmp_path, env=environment, text=True)
    assert printed == "load\n"


def test_advice_for_an_editable_install_keeps_the_clone(monkeypatch):
    class Distribution:
        origin = '{"dir_info": {"editable": true}, "url": "file:///clone"}'

        def read_text(self, name):
            return self.origin if name == "direct_url.json" else None

    found = Distribution()
    monkeypatch.setattr(importlib.metadata, "distribution", lambda name: found)
    assert extras.advice("zh") == "pip install -c constraints.txt -e '.[zh]'"
    found.origin = None  # a wheel of an index
    assert extras.advice("zh") == "pip install 'bert_mgpu[zh]'"
