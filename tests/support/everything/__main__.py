"""All tests there are, in parts: python -m tests.support.everything

A part ends after --minutes, and the same command goes on with the tests of this commit
that have not passed; they are kept in .test_all/, with why others failed. Exit code 0
when all have passed, 1 where one failed, 75 where time was up.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import pathlib
import signal
import subprocess
import sys
import time

from tests.support.everything import passed
from tests.support.paths import ROOT

KEPT = ROOT / ".test_all"
# With a name, by which it is known to have passed; pytest's tests are known one by one.
COMMANDS = {"make parity": ["make", "parity"]}
# A process has the tests of a file, with what they share; dear files come first.
SPREAD = ("-n", "2", "--dist", "loadfile", "--no-loadscope-reorder")
LONG = ("-o", "faulthandler_timeout=1180")  # as the tests that take minutes may
NOTHING_LEFT = 5  # pytest's exit code
AGAIN = 75


def _git(*arguments: str) -> bytes:
    return subprocess.check_output(["git", *arguments], cwd=ROOT)


def version() -> str:
    """The commit, and a hash of what differs from it."""
    changed = _git("diff", "HEAD")
    for name in _git("ls-files", "-o", "--exclude-standard", "-z").split(b"\0"):
        if name:
            changed += name + (ROOT / os.fsdecode(name)).read_bytes()
    commit = _git("rev-parse", "HEAD").decode().strip()
    return commit + (f"-{hashlib.sha256(changed).hexdigest()[:12]}" if changed else "")


def run(command: list[str], until: float, env: dict[str, str]) -> int:
    """The exit code of a command, which gets Ctrl-C when its time is up: AGAIN."""
    process = subprocess.Popen(command, cwd=ROOT, env=env)
    try:
        return process.wait(max(1.0, until - time.monotonic()))
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        return AGAIN


def tests(now: pathlib.Path, until: float, options: list[str], env: dict) -> int:
    """pytest's exit code, 0 also where nothing was left to do."""
    before = now.with_suffix(".before")
    before.write_bytes(now.read_bytes() if now.exists() else b"")
    env = {**env, passed.BEFORE: str(before), passed.NOW: str(now)}
    plugin = ["-p", "tests.support.everything.passed"]
    command = [sys.executable, "-m", "pytest", "-m", "", *plugin, *options]
    code = run(command, until, env)
    return 0 if code == NOTHING_LEFT else code


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=30, help="of this part")
    parser.add_argument("--coverage", action="store_true", help="with branches")
    parser.add_argument("pytest", nargs="*", help="of it alone: behind --")
    asked = parser.parse_args()
    until = time.monotonic() + 60 * asked.minutes
    KEPT.mkdir(exist_ok=True)
    now = KEPT / f"{version()}.passed"
    env, options = dict(os.environ), [*SPREAD, *LONG, *asked.pytest]
    if asked.coverage:
        env["COVERAGE_FILE"] = str(now.with_suffix(".coverage"))
        cov = ["--cov=bert_mgpu", "--cov-branch", "--cov-append", "--cov-report="]
        options += cov
    codes = [tests(now, until, options, env)]
    for name, command in ({} if asked.pytest else COMMANDS).items():
        done = now.read_text().splitlines() if now.exists() else []
        if name in done:
            continue
        codes.append(run(command, until, env) if time.monotonic() < until else AGAIN)
        if codes[-1] == 0:
            with now.open("a") as file:
                file.write(f"{name}\n")
    count = len(now.read_text().splitlines()) if now.exists() else 0
    failed = any(code not in (0, AGAIN) for code in codes)
    left = AGAIN in codes
    if not failed and not left:
        passed.failures(now).unlink(missing_ok=True)  # of earlier parts: they pass now
    print(
        f"{count} passed so far, of this commit"
        + ("; some failed, see above" if failed else "")
        + (f"; why: {why}" if (why := passed.failures(now)).exists() else "")
        + ("; time was up: run the same command again to resume" if left else "")
    )
    if asked.coverage and not failed and not left:
        subprocess.run([sys.executable, "-m", "coverage", "report"], cwd=ROOT, env=env)
    return 1 if failed else AGAIN if left else 0


if __name__ == "__main__":
    sys.exit(main())
