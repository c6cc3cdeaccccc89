"""Builds Horovod 0.28.1 for the TensorFlow of this venv, and tests it.

  bert_mgpu install_horovod

The build needs a C++17 compiler and make. With the CUDA toolkit and NCCL,
processes exchange gradients from GPU to GPU. HOROVOD_* variables of the
environment take precedence.
Exit codes: 0 installed and working, 1 the build failed, 2 something is missing.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Sequence

from bert_mgpu.cli import script
from bert_mgpu.cli.doctor import horovod_probe
from bert_mgpu.cli.doctor.horovod_probe import VERSION, Environ
from bert_mgpu.core import extras
from bert_mgpu.core.errors import RunError, UserError
from bert_mgpu.core.log import show

SHA256 = "92a43f5a94c43907a56805bad15f19700c62ffc83b7ca483f9e104e229f67ef0"
LOG = pathlib.Path(sys.prefix, "horovod-build.log")
# Holds the stamp of the build that passed the test with two processes.
PROVED = pathlib.Path(sys.prefix, ".horovod-proved")
# The build needs other versions than constraints.txt: these stay out of the venv.
TOOLS = ("setuptools==80.10.2", "wheel==0.48.0", "packaging==26.3", "cmake==3.31.10")
GPU = "HOROVOD_GPU_OPERATIONS"
COMPILER = 1 << 30  # bytes of memory that a compiler takes for TensorFlow's headers
BUILD = {
    "HOROVOD_WITH_TENSORFLOW": "1",
    "HOROVOD_WITHOUT_PYTORCH": "1",
    "HOROVOD_WITHOUT_MXNET": "1",
    "HOROVOD_WITHOUT_MPI": "1",
    "HOROVOD_WITH_GLOO": "1",
}
PROOF = """
import tensorflow as tf, horovod.tensorflow as hvd
hvd.init()
total = hvd.allreduce(tf.constant(hvd.rank() + 1.0), op=hvd.Sum)
print(f"rank {hvd.rank()} of {hvd.size()} has {float(total)};")
"""
SUMS = ("rank 0 of 2 has 3.0;", "rank 1 of 2 has 3.0;")
PATIENCE = 300  # seconds: two processes import TensorFlow, perhaps on a busy machine


def for_nccl(environ: Environ) -> tuple[dict[str, str], str]:
    """The variables to build with NCCL, and its location; or none, and the reason.

    Raises:
      UserError: NCCL was requested and is missing.
    """
    asked = environ.get(GPU)
    if asked not in (None, "NCCL"):
        return {}, f"{GPU}={asked}"
    cuda, nccl = horovod_probe.find_cuda(environ), horovod_probe.find_nccl(environ)
    if cuda and nccl:
        return {
            GPU: "NCCL",
            "HOROVOD_CUDA_HOME": str(cuda),
            "HOROVOD_NCCL_INCLUDE": str(nccl.include),
            "HOROVOD_NCCL_LIB": str(nccl.library.parent),
            "HOROVOD_NCCL_LINK": "SHARED",
        }, f"NCCL {nccl.version}, {cuda}"
    shortage = "no libnccl found" if cuda else "no CUDA found"
    if asked:
        raise UserError(
            f"{GPU}={asked}: {shortage}: set HOROVOD_CUDA_HOME and HOROVOD_NCCL_HOME,"
            f" or unset {GPU}"
        )
    return {}, shortage


def name_for_linkers(folder: pathlib.Path) -> None:
    """Links libnccl.so, which linkers look for and pip's package lacks."""
    if not (folder / "libnccl.so").exists():
        (folder / "libnccl.so").symlink_to("libnccl.so.2")


def reason(log: str) -> str:
    """The first error in a log; CMake writes its own on the next line."""
    match = re.search(
        r"^.*([Ee]rror: |ERROR: |CMake Error).*(?<!:)$",
        re.sub(r":\n\s*", ": ", log),
        re.M,
    )
    return match[0].strip()[:200] if match else "no reason was given"


