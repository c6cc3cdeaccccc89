"""Horovod's build requirements, patches of its source, and the installed Horovod.

Neither Horovod nor TensorFlow is imported here.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import pathlib
import platform
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from bert_mgpu.core.errors import RunError, UserError
from bert_mgpu.core.units import size_text

VERSION = "0.28.1"
TENSORFLOW = "2.21"
BUILD_SPACE = 2 << 30  # bytes on the disk

Environ = Mapping[str, str]


def compiler(environ: Environ) -> str:
    """The command of a compiler that supports C++17: $CXX, g++ or clang++."""
    names = [environ["CXX"]] if environ.get("CXX") else ["g++", "clang++"]
    present = [name for name in names if _which(shlex.split(name)[0], environ)]
    if not present:
        raise UserError(
            f"no C++ compiler ({', '.join(names)}): apt-get install g++, or yum install"
            " gcc-c++, or set CXX to another one"
        )
    test = [*shlex.split(present[0]), "-std=c++17", "-fsyntax-only", "-x", "c++", "-"]
    program = "#include <optional>\nstd::optional<int> one;\n"
    compiled = subprocess.run(
        test, env=dict(environ), input=program, text=True, capture_output=True
    )
    if compiled.returncode:
        raise UserError(
            f"{present[0]}: cannot compile C++17: install g++ 9 or later, or set CXX to"
            " another compiler"
        )
    return present[0]


def make(environ: Environ) -> None:
    """Raises UserError where make is missing."""
    if not _which("make", environ):
        raise UserError("no make: apt-get install make, or yum install make")


def pip(environ: Environ) -> None:
    """Raises UserError where pip is missing."""
    if not importlib.util.find_spec("pip"):
        raise UserError(f"no pip: {sys.executable} -m ensurepip")


def tensorflow(environ: Environ) -> str:
    """The version of the TensorFlow that Horovod is built for."""
    for name in ("tensorflow", "tensorflow-cpu"):
        for package in importlib.metadata.distributions(name=name):
            if package.version.split(".")[:2] == TENSORFLOW.split("."):
                return package.version
            raise UserError(
                f"{name} {package.version} is installed, not {TENSORFLOW}: make setup"
            )
    raise UserError(f"no TensorFlow for {sys.executable}: make setup")


def disk_space(environ: Environ) -> None:
    """Raises UserError where the temporary folder has too little free space."""
    folder = tempfile.gettempdir()
    if (free := shutil.disk_usage(folder).free) < BUILD_SPACE:
        raise UserError(
            f"{folder}: {size_text(free)} free, the build needs"
            f" {size_text(BUILD_SPACE)}: free some, or set TMPDIR to another folder"
        )


CHECKS: tuple[Callable[[Environ], object], ...]
CHECKS = (compiler, make, pip, tensorflow, disk_space)


def missing(environ: Environ) -> list[str]:
    """The missing requirements of the build, one line each, with advice."""
    lines = []
    for check in CHECKS:
        try:
            check(environ)
        except UserError as error:
            lines.append(str(error))
    return lines


def _which(name: str, environ: Environ) -> str | None:
    return shutil.which(name, path=environ.get("PATH", ""))


class Patch(NamedTuple):
    """A text that occurs once in a file of Horovod's source, and its replacement."""

    file: str
    old: str
    new: str


_SHELL = "horovod/runner/common/util/safe_shell_exec.py"
PATCHES = (
    # Disabled: TensorFlow 2.19 moved its headers, and it only adds XLA custom calls.
    Patch(
        "horovod/tensorflow/xla_mpi_ops.cc",
        "#if TENSORFLOW_VERSION >= 2006000000\n",
        "#if 0\n",
    ),
    # This file gets a GPU's stream from a function that TensorFlow no longer exports:
    # unpatched, a build with NCCL cannot be loaded.
    Patch(
        "horovod/tensorflow/mpi_ops.cc",
        '#else\n#include "tensorflow/stream_executor/stream.h"\n'
        "#endif // TENSORFLOW_VERSION >= 2011000000\n",
        "#endif\n"
        "GpuStreamHandle stream_executor::gpu::AsGpuStreamValue(Stream* stream) {\n"
        "  auto handle = stream->platform_specific_handle();\n"
        "  return static_cast<GpuStreamHandle>(handle.stream);\n"
        "}\n",
    ),
    # The time from SIGTERM to SIGKILL: saving a large model takes longer than 5 s.
    Patch(
        _SHELL, "GRACEFUL_TERMINATION_TIME_S = 5", "GRACEFUL_TERMINATION_TIME_S = 30"
    ),
    # SIGTERM goes to the children of a rank's shell. Where /bin/sh is bash, the rank
    # replaces the shell and has no children: it is stopped and killed before it can
    # save. A second command keeps the shell.
    Patch(
        _SHELL,
        "subprocess.Popen(command, shell=True",
        "subprocess.Popen(command + '\\nexit $?', shell=True",
    ),
    # Unpatched, the children are listed twice, and those that end in between are not
    # waited for: the shell may be stopped before it can report the rank's exit code.
    Patch(
        _SHELL,
        "    for child in p.children():\n",
        "    children = p.children()\n    for child in children:\n",
    ),
    Patch(
        _SHELL,
        "psutil.wait_procs(p.children(), timeout=GRACEFUL_TERMINATION_TIME_S)\n",
        "psutil.wait_procs(children, timeout=GRACEFUL_TERMINATION_TIME_S)\n"
        "    if gone and not alive:\n        return\n",
    ),
    # A stopped shell does not end on SIGTERM: waiting longer is useless.
    Patch(_SHELL, "p.wait(timeout=GRACEFUL_TERMINATION_TIME_S)", "p.wait(timeout=5)"),
)


