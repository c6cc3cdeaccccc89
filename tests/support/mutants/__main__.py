"""Plants the faults of table.py one by one: python -m tests.support.mutants [WORD ...]

With words, only those whose names hold one of them. Two processes have a copy of the
clone each; every fault is planted in one of them and met by its tests in a child, for
which TensorFlow was imported once for all. Exit code 1 where more than one of twenty
survives.
"""

from __future__ import annotations

import concurrent.futures
import multiprocessing
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

from tests.support.mutants.mutant import Mutant
from tests.support.mutants.table import MUTANTS
from tests.support.paths import ROOT

KILLED, SURVIVED = 1, 0  # pytest's exit codes
LEAST = 0.95  # of the faults are to be noticed
JOBS = 2  # at once


def copied(target: pathlib.Path) -> None:
    """The files of the clone, and a link to the data beside it."""
    listed = ["git", "ls-files", "-co", "--exclude-standard"]
    names = subprocess.check_output(listed, cwd=ROOT, text=True).splitlines()
    for name in filter(lambda name: (ROOT / name).is_file(), names):
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, target / name)
    if (ROOT.parent / "shared").exists():
        (target.parent / "shared").symlink_to(ROOT.parent / "shared")


def arguments(mutant: Mutant) -> list[str]:
    """pytest's: the files, and what follows them as an expression of -k."""
    words = mutant.tests.split(" ")
    files = [word for word in words if word.endswith(".py")]
    names = " ".join(word for word in words if not word.endswith(".py"))
    options = ["-q", "-x", "-n0", "-p", "no:cacheprovider", "--quick"]
    return [*options, *(["-k", names] if names else []), *(f"tests/{f}" for f in files)]


def begin(folder: str) -> None:
    """The copy of a process that plants faults."""
    global _tree
    _tree = pathlib.Path(tempfile.mkdtemp(dir=folder), "tree")
    copied(_tree)


def met(mutant: Mutant) -> tuple[Mutant, int, float]:
    """pytest's exit code of the mutant's tests, in a child process; seconds."""
    began = time.perf_counter()
    code = _met(mutant, _tree)
    return mutant, code, time.perf_counter() - began


def _met(mutant: Mutant, tree: pathlib.Path) -> int:
    file = tree / "bert_mgpu" / mutant.file
    text = file.read_text(encoding="utf-8")
    assert text.count(mutant.old) == 1, f"{mutant.name}: not once in {mutant.file}"
    file.write_text(text.replace(mutant.old, mutant.new), encoding="utf-8")
    child = os.fork()
    if not child:
        import pytest

        os.chdir(tree)
        sys.path[:] = [str(tree), *(p for p in sys.path if p not in ("", str(ROOT)))]
        for name in [one for one in sys.modules if one.split(".")[0] == "tests"]:
            del sys.modules[name]
        with open(os.devnull, "w") as nothing:
            os.dup2(nothing.fileno(), 1)
            os.dup2(nothing.fileno(), 2)
        os._exit(int(pytest.main(arguments(mutant))))
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    file.write_text(text, encoding="utf-8")
    return status


def main() -> int:
    import tensorflow  # noqa: F401  # once, for all children

    words = sys.argv[1:]
    chosen = [m for m in MUTANTS if not words or any(word in m.name for word in words)]
    survivors = []
    fork = multiprocessing.get_context("fork")
    with (
        tempfile.TemporaryDirectory() as folder,
        concurrent.futures.ProcessPoolExecutor(
            JOBS, fork, initializer=begin, initargs=(folder,)
        ) as pool,
    ):
        for mutant, code, seconds in pool.map(met, chosen):
            verdict = {KILLED: "killed", SURVIVED: "SURVIVED"}.get(
                code, f"pytest: {code}"
            )
            print(f"{verdict:>9}  {seconds:5.1f} s  {mutant.name}", flush=True)
            if code != KILLED:
                survivors.append(mutant.name)
    killed = len(chosen) - len(survivors)
    print(f"{killed} of {len(chosen)} killed ({killed / max(1, len(chosen)):.0%})")
    return int(killed < LEAST * len(chosen))


if __name__ == "__main__":
    sys.exit(main())
