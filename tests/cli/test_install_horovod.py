"""Horovod's installation: what it refuses and what it leaves; nothing is built here."""

import hashlib
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import sysconfig
import tarfile
import time

import pytest

from bert_mgpu.cli.doctor import horovod_build, horovod_probe
from bert_mgpu.core.errors import RunError, UserError
from tests.support.marks import rarely
from tests.support.paths import ROOT

NO_HOROVOD = pytest.mark.skipif(
    horovod_probe.installed() is None, reason="Horovod is not installed: make horovod"
)
# A rank that takes longer to save than Horovod grants as it is published: 5 seconds.
RANK = """
import os, pathlib, signal, sys, time
folder, rank = pathlib.Path(sys.argv[1]), os.environ["HOROVOD_RANK"]
def save(*_):
    time.sleep(6)
    (folder / f"saved{rank}").touch()
    sys.exit(75)
signal.signal(signal.SIGTERM, save)
(folder / f"ready{rank}").touch()
time.sleep(100)
"""


@pytest.fixture
def log(tmp_path, monkeypatch):
    path = tmp_path / "build.log"
    monkeypatch.setattr(horovod_build, "LOG", path)
    return path


def touch(*paths):
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(0o755)


def test_every_missing_tool_is_a_line(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "bert_mgpu", "install_horovod"],
        env={"PATH": str(tmp_path)},
        cwd=ROOT,
        text=True,
        capture_output=True,
    )
    assert (done.returncode, done.stdout) == (2, "")
    first, second = done.stderr.splitlines()
    assert first.startswith(
        "error: no C++ compiler (g++, clang++): apt-get install g++"
    )
    assert second == "error: no make: apt-get install make, or yum install make"


def test_an_old_compiler_is_refused(tmp_path):
    old = tmp_path / "g++"
    old.write_text("#!/bin/sh\nexit 1\n")
    old.chmod(0o755)
    with pytest.raises(UserError, match=r"^g\+\+: cannot compile C\+\+17: install"):
        horovod_probe.compiler({"PATH": str(tmp_path)})


def test_the_users_compiler_is_asked_first(tmp_path):
    with pytest.raises(UserError, match=r"^no C\+\+ compiler \(mine -O1\)"):
        horovod_probe.compiler({**os.environ, "CXX": "mine -O1"})


def test_another_tensorflow_is_refused(tmp_path, monkeypatch):
    metadata = tmp_path / "tensorflow-2.19.0.dist-info" / "METADATA"
    touch(metadata)
    metadata.write_text("Metadata-Version: 2.1\nName: tensorflow\nVersion: 2.19.0\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(
        UserError, match=r"^tensorflow 2\.19\.0 .* not 2\.21: make setup"
    ):
        horovod_probe.tensorflow({})


def test_a_full_disk_is_told(monkeypatch):
    monkeypatch.setattr(horovod_probe, "BUILD_SPACE", 1 << 60)
    with pytest.raises(UserError, match="GB free, the build needs .* set TMPDIR"):
        horovod_probe.disk_space({})


@pytest.mark.parametrize("patch", horovod_probe.PATCHES)
def test_a_patch_takes_its_text_once_only(tmp_path, patch):
    path = tmp_path / patch.file
    touch(path)
    for text in ("", patch.old * 2, patch.new):
        path.write_text(text)
        with pytest.raises(RunError, match=f"{path}: .* occurs [02] times"):
            horovod_probe.apply(patch, tmp_path)
        assert path.read_text() == text
    path.write_text(f"before\n{patch.old}after\n")
    horovod_probe.apply(patch, tmp_path)
    assert path.read_text() == f"before\n{patch.new}after\n"


def test_a_patch_misses_its_file(tmp_path):
    with pytest.raises(RunError, match="occurs 0 times"):
        horovod_probe.apply(horovod_probe.PATCHES[0], tmp_path)


def test_another_source_is_refused_before_it_runs(tmp_path, log):
    source, ran = tmp_path / "horovod-0.28.1", tmp_path / "ran"
    source.mkdir()
    (source / "setup.py").write_text(
        f"import setuptools; open({str(ran)!r}, 'w').close()\n"
        "setuptools.setup(name='horovod', version='0.28.1')\n"
    )
    archive = tmp_path / "links" / "horovod-0.28.1.tar.gz"
    archive.parent.mkdir()
    with tarfile.open(archive, "w:gz") as file:
        file.add(source, source.name)
    environ = {
        **os.environ,
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(archive.parent),
        "PIP_CONFIG_FILE": os.devnull,
    }
    with pytest.raises(RunError, match=f"DO NOT MATCH THE HASHES.*: see {log}$"):
        horovod_build.download(tmp_path, environ)
    assert not ran.exists() and not (tmp_path / archive.name).exists()
    right = hashlib.sha256(archive.read_bytes()).hexdigest()
    horovod_build.download(tmp_path, environ, right)
    assert ran.exists() and (tmp_path / archive.name).exists()


def test_a_step_that_fails_names_its_reason_and_the_log(log):
    code = "print('a\\nx.cc:1:2: fatal error: no x.h\\nerror: b'); raise SystemExit(3)"
    with pytest.raises(RunError) as caught:
        horovod_build.step("the build", [sys.executable, "-c", code], os.environ)
    assert str(caught.value) == (
        f"the build failed: x.cc:1:2: fatal error: no x.h: see {log}"
    )
    assert "error: b" in log.read_text()


def test_what_cmake_says_is_told():
    log = "-- ok\n  CMake Error at CMakeLists.txt:225 (message):\n    Too old.\n\n  b\n"
    reported = "CMake Error at CMakeLists.txt:225 (message): Too old."
    assert horovod_build.reason(log) == reported
    assert horovod_build.reason("nothing\n") == "no reason was given"


