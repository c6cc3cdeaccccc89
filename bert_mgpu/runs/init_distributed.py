"""How a run begins: its devices, its place among other processes, what all agree on."""

from __future__ import annotations

import functools
import platform
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

import bert_mgpu
from bert_mgpu.config.base import RunConfig, fields
from bert_mgpu.core import text_files
from bert_mgpu.core.errors import UserError
from bert_mgpu.core.log import say
from bert_mgpu.core.task import TrainState
from bert_mgpu.distributed import collective, devices, launcher
from bert_mgpu.distributed.collective import Collective, Horovod
from bert_mgpu.distributed.launcher import ProcessRank
from bert_mgpu.distributed.topology import Topology, single_process
from bert_mgpu.distributed.watchdog import Watchdog
from bert_mgpu.training import precision


def init_distributed(
    config: RunConfig, remarks: Sequence[str], place: ProcessRank, *, watch: Watchdog
) -> Topology:
    """Says which program this is, and finds the devices and the other processes."""
    say(f"bert_mgpu {bert_mgpu.__version__}, TensorFlow {tf.__version__}")
    for remark in remarks:
        say(remark)
    if config.plan and not place.is_single:
        raise UserError("--plan is of one process: leave horovodrun out")
    if config.predict_file == text_files.STANDARD_INPUT and not place.is_single:
        raise UserError("--predict_file=- is of one process: leave horovodrun out")
    visible = _devices(config, place)
    if "cpu_devices" in config.given and visible[0].startswith("GPU"):
        say("--cpu_devices splits the CPU; the towers are on GPUs: see --device")
    if warning := devices.missing_gpus(config.device):
        say(warning)
    for remark in devices.remarks(visible, config.precision):
        say(remark)
    if place.is_single:
        return single_process(config.n_gpus, visible)
    on_gpu = visible[0].startswith("GPU")
    group = Horovod(
        on_gpu, config.allreduce_dtype, watch.working, pausing=watch.pausing
    )
    said = _agree(group, config, visible, threads=devices.threads(place.local_size))
    towers = next(filter(None, (one["towers"] for one in said)), None)
    towers = towers or config.n_gpus * place.size
    if towers < place.size:
        raise UserError(
            f"{place.size} processes for {towers} towers: pass as many to horovodrun"
        )
    if launcher.is_elastic():
        watch.rejoins = functools.partial(launcher.rejoin, towers)
    way = "NCCL" if group.ring else "gloo"
    say(f"{place.size} processes, sums by {way} in {config.allreduce_dtype}")
    return Topology(group, visible, towers)


def _devices(config: RunConfig, place: ProcessRank) -> list[str]:
    if place.is_single:
        return devices.configure(
            config.device,
            config.cpu_devices,
            launcher.towers() or config.n_gpus,
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
        place.local_rank,
        place.local_size,
        deterministic=config.deterministic,
        tf32=tf32,
    )


def _agree(
    group: Horovod, config: RunConfig, visible: list[str], *, threads: int
) -> list[dict[str, Any]]:
    """Raises UserError where the processes are not of one kind."""
    facts = {
        "bert_mgpu": bert_mgpu.__version__,
        "TensorFlow": tf.__version__,
        "Horovod": group.version,
        "device": visible[0].split(":")[0],
        "sums by NCCL": group.ring,
    }
    if facts["device"] == "CPU":  # how sums are rounded depends on them
        facts[f"threads of a process ({devices.THREADS} sets them)"] = threads
    else:  # and on the model of the card
        facts["GPU"] = ", ".join(devices.device_models(visible))
    facts |= {
        f"--{one.name}": getattr(config, one.name) for one in fields(type(config))
    }
    collective.check_equal(group, facts)
    # Cards of one host must differ, whatever hides them from each process.
    own = {"towers": launcher.towers(), "host": platform.node()}
    own |= {"machine": launcher.machine(), "card": devices.identify(visible[0])}
    said = collective.all_gather_json(group, own)
    cards = [(one["machine"], one["card"]) for one in said]
    for rank, (_, card) in enumerate(cards):
        first = cards.index(cards[rank])
        if card and first < rank:
            raise UserError(
                f"processes {first} and {rank} share the GPU {card} of"
                f" {said[rank]['host']}: start as many processes there as it has GPUs,"
                " with the same CUDA_VISIBLE_DEVICES for all"
            )
    return said


def describe_placement(topology: Topology) -> str:
    """Where the towers are, in words."""
    own = devices.assign_towers(topology.n_towers, topology.group.size)
    counts = sorted({len(towers) for towers in own}, reverse=True)
    places = devices.assign_towers(counts[0], len(topology.devices))
    words = devices.describe_placement(places, topology.devices)
    if topology.group.size == 1:
        return words
    shared = f"{topology.n_towers} towers of {topology.group.size} processes"
    if len(counts) > 1:
        return f"{shared}: {counts[0]} in some, {counts[1]} in the others"
    return f"{shared}: in each {words}"


def shared_state(group: Collective, find: Callable[[], TrainState]) -> TrainState:
    """The state that the first process finds, which alone has to see the files."""
    if group.size == 1:
        return find()
    state = find() if group.rank == 0 else TrainState({}, {})
    facts = {"step": state.step, "identity": state.identity}
    said = collective.all_gather_json(group, facts)[0]
    params, slots = group.broadcast(state.params), group.broadcast(state.slots)
    return TrainState(params, slots, said["step"], identity=said["identity"])
