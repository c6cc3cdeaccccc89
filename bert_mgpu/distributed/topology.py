"""The processes, devices and towers of a run."""

from __future__ import annotations

from typing import NamedTuple

from bert_mgpu.distributed import launcher
from bert_mgpu.distributed.collective import SOLO, Collective


class Topology(NamedTuple):
    """The processes of a run, with their devices and towers."""

    group: Collective
    devices: list[str]  # of this process
    n_towers: int  # of all processes


def single_process(n_towers: int, devices: list[str]) -> Topology:
    """One process on these devices, with all towers of a restarted elastic job."""
    return Topology(SOLO, devices, launcher.total_towers() or n_towers)
