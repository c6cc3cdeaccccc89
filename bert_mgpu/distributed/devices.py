"""The devices of a run, configured before TensorFlow initialises them."""

from __future__ import annotations

import contextlib
import os
import pathlib
import re
import resource
from collections.abc import Sequence
from typing import Any

import tensorflow as tf
from tensorflow.python.client.device_lib import list_local_devices
from tensorflow.python.eager import context

from bert_mgpu.core import extras
from bert_mgpu.core.errors import UserError
from bert_mgpu.distributed import host, launcher

THREADS = "TF_NUM_INTRAOP_THREADS"  # TensorFlow's environment variable
_AMPERE = (8, 0)  # the first compute capability with TF32 and bfloat16
_FROM_AMPERE = {
    "bfloat16": "it is emulated, and slow: pass --precision=float16",
    "tf32": "products are those of float32: pass --precision=float16",
}
_REWRITES = {
    # It would flatten the pairwise sums over devices and processes into sums from left
    # to right, whose bits depend on the number of towers on each.
    "arithmetic_optimization": False,
    # It would copy the model for every tower, and make the first step that many times
    # as long.
    "function_optimization": False,
}


def configure(
    device: str,
    cpu_devices: int,
    towers: int = 1,
    *,
    only: list[Any] | None = None,
    deterministic: bool = False,
    tf32: bool = False,
) -> list[str]:
    """Configures the devices and returns their names, e.g. ["GPU:0", "GPU:1"].

    device: auto takes the visible GPUs (CUDA_VISIBLE_DEVICES), else the CPU.
    cpu_devices: splits the CPU into this many logical devices.
    towers: GPUs beyond this number are not touched, nor is their memory.
    only: the GPUs to take, instead of all. deterministic: use slower operations where
    the default ones differ from run to run. tf32: float32 products may be rounded.
    """
    if deterministic:
        tf.config.experimental.enable_op_determinism()
    tf.config.optimizer.set_experimental_options(_REWRITES)
    # TF32 has a mantissa of 10 bits: by default, float32 stays float32 on every device.
    tf.config.experimental.enable_tensor_float_32_execution(tf32)
    gpus = tf.config.list_physical_devices("GPU") if only is None else only
    if device == "gpu" and not gpus:
        raise UserError(
            "--device=gpu: TensorFlow sees no GPU: check nvidia-smi and"
            f" CUDA_VISIBLE_DEVICES, {extras.advice('gpu')}, or pass"
            " --device=cpu"
        )
    if gpus and device != "cpu":
        taken = gpus[:towers]
        with contextlib.suppress(RuntimeError):  # already configured in this process
            tf.config.set_visible_devices(taken, "GPU")
            for gpu in taken:  # several runs may share a card
                tf.config.experimental.set_memory_growth(gpu, True)
        configured = tf.config.get_visible_devices("GPU")
        if configured[: len(taken)] != taken:
            raise UserError(
                f"--n_gpus={len(taken)}: this process already has {len(configured)}"
                " GPUs: its first run decides"
            )
        return [f"GPU:{index}" for index in range(len(gpus))]
    host.keep_freed_memory()
    with contextlib.suppress(RuntimeError):  # already configured in this process
        tf.config.set_visible_devices([], "GPU")
        cpu = tf.config.list_physical_devices("CPU")[0]
        tf.config.set_logical_device_configuration(
            cpu, [tf.config.LogicalDeviceConfiguration()] * cpu_devices
        )
    configured = len(tf.config.list_logical_devices("CPU"))
    if configured < cpu_devices:
        raise UserError(
            f"--cpu_devices={cpu_devices}: this process already has {configured}: its"
            " first run decides"
        )
    return [f"CPU:{index}" for index in range(cpu_devices)]


def present(device: str) -> list[str]:
    """The devices of a process that already uses TensorFlow, as it configured them.

    device: as for `configure`. GPUs that the process has hidden do not count.
    """
    gpus = [] if device == "cpu" else tf.config.get_visible_devices("GPU")
    if device == "gpu" and not gpus:
        raise UserError(
            "--device=gpu: TensorFlow sees no GPU, or this process has hidden it: pass"
            " --device=cpu"
        )
    for gpu in gpus:
        with contextlib.suppress(RuntimeError, ValueError):  # already in use
            tf.config.experimental.set_memory_growth(gpu, True)
    kind = "GPU" if gpus else "CPU"
    count = len(tf.config.list_logical_devices(kind))
    return [f"{kind}:{index}" for index in range(count)]


def threads(local_size: int) -> int:
    """The number of threads of each process that shares a host's CPU with others."""
    return _requested_threads() or max(1, len(launcher.cores(0, local_size)))


def _requested_threads() -> int:
    """The number of threads that the user asks for; 0 if there is no request."""
    value = os.environ.get(THREADS, "")
    return int(value) if value.isdecimal() else 0


def configure_local(
    device: str,
    local_rank: int,
    local_size: int,
    *,
    deterministic: bool = False,
    tf32: bool = False,
) -> list[str]:
    """Configures the one device of a process that shares its host, see `configure`.

    Each process takes the GPU of its local rank, or its share of the CPU's cores. It is
    bound to its cores unless the user asks for a number of threads: two processes bound
    to a core each are 1.08 times as fast as two whose threads the system moves.
    """
    gpus = tf.config.list_physical_devices("GPU")
    if gpus and device != "cpu":
        # A scheduler may show each process only its own GPU.
        if 1 < len(gpus) < local_size:
            raise UserError(
                f"{local_size} processes on this host, but {len(gpus)} visible GPUs:"
                " start one process for each GPU"
            )
        gpus = [gpus[local_rank % len(gpus)]]
    else:
        tf.config.threading.set_intra_op_parallelism_threads(threads(local_size))
        own = launcher.cores(local_rank, local_size)
        if own and not _requested_threads():
            os.sched_setaffinity(0, own)  # this thread and those that it starts
    return configure(device, 1, only=gpus, deterministic=deterministic, tf32=tf32)


