"""A pretraining run from start to end: train, evaluate, score, export."""

from __future__ import annotations

import pathlib

from bert_mgpu.checkpoints import initial_weights, train_state
from bert_mgpu.config.pretraining import PretrainConfig
from bert_mgpu.core import text_files
from bert_mgpu.core.log import say
from bert_mgpu.distributed.topology import World
from bert_mgpu.evaluation import evaluator
from bert_mgpu.runs import (
    identity,
    init_distributed,
    plan,
    score_sentences,
    stages,
    train,
)
from bert_mgpu.runs.run import Job
from bert_mgpu.tasks.masked_lm import dataset
from bert_mgpu.tasks.masked_lm.dataset import Recorded
from bert_mgpu.tasks.masked_lm.task import NEXT_HEAD, Pretraining


def pretrain(run: PretrainConfig, output_dir: pathlib.Path, world: World) -> None:
    """Does what the flags ask for. Raises RunError where that ends early."""
    run = identity.as_begun(run, [output_dir], world.group)
    # 1. The model without its weights, the records, the task.
    model = stages.find_model(run, output_dir, dataset.made_with(run))
    if run.do_predict:  # mistakes are said before time is spent
        text_files.check_file(str(run.predict_file))
        _ = model.tokenizer.mask_id
    if run.export_hf:
        _ = model.vocabulary
    stages.check_export(run, world.group)
    cache = pathlib.Path(run.cache_dir or output_dir / "cache")
    data = Recorded(run, model, cache, world)
    if run.do_train:
        also = " and whether a sentence follows" * data.next_sentence
        say(f"to learn: masked words{also}")
    next_sentence = data.next_sentence
    if not (run.do_train or run.do_eval):
        next_sentence = _has_next_sentences(run, output_dir)
    task = Pretraining(model.config, run.max_seq_length, next_sentence, run.recompute)
    # 2. The towers, and the weights on them.
    job = Job(run, model, task, data, world, output_dir)
    say(init_distributed.placement(world))
    if run.plan:
        plan.show(job)
        return
    state, towers = train.trained(job)
    # 3. What comes of it.
    if run.do_eval:
        stages.evaluate(job, towers, state.step, evaluator.MAIN)
    if run.do_predict:
        score_sentences.score(job, state.averaged)
    stages.export(job, state.averaged)


def _has_next_sentences(run: PretrainConfig, output_dir: pathlib.Path) -> bool:
    """Has the trained model a head for them?"""
    trained = bool(train_state.saved_steps(output_dir))
    path = str(output_dir) if trained else run.init_checkpoint
    return path is not None and NEXT_HEAD in initial_weights.names_of(path)
