"""The start of a run: its devices, its processes, and the checks that these agree."""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

import bert_mgpu
from bert_mgpu.config.base import RunConfig, fields
from bert_mgpu.core import log
from bert_mgpu.core.errors import UserError
from bert_mgpu.core.log import fact
from bert_mgpu.core.task import TrainState
from bert_mgpu.distributed import collective, devices, launcher
from bert_mgpu.distributed.collective import Collective, Horovod
from bert_mgpu.distributed.launcher import ProcessRank
from bert_mgpu.distributed.topology import Topology, single_process
from bert_mgpu.distributed.watchdog import Watchdog
from bert_mgpu.training import precision


def init_distributed(
    config: RunConfig,
    remarks: Sequence[str],
    process: ProcessRank,
    *,
    watchdog: Watchdog,
) -> Topology:
    """Sets up the devices and processes of a run; logs versions and remarks."""
    log.begin()
    fact("bert_mgpu", f"{bert_mgpu.__version__}, TensorFlow {tf.__version__}")
    for remark in remarks:
        fact("flags", remark)
    if config.plan and not process.is_single:
        raise UserError("--plan takes one process: leave horovodrun out")
    if (flag := config.predict_prints) and not process.is_single:
        raise UserError(f"--{flag} takes one process: leave horovodrun out")
    visible = _devices(config, process)
    if "cpu_devices" in config.given and visible[0].startswith("GPU"):
        split = "--cpu_devices splits the CPU; the towers are on GPUs: see --device"
        fact("devices", f"WARNING: {split}")
    if warning := devices.missing_gpus(config.device, has_log=True):
        fact("devices", warning)
    for remark in devices.remarks(visible, config.precision):
        fact("devices", remark)
    if process.is_single:
        return single_process(config.n_gpus, visible)
    on_gpu = visible[0].startswith("GPU")
    group = Horovod(
        on_gpu, config.allreduce_dtype, watchdog.working, pausing=watchdog.pausing
    )
    peers = _agree(group, config, visible, threads=devices.threads(process.local_size))
    towers = next(filter(None, (peer["towers"] for peer in peers)), None)
    towers = towers or config.n_gpus * process.size
    if towers < process.size:
        raise UserError(
            f"{process.size} processes for {towers} towers: start {towers} processes"
        )
    watchdog.keep_towers(towers)
    library = "NCCL" if group.uses_nccl else "gloo"
    fact("processes", f"{process.size}, sums by {library} in {config.allreduce_dtype}")
    return Topology(group, visible, towers)


def _devices(config: RunConfig, process: ProcessRank) -> list[str]:
    if process.is_single:
        return devices.configure(
            config.device,
            config.cpu_devices,
            launcher.total_towers() or config.n_gpus,
            deterministic=config.deterministic,
            tf32=config.precision == precision.TF32,
        )
    if config.cpu_devices > 1:
        raise UserError(
            "--cpu_devices: a process of horovodrun has one device: raise -np instead"
        )
    tf32 = config.precision == precision.TF32
    return devices.configure_local(
        config.device,
        process.local_rank,
        process.local_size,
        deterministic=config.deterministic,
        tf32=tf32,
    )


def _agree(
    group: Horovod, config: RunConfig, visible: list[str], *, threads: int
) -> list[dict[str, Any]]:
    """The towers, hosts and GPUs of all processes, in the order of ranks.

    Raises UserError if their software, devices or flags differ, or two share a GPU.
    """
    facts = {
        "bert_mgpu": bert_mgpu.__version__,
        "TensorFlow": tf.__version__,
        "Horovod": group.version,
        "device": visible[0].split(":")[0],
        "sums by NCCL": group.uses_nccl,
    }
    # The rounding of sums depends on the number of threads, or the model of the GPU.
    if facts["device"] == "CPU":
        facts[f"threads of a process ({devices.THREADS} sets them)"] = threads
    else:
        facts["GPU"] = ", ".join(devices.device_models(visible))
    facts |= {
        f"--{field.name}": getattr(config, field.name) for field in fields(type(config))
    }
    collective.check_equal(group, facts)
    # Processes on one host must have different GPUs.
    own = {"towers": launcher.total_towers(), "host": platform.node()}
    own |= {"machine": launcher.machine_id(), "card": devices.identify(visible[0])}
    peers = collective.all_gather_json(group, own)
    cards = [(peer["machine"], peer["card"]) for peer in peers]
    for rank, (_, card) in enumerate(cards):
        first = cards.index(cards[rank])
        if card and first < rank:
            raise UserError(
                f"processes {first} and {rank} share the GPU {card} of"
                f" {peers[rank]['host']}: start as many processes there as it has GPUs,"
                " with the same CUDA_VISIBLE_DEVICES for all"
            )
    return peers


def describe_placement(topology: Topology) -> str:
    """The placement of the towers on devices, in words."""
    by_process = devices.assign_towers(topology.n_towers, topology.group.size)
    counts = sorted({len(towers) for towers in by_process}, reverse=True)
    by_device = devices.assign_towers(counts[0], len(topology.devices))
    description = devices.describe_placement(by_device, topology.devices)
    if topology.group.size == 1:
        return description
    towers = f"{topology.n_towers} towers of {topology.group.size} processes"
    if len(counts) > 1:
        return f"{towers}: {counts[0]} in some, {counts[1]} in the others"
    return f"{towers}: in each {description}"


def shared_state(group: Collective, find: Callable[[], TrainState]) -> TrainState:
    """Shares the first process's state with all: only it has to see the files."""
    if group.size == 1:
        return find()
    state = find() if group.rank == 0 else TrainState({}, {})
    facts: dict[str, Any] = {"step": state.step, "identity": state.identity}
    facts = collective.all_gather_json(group, facts)[0]
    params, slots = group.broadcast(state.params), group.broadcast(state.slots)
    return TrainState(params, slots, facts["step"], identity=facts["identity"])
