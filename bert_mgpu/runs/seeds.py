"""One run for each of --seeds, and the mean scores over all of them."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import pathlib

from bert_mgpu.config.finetuning import FinetuneConfig
from bert_mgpu.core import files, run_files
from bert_mgpu.core.files import write_text
from bert_mgpu.core.log import say
from bert_mgpu.distributed.topology import Topology
from bert_mgpu.evaluation import history, result_files
from bert_mgpu.runs import finetune, identity, stages
from bert_mgpu.tasks import sources


def run(config: FinetuneConfig, output_dir: pathlib.Path, topology: Topology) -> None:
    """Fine-tunes with one or several seeds. Raises RunError if a run ends early."""
    if config.seeds > 1:
        _run_each(config, output_dir, topology)
    else:
        finetune.finetune(config, output_dir, topology)


def _locked(
    folder: pathlib.Path, topology: Topology
) -> contextlib.AbstractContextManager[object]:
    """Locks a seed's folder, which is the output_dir of a run of its own.

    Raises UserError if another run is using it.
    """
    if topology.group.rank > 0:
        return contextlib.nullcontext()
    return files.locked(folder, str(folder), "--output_dir")


def _run_each(
    config: FinetuneConfig, output_dir: pathlib.Path, topology: Topology
) -> None:
    """Runs each seed in a folder of its own, then writes seeds.json."""
    seeds = range(config.seed, config.seed + config.seeds)
    folders = [output_dir / run_files.SEED.format(seed) for seed in seeds]
    # All seeds draw the same samples.
    config = identity.with_original_random_numbers(config, folders, topology.group)
    finished = None
    for seed, folder in zip(seeds, folders, strict=True):
        say(f"seed {seed}, {seed - config.seed + 1} of {config.seeds}: {folder}")
        # All seeds read the same rows: one cache serves them.
        own = dataclasses.replace(
            config,
            seed=seed,
            seeds=1,
            given=config.given | {"seed"},
            cache_dir=str(stages.cache_folder(config.cache_dir, output_dir)),
            sampled_by=config.seed,
        )
        # TensorFlow never frees compiled programs: all seeds share them.
        towers = finished.towers if finished else None
        with _locked(folder, topology):
            finished = finetune.finetune(own, folder, topology, towers=towers)
    if topology.group.rank > 0 or finished is None:
        return
    summaries = {}
    for name in (history.MAIN, *sources.named_files(config.eval_files)):
        file = result_files.evaluation_file(None if name == history.MAIN else name)
        scores = [result_files.read_evaluation(folder / file) for folder in folders]
        summaries[name] = result_files.over_seeds(scores)
        means = ", ".join(
            f"{key} {summary['mean']:.4f} ± {summary['deviation']:.4f}"
            for key, summary in summaries[name].items()
            if key in finished.task.shown
        )
        say(f"{name}, mean and deviation of {config.seeds} seeds: {means}")
    text = json.dumps({"seeds": [*seeds], "scores": summaries}, indent=2)
    write_text(output_dir / run_files.SEEDS, text + "\n")
