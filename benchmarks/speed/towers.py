"""The towers of a task as a run makes them, with fresh weights."""

from __future__ import annotations

import pathlib
from typing import Any

from benchmarks.speed.workloads import SEED, Shape


def towers_of(task: Any, shape: Shape, flags: dict[str, Any]) -> Any:
    """A single tower on one device; flags: of a run."""
    from bert_mgpu.checkpoints.pretrained import Pretrained
    from bert_mgpu.config.finetuning import FinetuneConfig
    from bert_mgpu.distributed import devices, topology
    from bert_mgpu.model import params as params_lib
    from bert_mgpu.runs.run import Run, make_towers

    config = FinetuneConfig(seed=SEED, max_seq_length=shape.length, **flags)
    model = Pretrained(
        shape.config, "", None, vocab_file=None, do_lower_case=True, labels=None
    )
    world = topology.single_process(1, devices.configure("auto", 1))
    run = Run(config, model, task, data=None, topology=world, output_dir=pathlib.Path())
    towers = make_towers(run)
    params = params_lib.initialize(task.param_specs(), 0.02, SEED)
    towers.load(params, towers.initial_slots(params))
    return towers