def identify(device: str) -> str | None:
    """The PCI bus id of a GPU; None for a CPU or a part (MIG) of a GPU."""
    if not device.startswith("GPU"):
        return None
    card = _cards()[0].physical_device_desc
    bus = re.search(r"pci bus id: (\S+?),", card)
    return bus[1] if bus and "MIG" not in card else None


def _cards() -> list[Any]:
    """TensorFlow's descriptions of the visible GPUs."""
    # With this process's own configuration: with another one TensorFlow would also call
    # the first GPU of the host GPU:0, and refuse to give two GPUs the same name.
    config = context.context().config
    return [card for card in list_local_devices(config) if card.device_type == "GPU"]


def _details(devices: Sequence[str]) -> list[dict[str, Any]]:
    """The properties of each GPU of a run; empty for CPUs."""
    if not devices[0].startswith("GPU"):
        return []
    visible = tf.config.get_visible_devices("GPU")[: len(devices)]
    return [tf.config.experimental.get_device_details(gpu) for gpu in visible]


def device_models(devices: Sequence[str]) -> list[str]:
    """The distinct models of the GPUs of a run, sorted; empty for CPUs."""
    cards = _details(devices)
    return sorted({str(card.get("device_name", "unknown")) for card in cards})


def remarks(devices: list[str], precision: str) -> list[str]:
    """Remarks for the user about the GPUs of a run, made before it starts."""
    if not devices[0].startswith("GPU"):
        return []
    cards, names = _details(devices), device_models(devices)
    texts = []
    if len(names) > 1:
        texts.append(
            f"WARNING: GPUs of different models ({', '.join(names)}): each step waits"
            " for the slowest. They may round differently: before each save all get the"
            " first one's weights. See CUDA_VISIBLE_DEVICES"
        )
    oldest = min(card.get("compute_capability", (0, 0)) for card in cards)
    if oldest >= _AMPERE and precision == "float32":
        texts.append(
            f"{names[0]} multiplies several times as fast with --precision=tf32 or"
            " bfloat16 as with float32"
        )
    if (0, 0) < oldest < _AMPERE and precision in _FROM_AMPERE:
        texts.append(
            f"WARNING: {names[0]} has no {precision} in hardware:"
            f" {_FROM_AMPERE[precision]}"
        )
    return texts


def missing_gpus(device: str, has_log: bool) -> str | None:
    """A warning if the machine seems to have GPUs and TensorFlow sees none.

    has_log: whether TensorFlow's messages go to a file in output_dir.
    """
    if device != "auto" or tf.config.list_physical_devices("GPU"):
        return None
    named = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    if named in ("", "-1") and not os.path.exists("/dev/nvidia0"):
        return None
    source = "tensorflow.log in output_dir has TensorFlow's reason"
    reason = source if has_log else "bert_mgpu doctor says more"
    return (
        "WARNING: TensorFlow sees no GPU and takes the CPU, though"
        f" {f'CUDA_VISIBLE_DEVICES={named}' if named else '/dev/nvidia0 exists'}:"
        f" {extras.advice('gpu')} ({reason}), or pass --device=cpu"
    )


def peak_memory() -> int:
    """The peak of this process's resident memory, in bytes."""
    with contextlib.suppress(OSError):
        # getrusage returns the peak of the parent process if that was higher.
        status = pathlib.Path("/proc/self/status").read_text()
        if match := re.search(r"VmHWM:\s*(\d+) kB", status):
            return 1024 * int(match[1])
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # in bytes on macOS


def free_memory(devices: list[str]) -> int | None:
    """The bytes of memory that each device may still take; None if unknown."""
    if devices[0].startswith("GPU"):
        limit = min((card.memory_limit for card in _cards()), default=None)
        used = tf.config.experimental.get_memory_info(devices[0])["current"]
        return None if limit is None else limit - used
    left = host.memory_left()
    return None if left is None else left // len(devices)


def assign_towers(towers: int, devices: int) -> list[range]:
    """The towers of each device in use: contiguous ranges, larger on the first devices.

    min(towers, devices) devices are used.
    """
    used = min(towers, devices)
    share, more = divmod(towers, used)
    device_towers, first = [], 0
    for index in range(used):
        count = share + (index < more)
        device_towers.append(range(first, first + count))
        first += count
    return device_towers


def describe_placement(device_towers: list[range], devices: list[str]) -> str:
    """The placement of towers on devices in words, logged at the start of a run."""
    counts = [len(towers) for towers in device_towers]
    device_type = devices[0].split(":")[0]
    text = (
        f"{sum(counts)} tower{'s' * (sum(counts) > 1)} on {len(counts)} {device_type}"
        f" device{'s' * (len(counts) > 1)}"
    )
    if len(set(counts)) > 1:
        waiting = counts.count(min(counts))
        wait = "waits" if waiting == 1 else "wait"
        text += f" ({', '.join(map(str, counts))}: {waiting} {wait} for the others)"
    elif counts[0] > 1:
        text += f" ({counts[0]} each)"
    unused = len(devices) - len(device_towers)
    if unused > 0:
        text += f"; {unused} more visible, not used"
    return text
