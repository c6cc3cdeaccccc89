"""What the commands of users do, kept so that two commits can be compared.

    python -m tests.support.behaviour record TREE FOLDER   runs the commands of a tree
    python -m tests.support.behaviour compare ONE OTHER    says what differs
    python -m tests.support.behaviour between COMMIT       both, with this tree: see
                                                           make behaviour

Exit code 1 where anything differs.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import difflib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

from tests.support.behaviour import readable, workspace
from tests.support.behaviour.commands import CASES, PROGRAMS, Step
from tests.support.paths import ROOT

_SHOWN = 12  # lines of a difference


def record(tree: pathlib.Path, folder: pathlib.Path) -> None:
    """Runs all cases with the code of a tree; a text file for each file in a folder."""
    with tempfile.TemporaryDirectory() as temporary:
        start = pathlib.Path(temporary, "start")
        workspace.make(start)
        works = [pathlib.Path(temporary, str(number)) for number in range(len(CASES))]
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            done = pool.map(
                lambda pair: _case(tree, start, *pair), zip(works, CASES, strict=True)
            )
            for name, work, kept in zip(CASES, works, done, strict=True):
                paths = {sys.prefix: "VENV", str(work): "WORK", str(tree): "TREE"}
                for file, lines in kept.items():
                    _write(folder / name / file, lines, paths)
                for path in sorted(work.rglob("*")):
                    if path.is_file() and not (start / path.relative_to(work)).exists():
                        short = readable.name_of(path.relative_to(work))
                        _write(folder / name / short, readable.read(path, paths), {})
                print(f"{name}: {sum(1 for _ in (folder / name).rglob('*'))} files")


def _write(path: pathlib.Path, lines: list[str], paths: dict[str, str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [readable.blanked(line, paths) for line in lines] if paths else lines
    with path.open("a", encoding="utf-8") as file:  # of two files of one name, both
        file.writelines(f"{line}\n" for line in lines)


def _case(
    tree: pathlib.Path, start: pathlib.Path, work: pathlib.Path, name: str
) -> dict[str, list[str]]:
    shutil.copytree(start, work)
    kept = {}
    for number, step in enumerate(CASES[name], 1):
        done = subprocess.run(
            _command(tree, step),
            cwd=work,
            input=step.stdin,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
            env={**os.environ, "PYTHONPATH": str(tree), "CUDA_VISIBLE_DEVICES": ""},
        )
        kept[f"step {number}"] = [
            f"{step.program}: exit code {done.returncode}",
            *(f"stdout: {line}" for line in done.stdout.splitlines()),
            *(f"stderr: {line}" for line in _ours(done.stderr)),
        ]
    return kept


def _command(tree: pathlib.Path, step: Step) -> list[str]:
    for program in PROGRAMS[step.program]:
        if program[0] == "-m" or (tree / program[0]).exists():
            break
    else:
        raise AssertionError(f"{tree}: no {step.program}")
    where = program if program[0] == "-m" else [str(tree / program[0]), *program[1:]]
    flags = [
        f"--{name}" if value is True and name == "help" else f"--{name}={_said(value)}"
        for name, value in step.flags.items()
        if value is not None
    ]
    return [sys.executable, *where, *flags]


def _said(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _ours(text: str) -> list[str]:
    """Without what TensorFlow says, and with a bar's last state alone."""
    lines = [line.rsplit("\r", 1)[-1] for line in text.splitlines()]
    foreign = ("WARNING: All log messages", "To enable the following", "I0000", "E0000")
    return [line for line in lines if not line.startswith(foreign)]


def compare(one: pathlib.Path, other: pathlib.Path) -> int:
    """Prints what differs; how many files do."""
    names = sorted(
        {
            str(path.relative_to(folder))
            for folder in (one, other)
            for path in folder.rglob("*")
            if path.is_file()
        }
    )
    different = 0
    for name in names:
        texts = [
            path.read_text(encoding="utf-8").splitlines() if path.exists() else []
            for path in (one / name, other / name)
        ]
        if texts[0] == texts[1] and (one / name).exists() == (other / name).exists():
            continue
        different += 1
        lines = [*difflib.unified_diff(*texts, lineterm="", n=0)][2:]
        changed = [line for line in lines if not line.startswith("@@")]
        print(f"{name}: {len(changed)} lines")
        for line in changed[:_SHOWN]:
            print(f"  {line[:300]}")
    print(f"{len(names)} files, {different} of them different")
    return different


@contextlib.contextmanager
def _tree_of(commit: str, folder: pathlib.Path):
    """A worktree of a commit."""
    git = ["git", "-C", str(ROOT), "worktree"]
    subprocess.run([*git, "add", "-q", "--detach", folder, commit], check=True)
    try:
        yield folder
    finally:
        subprocess.run([*git, "remove", "--force", folder], check=True)


def between(commit: str) -> int:
    """How many files of this tree's runs differ from those of a commit."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        with _tree_of(commit, folder / "tree") as tree:
            record(tree, folder / "before")
        record(ROOT, folder / "now")
        return compare(folder / "before", folder / "now")


def main() -> int:
    what, *rest = sys.argv[1:] or ["help"]
    if what == "record":
        record(*(pathlib.Path(one).absolute() for one in rest))
        return 0
    if what == "compare":
        return int(compare(*map(pathlib.Path, rest)) > 0)
    if what == "between":
        return int(between(*rest) > 0)
    print(__doc__)
    return 2


if __name__ == "__main__":
    sys.exit(main())