def step(
    title: str, command: Sequence[str], environ: Environ, *, seconds: int | None = None
) -> str:
    """Runs a command; its output goes to the log and is returned.

    Raises:
      RunError: it failed, or took longer than `seconds`.
    """
    with LOG.open("a+", errors="replace") as log:
        log.write(f"\n$ {shlex.join(command)}\n")
        log.flush()
        start = log.tell()
        try:
            code = subprocess.run(
                command,
                env=dict(environ),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                timeout=seconds,
            ).returncode
        except subprocess.TimeoutExpired:
            raise RunError(f"{title}: not done after {seconds} s: see {LOG}") from None
        log.seek(start)
        text = log.read()
    if code:
        raise RunError(f"{title} failed: {reason(text)}: see {LOG}")
    return text


def run_pip(title: str, *arguments: object, environ: Environ) -> None:
    """Runs pip as a step."""
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    step(title, [*command, *map(str, arguments)], environ)


def download(folder: pathlib.Path, environ: Environ, sha256: str = SHA256) -> None:
    """Downloads Horovod's source; pip refuses one with another hash before it runs."""
    pinned = folder / "source.txt"
    pinned.write_text(f"horovod=={VERSION} --hash=sha256:{sha256}\n")
    options = "--require-hashes --no-deps --no-build-isolation --no-binary=horovod"
    command = ["download", *options.split(), "--dest", folder, "-r", pinned]
    run_pip(f"the download of horovod {VERSION}", *command, environ=environ)


def build(folder: pathlib.Path, environ: Environ) -> pathlib.Path:
    """Unpacks, patches and builds the download; returns the wheel."""
    source = folder / f"horovod-{VERSION}"
    shutil.rmtree(source, ignore_errors=True)  # a failed build leaves files behind
    shutil.unpack_archive(folder / f"{source.name}.tar.gz", folder)
    for patch in horovod_probe.PATCHES:
        horovod_probe.apply(patch, source)
    command = ["wheel", "-v", "--no-build-isolation", "--no-deps", "-w", folder, source]
    run_pip(f"the build of horovod {VERSION}", *command, environ=environ)
    return next(folder.glob("*.whl"))