def test_a_step_has_its_time(log):
    with pytest.raises(RunError, match=rf"^the proof: not done after 1 s: see {log}$"):
        horovod_build.step("the proof", ["sleep", "60"], os.environ, seconds=1)


@pytest.fixture
def gpu_box(tmp_path):
    """The environment of a machine with CUDA, and NCCL as pip brings it."""
    cuda, nccl = tmp_path / "cuda", tmp_path / "nccl"
    touch(cuda / "bin/nvcc", cuda / "include/cuda_runtime.h")
    touch(nccl / "include/nccl.h", nccl / "lib/libnccl.so.2")
    (nccl / "include/nccl.h").write_text(
        "#define NCCL_MAJOR 2\n#define NCCL_MINOR 27\n#define NCCL_PATCH 7\n"
    )
    return {"CUDA_HOME": str(cuda), "HOROVOD_NCCL_HOME": str(nccl), "PATH": ""}


def test_nccl_is_built_where_it_is_found(gpu_box):
    actual, what = horovod_build.for_nccl(gpu_box)
    home = gpu_box["HOROVOD_NCCL_HOME"]
    assert actual == {
        "HOROVOD_GPU_OPERATIONS": "NCCL",
        "HOROVOD_CUDA_HOME": gpu_box["CUDA_HOME"],
        "HOROVOD_NCCL_INCLUDE": f"{home}/include",
        "HOROVOD_NCCL_LIB": f"{home}/lib",
        "HOROVOD_NCCL_LINK": "SHARED",
    }
    assert what.startswith("NCCL 2.27.7")
    horovod_build.name_for_linkers(pathlib.Path(home, "lib"))
    assert pathlib.Path(home, "lib/libnccl.so").resolve().name == "libnccl.so.2"


@pytest.mark.parametrize("asked", ["", "MPI"])
def test_the_user_can_do_without_nccl(gpu_box, asked):
    environ = {**gpu_box, "HOROVOD_GPU_OPERATIONS": asked}
    assert horovod_build.for_nccl(environ) == ({}, f"HOROVOD_GPU_OPERATIONS={asked}")


def test_nccl_that_is_asked_for_must_be_there(gpu_box, tmp_path):
    environ = {**gpu_box, "HOROVOD_NCCL_HOME": str(tmp_path)}
    assert horovod_build.for_nccl(environ) == ({}, "no libnccl found")
    with pytest.raises(
        UserError, match="^HOROVOD_GPU_OPERATIONS=NCCL: no libnccl found: "
    ):
        horovod_build.for_nccl({**environ, "HOROVOD_GPU_OPERATIONS": "NCCL"})


@pytest.mark.parametrize(
    ("own", "expected", "absent"),
    [
        ({}, {"HOROVOD_WITHOUT_MPI": "1", "HOROVOD_WITH_GLOO": "1"}, []),
        ({"HOROVOD_WITHOUT_MPI": "0"}, {"HOROVOD_WITHOUT_MPI": "0"}, []),
        ({"HOROVOD_WITH_MPI": "1"}, {"HOROVOD_WITH_MPI": "1"}, ["HOROVOD_WITHOUT_MPI"]),
        ({"MAKEFLAGS": "w", "PYTHONPATH": "x"}, {"PYTHONPATH": "/tools"}, ["MFLAGS"]),
    ],
)
def test_the_users_variables_win(own, expected, absent):
    if not shutil.which("g++"):
        pytest.skip("there is no g++")
    environ = horovod_build.build_environment(
        {"PATH": os.environ["PATH"], **own}, pathlib.Path("/tools")
    )
    assert expected.items() <= environ.items() and not set(absent) & set(environ)
    assert environ["MAKEFLAGS"].startswith("-j") and "/tools/bin" in environ["PATH"]


def test_a_missing_horovod_is_passed_over_in_silence(tmp_path):
    assert horovod_probe.installed(tmp_path) is None


@NO_HOROVOD
def test_the_installed_horovod_is_ours():
    installed = horovod_probe.installed()
    assert installed is not None and installed.patched
    assert installed.version == horovod_probe.VERSION and "gloo" in installed.has
    assert installed.tensorflow == horovod_probe.tensorflow({})


# /bin/sh is bash on half of all machines, and treats a single command differently.
BASH = 'mount --bind "$(command -v bash)" "$(readlink -f /bin/sh)" && exec "$@"'


@NO_HOROVOD
@pytest.mark.parametrize("shell", ["own", *rarely("bash")])
def test_a_stopped_run_lets_its_ranks_save(tmp_path, shell):
    start = [] if shell == "own" else ["unshare", "-rm", "bash", "-c", BASH, "bash"]
    if start and subprocess.run([*start, "true"], capture_output=True).returncode:
        pytest.skip("/bin/sh cannot be another shell for a process: no unshare here")
    (tmp_path / "rank.py").write_text(RANK)
    ranks = [sys.executable, str(tmp_path / "rank.py"), str(tmp_path)]
    horovodrun = os.path.join(sysconfig.get_path("scripts"), "horovodrun")
    run = subprocess.Popen(
        [*start, horovodrun, "-np", "2", *ranks],
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    try:
        for _ in range(600):
            if len(list(tmp_path.glob("ready*"))) == 2:
                break
            time.sleep(0.1)
        time.sleep(1)
        run.send_signal(signal.SIGTERM)
        reported, _ = run.communicate(timeout=90)
    finally:
        run.kill()
    assert sorted(path.name for path in tmp_path.glob("saved*")) == ["saved0", "saved1"]
    assert "Exit code: 75" in reported
