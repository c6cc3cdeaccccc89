"""One run for each of --seeds, and their mean scores."""

from __future__ import annotations

import dataclasses
import json
import pathlib

from bert_mgpu.config.finetuning import FinetuneConfig
from bert_mgpu.core.files import make_folder, write_text
from bert_mgpu.core.log import say
from bert_mgpu.distributed.topology import Topology
from bert_mgpu.evaluation import evaluator, result_files
from bert_mgpu.runs import finetune, identity
from bert_mgpu.tasks import sources


def run(config: FinetuneConfig, output_dir: pathlib.Path, topology: Topology) -> None:
    """Fine-tunes as the flags ask. Raises RunError where that ends early."""
    if config.seeds > 1:
        _each(config, output_dir, topology)
    else:
        finetune.finetune(config, output_dir, topology)


def _each(config: FinetuneConfig, output_dir: pathlib.Path, topology: Topology) -> None:
    """A run for each seed, in a folder of its own; then seeds.json."""
    seeds = range(config.seed, config.seed + config.seeds)
    folders = [output_dir / f"seed-{seed}" for seed in seeds]
    config = identity.with_begun_settings(
        config, folders, topology.group
    )  # the same samples for all
    finished = None
    for seed, folder in zip(seeds, folders, strict=True):
        say(f"seed {seed}, {seed - config.seed + 1} of {config.seeds}: {folder}")
        if topology.group.rank == 0:
            make_folder(folder)
        # All see the same rows, whose tokens are kept once.
        cache = config.cache_dir or str(output_dir / "cache")
        one = dataclasses.replace(config, seed=seed, seeds=1, cache_dir=cache)
        one = dataclasses.replace(one, sampled_by=config.seed)
        # TensorFlow never gives back what it has compiled: all seeds use the same.
        towers = finished.towers if finished else None
        finished = finetune.finetune(one, folder, topology, towers=towers)
    if topology.group.rank > 0 or finished is None:
        return
    found = {}
    for name in ("dev", *sources.named_files(config.eval_files)):
        file = result_files.evaluation_file(None if name == evaluator.MAIN else name)
        scores = [result_files.read_evaluation(folder / file) for folder in folders]
        found[name] = result_files.over_seeds(scores)
        means = ", ".join(
            f"{key} {one['mean']:.4f} ± {one['deviation']:.4f}"
            for key, one in found[name].items()
            if key in finished.task.shown
        )
        say(f"{name}, mean and deviation of {config.seeds} seeds: {means}")
    text = json.dumps({"seeds": [*seeds], "scores": found}, indent=2)
    write_text(output_dir / "seeds.json", text + "\n")