def apply(patch: Patch, source: pathlib.Path) -> None:
    """Patches Horovod's source.

    Raises:
      RunError: the text does not occur exactly once.
    """
    path = source / patch.file
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    if (count := text.count(patch.old)) != 1:
        raise RunError(
            f"{path}: {patch.old.strip()!r} occurs {count} times instead of once:"
            f" this is not the source of horovod {VERSION}: please report it"
        )
    path.write_text(text.replace(patch.old, patch.new), encoding="utf-8")


class Installed(NamedTuple):
    """An installed Horovod."""

    version: str
    tensorflow: str  # the version it was built for; empty: none
    has: tuple[str, ...]  # which of gloo, NCCL and MPI
    patched: bool  # horovodrun lets its ranks save when it is stopped
    stamp: str  # differs for every build


def installed(site: pathlib.Path | None = None) -> Installed | None:
    """The Horovod in a site-packages folder, by default that of this Python."""
    paths = [str(site or sysconfig.get_path("platlib"))]
    package = next(
        iter(importlib.metadata.distributions(name="horovod", path=paths)), None
    )
    if package is None:
        return None
    folder = pathlib.Path(str(package.locate_file("")))
    library = next(folder.glob("horovod/tensorflow/mpi_lib*.so"), None)
    symbols = library.read_bytes() if library else b""
    parts = (("gloo", b"GlooContext"), ("NCCL", b"ncclAllReduce"), ("MPI", b"MPI_Init"))
    built = re.search(
        r'"tensorflow": "([^"]*)"', _text(folder / "horovod/metadata.json")
    )
    tensorflow = built[1] if built and library else ""
    runner = _text(folder / _SHELL)
    built_at = library and library.stat().st_mtime_ns
    return Installed(
        package.version,
        tensorflow,
        tuple(name for name, symbol in parts if symbol in symbols),
        patched=all(patch.new in runner for patch in PATCHES if patch.file == _SHELL),
        stamp=f"{package.version} {tensorflow} {built_at}",
    )


def _text(path: pathlib.Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""


def find_cuda(
    environ: Environ, folders: Sequence[str] = ("/usr/local",)
) -> pathlib.Path | None:
    """The folder of a CUDA toolkit with its compiler and headers."""
    named = [environ.get(key) for key in ("HOROVOD_CUDA_HOME", "CUDA_HOME")]
    homes = [pathlib.Path(name) for name in named if name]
    if nvcc := shutil.which("nvcc", path=environ.get("PATH", "")):
        homes.append(pathlib.Path(nvcc).resolve().parents[1])
    for folder in folders:
        homes += sorted(pathlib.Path(folder).glob("cuda*"))
    parts = ("bin/nvcc", "include/cuda_runtime.h")
    complete = (home for home in homes if all((home / p).exists() for p in parts))
    return next(complete, None)


class Nccl(NamedTuple):
    """NCCL's folder of headers and its shared library."""

    include: pathlib.Path
    library: pathlib.Path

    @property
    def version(self) -> str:
        numbers = [
            re.search(rf"#define NCCL_{part} +(\d+)", _text(self.include / "nccl.h"))
            for part in ("MAJOR", "MINOR", "PATCH")
        ]
        return ".".join(number[1] for number in numbers if number)


def find_nccl(
    environ: Environ,
    prefixes: Sequence[str] = ("/usr", "/usr/local", "/usr/local/cuda", "/opt/nccl"),
    site: pathlib.Path | None = None,
) -> Nccl | None:
    """The NCCL to build with: preferably pip's, which TensorFlow loads."""
    pip_home = pathlib.Path(site or sysconfig.get_path("platlib"), "nvidia", "nccl")
    named = environ.get("HOROVOD_NCCL_HOME")
    homes = [named] if named else [str(pip_home), *prefixes]
    libs = ("lib", "lib64", f"lib/{platform.machine()}-linux-gnu")
    for folder in map(pathlib.Path, homes):
        if not (folder / "include" / "nccl.h").exists():
            continue
        for lib in libs:
            for library in sorted((folder / lib).glob("libnccl.so*")):
                return Nccl(folder / "include", library)
    return None