def build_environment(environ: Environ, tools: pathlib.Path) -> dict[str, str]:
    """The environment of the build; HOROVOD_* variables of environ take precedence."""
    cores, memory = len(os.sched_getaffinity(0)), os.sysconf("SC_PHYS_PAGES")
    jobs = max(1, min(cores, memory * os.sysconf("SC_PAGE_SIZE") // COMPILER))
    folders = [pathlib.Path(sys.executable).parent, tools / "bin"]
    if cuda := environ.get("HOROVOD_CUDA_HOME"):
        folders.append(pathlib.Path(cuda, "bin"))
    opposite = {"WITH": "WITHOUT", "WITHOUT": "WITH"}
    ours = {
        name: value
        for name, value in BUILD.items()
        if re.sub("WITH(OUT)?", lambda part: opposite[part[0]], name) not in environ
    }
    return {
        **ours,
        **environ,
        "CXX": horovod_probe.compiler(environ),
        "MAKEFLAGS": f"-j{jobs}",  # else those of `make horovod` apply
        "PATH": os.pathsep.join([*map(str, folders), environ.get("PATH", "")]),
        "PYTHONPATH": str(tools),
    }


def prove(environ: Environ) -> None:
    """Tests an all-reduce of two processes on this machine.

    Raises:
      RunError: it failed.
    """
    own = {k: v for k, v in environ.items() if not k.startswith("HOROVOD_")}
    run = [str(pathlib.Path(sysconfig.get_path("scripts"), "horovodrun")), "-np", "2"]
    run += [f"--start-timeout={PATIENCE}", f"--gloo-timeout-seconds={PATIENCE}"]
    quiet = {**own, "CUDA_VISIBLE_DEVICES": "", "TF_CPP_MIN_LOG_LEVEL": "2"}
    load = [sys.executable, "-c", "import horovod.tensorflow"]
    # First, because horovodrun hides why an import fails.
    step("the import of horovod", load, quiet, seconds=PATIENCE)
    title = "an all-reduce of two processes"
    output = step(title, [*run, sys.executable, "-c", PROOF], quiet, seconds=PATIENCE)
    if not all(line in output for line in SUMS):
        raise RunError(f"{title}: no sum of 3 on both of them: see {LOG}")
    if horovod := horovod_probe.installed():
        PROVED.write_text(horovod.stamp)


def install_wheel(wheel: pathlib.Path, needs: Sequence[str], environ: Environ) -> None:
    """Installs a wheel and its requirements, and tests it."""
    for arguments in (needs, ("--no-index", "--force-reinstall", wheel)):
        run_pip("the installation", "install", "--no-deps", *arguments, environ=environ)
    prove(environ)


def install(needs: Sequence[str], environ: Environ) -> str:
    """Builds and installs Horovod; returns why it lacks NCCL, if it does."""
    nccl, note = for_nccl(environ)
    with tempfile.TemporaryDirectory(prefix="horovod-") as name:
        folder, tools = pathlib.Path(name), pathlib.Path(name, "tools")
        fetched = ("install", "--target", tools, *TOOLS)
        run_pip("the download of its tools", *fetched, environ=environ)
        download(folder, build_environment(environ, tools))
        show(
            f"building with gloo {f'and {note}' if nccl else f'({note})'}, for minutes"
        )
        began = time.monotonic()
        if nccl:
            name_for_linkers(pathlib.Path(nccl["HOROVOD_NCCL_LIB"]))
        try:
            built = build(folder, build_environment({**nccl, **environ}, tools))
            install_wheel(built, needs, environ)
        except RunError as error:
            if not nccl or GPU in environ:
                raise
            note = "its build failed"
            show(f"no NCCL: {error}")
            show("building without it: GPUs exchange gradients through the CPU, slower")
            built = build(folder, build_environment(environ, tools))
            install_wheel(built, needs, environ)
        show(f"built in {time.monotonic() - began:.0f} s")
    return note


def works(environ: Environ) -> bool:
    """Whether this Horovod version is installed for this TensorFlow, and tested."""
    horovod = horovod_probe.installed()
    if horovod is None or not PROVED.exists() or PROVED.read_text() != horovod.stamp:
        return False
    versions = (VERSION, horovod_probe.tensorflow(environ))
    lacks_nccl = environ.get(GPU) == "NCCL" and "NCCL" not in horovod.has
    built_for = horovod.version, horovod.tensorflow
    return built_for == versions and horovod.patched and not lacks_nccl


def run(force: bool) -> int:
    """Installs Horovod unless it works already; returns the exit code."""
    environ = dict(os.environ)
    if missing := horovod_probe.missing(environ):
        for line in missing:
            script.fail(UserError(line))
        return UserError.exit_code
    if force or not works(environ):
        LOG.write_text("")
        needs = extras.lines("horovod")
        show(f"horovod {VERSION} for TensorFlow {horovod_probe.tensorflow(environ)}")
        show(f"log: {LOG}")
        without = install(needs, environ)
    else:
        nccl, without = for_nccl(environ)
        without = "--force builds with it" if nccl else without
    horovod = horovod_probe.installed()
    has = horovod.has if horovod else ()
    built = " and ".join(has) + ("" if "NCCL" in has else f"; no NCCL: {without}")
    show(f"horovod {VERSION} is installed ({built}): horovodrun -np 2 ... works")
    return 0


def main(argv: Sequence[str]) -> int:
    """Runs the command; returns the exit code."""
    parser = script.OneLineParser(
        prog="bert_mgpu install_horovod",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "--force", action="store_true", help="build it even if it works already"
    )
    options = parser.parse_args(argv)
    return script.explained(lambda: run(options.force), "start it again")
