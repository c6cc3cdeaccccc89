"""The cores and the memory of a machine, and what malloc does with freed memory."""

import os
import subprocess
import sys

import pytest

from bert_mgpu.distributed import devices, host
from tests.support.paths import ROOT

# Ten blocks of 48 MB in turn, in a thread as tensors are; prints the page faults of the
# last nine. 48 MB is beyond the 32 MB up to which glibc raises its own threshold.
BLOCKS = """
import resource, sys, threading
from bert_mgpu.distributed import host
if sys.argv[1] == "keep":
    host.keep_freed_memory()
elif sys.argv[1] == "configure":
    from bert_mgpu.distributed import devices
    devices.configure("cpu", 2)
def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
def allocate():
    block = b"x" * (48 << 20)
    start = faults()
    for _ in range(9):
        del block
        block = b"x" * (48 << 20)
    print(faults() - start)
thread = threading.Thread(target=allocate)
thread.start()
thread.join()
"""


@pytest.mark.skipif(
    not sys.platform.startswith("linux") or os.confstr("CS_GNU_LIBC_VERSION") is None,
    reason="only glibc has these settings of malloc",
)
@pytest.mark.parametrize(
    ("mode", "environment", "kept"),
    [
        ("leave", {}, False),
        ("keep", {}, True),
        ("configure", {}, True),
        # what the user says of malloc has priority
        ("keep", {"MALLOC_TRIM_THRESHOLD_": "131072"}, False),
        ("keep", {"GLIBC_TUNABLES": "glibc.malloc.mmap_threshold=131072"}, False),
        ("keep", {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}, True),
    ],
)
def test_freed_memory_is_used_again(mode, environment, kept):
    faults = subprocess.run(
        [sys.executable, "-c", BLOCKS, mode],
        cwd=ROOT,
        env={
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("MALLOC_", "GLIBC_TUNABLES"))
        }
        | environment,
        text=True,
        capture_output=True,
        check=True,
    ).stdout
    # Where pages are huge (2 MB) a block costs 24 faults, else 12,288.
    assert (int(faults) < 9 * 24) == kept


@pytest.mark.parametrize(
    ("membership", "files", "limits"),
    [
        ("0::/a/b\n", {}, (None, None)),
        (
            "0::/a/b\n",
            {"a/b/cpu.max": "max 100000", "a/b/memory.max": "max"},
            (None,) * 2,
        ),
        # the tightest of a group and those above it holds
        (
            "0::/a/b\n",
            {
                "a/b/cpu.max": "400000 100000",
                "a/cpu.max": "150000 100000",
                "a/b/memory.max": "1000",
                "memory.max": "2000",
            },
            (1.5, 1000),
        ),
        # what is mounted in a container is the group itself
        ("0::/not/here\n", {"cpu.max": "200000 100000"}, (2.0, None)),
        (
            "5:memory:/a\n4:cpu,cpuacct:/a\n1:name=systemd:/a\n",
            {
                "cpu/a/cpu.cfs_quota_us": "50000",
                "cpu/a/cpu.cfs_period_us": "100000",
                "memory/a/memory.limit_in_bytes": "4096",
                "memory/memory.limit_in_bytes": "9223372036854771712",
            },
            (0.5, 4096),
        ),
        ("4:cpu:/\n", {"cpu/cpu.cfs_quota_us": "-1"}, (None, None)),
    ],
)
def test_limits_of_cgroups(tmp_path, membership, files, limits):
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text + "\n")
    assert host.cgroup_limits(membership, tmp_path) == limits


@pytest.mark.parametrize(
    ("membership", "files", "left"),
    [
        ("0::/a\n", {}, None),
        ("0::/a\n", {"a/memory.max": "max", "a/memory.current": "5"}, None),
        # cached files are given back
        (
            "0::/a\n",
            {
                "a/memory.max": "1000",
                "a/memory.current": "700",
                "a/memory.stat": "anon 400\ninactive_file 250\nactive_file 50",
                "memory.max": "5000",
                "memory.current": "4600",
            },
            400,  # of the group around it, which has less left
        ),
        (
            "5:memory:/a\n",
            {
                "memory/a/memory.limit_in_bytes": "4096",
                "memory/a/memory.usage_in_bytes": "5000",
            },
            0,
        ),
    ],
)
def test_memory_that_cgroups_leave(tmp_path, membership, files, left):
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text + "\n")
    assert host.cgroup_memory_left(membership, tmp_path) == left


def test_a_container_leaves_less_than_its_machine(monkeypatch):
    whole = host.memory_left()
    monkeypatch.setattr(host, "cgroup_memory_left", lambda *_: 123_456)
    assert host.memory_left() == 123_456 < whole
    assert devices.free_memory(["CPU:0", "CPU:1"]) == 61_728


def test_memory_of_meminfo():
    text = (
        "MemTotal:       2048 kB\nMemFree:   1 kB\nMemAvailable:   1024 kB\nHuge: 0\n"
    )
    assert host.parse_meminfo(text) == (2 << 20, 1 << 20)
