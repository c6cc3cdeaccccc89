"""A pretraining run from start to finish: train, evaluate, score, export."""

from __future__ import annotations

import pathlib

from bert_mgpu.checkpoints import initial_weights, train_state
from bert_mgpu.config.pretraining import PretrainConfig
from bert_mgpu.core import run_files, text_files
from bert_mgpu.core.log import fact
from bert_mgpu.distributed.topology import Topology
from bert_mgpu.evaluation.history import MAIN
from bert_mgpu.runs import (
    assessment,
    identity,
    mlflow_log,
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
    """Trains, evaluates, scores and exports as the flags ask.

    Raises RunError if the run ends early.
    """
    config = identity.with_original_random_numbers(config, [output_dir], topology.group)
    # 1. The model without its weights, the records, the task.
    model = stages.find_model(config, output_dir, dataset.made_with(config))
    if config.do_predict:  # mistakes are reported before time is spent
        text_files.check_file(str(config.predict_file))
        run_files.check_input(output_dir, pathlib.Path(str(config.predict_file)))
        _ = model.required_tokenizer.mask_id
    if config.export_hf:
        _ = model.required_vocab_file
    stages.check_export(config.export_hf, topology.group.rank)
    cache = stages.cache_folder(config.cache_dir, output_dir)
    data = RecordDataset(config, model, cache, topology=topology)
    if config.do_train:
        fact("objectives", f"masked words{', next sentence' * data.next_sentence}")
    next_sentence = data.next_sentence
    if not (config.do_train or config.do_eval):
        path = config.init_checkpoint
        next_sentence = _has_next_sentence_head(output_dir, path)
    task = Pretraining(
        model.bert_config,
        config.max_seq_length,
        next_sentence,
        recompute=config.recompute,
    )
    run = Run(config, model, task, data=data, topology=topology, output_dir=output_dir)
    stages.describe(run)
    if config.plan:
        plan.show(run)
        return
    with mlflow_log.following(run):
        # 2. The weights: trained by this run, or loaded.
        state, towers = train.train_or_load(run)
        # 3. The uses of the model.
        if config.do_eval:
            stages.evaluate(run, towers, state.step, names=[MAIN])
        if config.do_train:
            assessment.assess_pretraining(run, train.planned(run), next_sentence)
        if config.do_predict:
            score_sentences.score(run, state.averaged)
        stages.export(run, state.averaged)


def _has_next_sentence_head(
    output_dir: pathlib.Path, init_checkpoint: str | None
) -> bool:
    """Whether the trained model has a head for next-sentence prediction."""
    trained = bool(train_state.saved_steps(output_dir))
    path = str(output_dir) if trained else init_checkpoint
    return path is not None and NEXT_HEAD in initial_weights.open_weights(path).specs
