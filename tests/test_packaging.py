"""What pip gets: an archive, a wheel built from it, extras, commands."""

import configparser
import email
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile

import pytest

from bert_mgpu.core import extras
from tests.support.paths import ROOT

EXTRAS = ("gpu", "horovod", "onnx", "parquet", "zh")
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
    code = {*package.rglob("*.py"), package / "py.typed"}
    assert held == {path.relative_to(ROOT) for path in code}


def test_the_extras_are_the_requirements_files(wheel):
    said = metadata(wheel)
    assert set(said.get_all("Provides-Extra")) == {*EXTRAS}
    found = {extra: [] for extra in ("", *EXTRAS)}
    for line in said.get_all("Requires-Dist"):
        requirement, _, marker = line.partition("; ")
        extra = re.fullmatch(r'extra == "(\w+)"', marker)
        found[extra[1] if extra else ""].append(requirement)
    for extra, lines in found.items():
        path = extras.file(extra)
        text = [line for line in path.read_text().splitlines() if line[0] != "#"]
        assert sorted(lines) == sorted(text) and lines, path
        assert extras.lines(extra) == text


def test_what_the_page_of_the_package_says(wheel):
    said = metadata(wheel)
    assert said["Requires-Python"] == "<3.14,>=3.10"
    assert said["License-Expression"] == "Apache-2.0"
    assert said["Description-Content-Type"] == "text/markdown"
    pythons = re.findall(r"Python :: (3\.\d+)", " ".join(said.get_all("Classifier")))
    assert pythons == ["3.10", "3.11", "3.12", "3.13"]
    assert "3.10 to 3.13" in (ROOT / "Makefile").read_text()


def test_each_version_is_pinned_in_one_file():
    """Apart from what pip is to hold fixed beside it, which must be the same."""
    places = {}
    for path in ROOT.glob("requirements*.txt"):
        for name in re.findall(r"^([\w-]+)\S*==", path.read_text(), re.MULTILINE):
            places.setdefault(name.lower(), []).append(path.name)
    assert len(places) > 15
    assert {name: files for name, files in places.items() if len(files) > 1} == {}


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
    """install_horovod and the doctor ask for them; a clone has files."""
    code = (
        "from bert_mgpu.cli.doctor import hardware as h\n"
        "from bert_mgpu.core import extras as e\nprint(e.lines(),"
        " e.lines('horovod'), e.advice('zh'), h.pinned(e.lines()), sep='\\n')"
    )
    base, horovod, advice, tensorflow = outside(
        wheel, "-c", code, cwd=tmp_path
    ).splitlines()
    assert base == str(extras.lines())
    assert horovod == str(extras.lines("horovod"))
    assert advice == "pip install 'bert_mgpu[zh]'"
    assert f"'tensorflow=={tensorflow}'" in base
    assert extras.advice("zh").endswith("requirements-zh.txt")


def test_the_commands_are_the_scripts_of_a_clone(wheel, tmp_path):
    (path,) = wheel.glob("*.dist-info/entry_points.txt")
    points = configparser.ConfigParser()
    points.read_string(path.read_text())
    commands = dict(points["console_scripts"])
    assert commands.pop("bert_mgpu") == "bert_mgpu.cli.main:main"
    scripts = [*ROOT.glob("run_*.py"), *(ROOT / "data_prep").glob("*.py")]
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
