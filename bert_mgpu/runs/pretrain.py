"""A pretraining run from start to end: train, evaluate, score, export."""

from __future__ import annotations

import pathlib

from bert_mgpu.checkpoints import initial_weights, train_state
from bert_mgpu.config.pretraining import PretrainConfig
from bert_mgpu.core import text_files
from bert_mgpu.core.log import say
from bert_mgpu.distributed.topology import Topology
from bert_mgpu.evaluation import evaluator
from bert_mgpu.runs import (
    identity,
    init_distributed,
    plan,
    score_sentences,
    stages,
    train,
)
from bert_mgpu.runs.run import Run
from bert_mgpu.tasks.masked_lm import dataset
from bert_mgpu.tasks.masked_lm.dataset import RecordDataset
from bert_mgpu.tasks.masked_lm.task import NEXT_HEAD, Pretraining


def pretrain(
    config: PretrainConfig, output_dir: pathlib.Path, topology: Topology
) -> None:
    """Does what the flags ask for. Raises RunError where that ends early."""
    config = identity.with_begun_settings(config, [output_dir], topology.group)
    # 1. The model without its weights, the records, the task.
    model = stages.find_model(config, output_dir, dataset.made_with(config))
    if config.do_predict:  # mistakes are said before time is spent
        text_files.check_file(str(config.predict_file))
        _ = model.tokenizer.mask_id
    if config.export_hf:
        _ = model.vocabulary
    stages.check_export(config, topology.group)
    cache = pathlib.Path(config.cache_dir or output_dir / "cache")
    data = RecordDataset(config, model, cache, topology=topology)
    if config.do_train:
        also = " and whether a sentence follows" * data.next_sentence
        say(f"to learn: masked words{also}")
    next_sentence = data.next_sentence
    if not (config.do_train or config.do_eval):
        next_sentence = _has_next_sentences(config, output_dir)
    task = Pretraining(
        model.bert_config,
        config.max_seq_length,
        next_sentence,
        recompute=config.recompute,
    )
    # 2. The towers, and the weights on them.
    run = Run(config, model, task, data=data, topology=topology, output_dir=output_dir)
    say(init_distributed.describe_placement(topology))
    if config.plan:
        plan.show(run)
        return
    state, towers = train.train_or_load(run)
    # 3. What comes of it.
    if config.do_eval:
        stages.evaluate(run, towers, state.step, name=evaluator.MAIN)
    if config.do_predict:
        score_sentences.score(run, state.averaged)
    stages.export(run, state.averaged)


def _has_next_sentences(config: PretrainConfig, output_dir: pathlib.Path) -> bool:
    """Has the trained model a head for them?"""
    trained = bool(train_state.saved_steps(output_dir))
    path = str(output_dir) if trained else config.init_checkpoint
    return path is not None and NEXT_HEAD in initial_weights.read_names(path)
