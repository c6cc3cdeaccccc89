"""One run for each of --seeds, and their mean scores."""

from __future__ import annotations

import dataclasses
import json
import pathlib

from bert_mgpu.config.finetuning import FinetuneConfig
from bert_mgpu.core.files import make_folder, write_text
from bert_mgpu.core.log import say
from bert_mgpu.distributed.topology import World
from bert_mgpu.evaluation import evaluator, result_files
from bert_mgpu.runs import finetune, identity
from bert_mgpu.tasks import sources


def run(run: FinetuneConfig, output_dir: pathlib.Path, world: World) -> None:
    """Fine-tunes as the flags ask. Raises RunError where that ends early."""
    if run.seeds > 1:
        _each(run, output_dir, world)
    else:
        finetune.finetune(run, output_dir, world)


def _each(run: FinetuneConfig, output_dir: pathlib.Path, world: World) -> None:
    """A run for each seed, in a folder of its own; then seeds.json."""
    seeds = range(run.seed, run.seed + run.seeds)
    folders = [output_dir / f"seed-{seed}" for seed in seeds]
    run = identity.as_begun(run, folders, world.group)  # the same samples for all
    finished = None
    for seed, folder in zip(seeds, folders, strict=True):
        say(f"seed {seed}, {seed - run.seed + 1} of {run.seeds}: {folder}")
        if world.group.rank == 0:
            make_folder(folder)
        # All see the same rows, whose tokens are kept once.
        cache = run.cache_dir or str(output_dir / "cache")
        one = dataclasses.replace(run, seed=seed, seeds=1, cache_dir=cache)
        one = dataclasses.replace(one, sampled_by=run.seed)
        # TensorFlow never gives back what it has compiled: all seeds use the same.
        towers = finished.towers if finished else None
        finished = finetune.finetune(one, folder, world, towers)
    if world.group.rank > 0 or finished is None:
        return
    found = {}
    for name in ("dev", *sources.named_files(run.eval_files)):
        file = result_files.evaluation_file(None if name == evaluator.MAIN else name)
        scores = [result_files.read_evaluation(folder / file) for folder in folders]
        found[name] = result_files.over_seeds(scores)
        means = ", ".join(
            f"{key} {one['mean']:.4f} ± {one['deviation']:.4f}"
            for key, one in found[name].items()
            if key in finished.task.shown
        )
        say(f"{name}, mean and deviation of {run.seeds} seeds: {means}")
    text = json.dumps({"seeds": [*seeds], "scores": found}, indent=2)
    write_text(output_dir / "seeds.json", text + "\n")
