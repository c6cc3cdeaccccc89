"""A pretraining run from start to end: train, evaluate, score, export."""

from __future__ import annotations

import dataclasses
import hashlib
import pathlib
from collections.abc import Mapping

import numpy as np

from bert_mgpu.checkpoints import (
    google_read,
    huggingface_read,
    pretrained,
    train_state,
)
from bert_mgpu.config.pretraining import PretrainConfig
from bert_mgpu.core import text_files
from bert_mgpu.core.errors import UserError
from bert_mgpu.core.log import say
from bert_mgpu.distributed import collective
from bert_mgpu.distributed.topology import World
from bert_mgpu.evaluation import evaluator, result_files
from bert_mgpu.evaluation.forward import forward, rows_at_once
from bert_mgpu.runs import identity, init_distributed, plan, stages, train
from bert_mgpu.runs.run import Job, make_towers
from bert_mgpu.tasks.masked_lm import dataset
from bert_mgpu.tasks.masked_lm.dataset import Recorded
from bert_mgpu.tasks.masked_lm.pseudo_perplexity import MaskedWords, Scoring
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
        return plan.show(job)
    state, towers = train.trained(job)
    # 3. What comes of it.
    if run.do_eval:
        stages.evaluate(job, towers, state.step, evaluator.MAIN)
    if run.do_predict:
        _score(job, state.averaged)
    stages.export(job, state.averaged)


def _has_next_sentences(run: PretrainConfig, output_dir: pathlib.Path) -> bool:
    """Has the trained model a head for them?"""
    trained = bool(train_state.saved_steps(output_dir))
    path = str(output_dir) if trained else run.init_checkpoint
    if path is None:
        return False
    is_theirs = pretrained.is_hugging_face(path)
    found = huggingface_read.read(path) if is_theirs else google_read.read_names(path)
    return NEXT_HEAD in found


def _score(job: Job, params: Mapping[str, np.ndarray]) -> None:
    """Pseudo-perplexity of the lines of --predict_file."""
    run, config = job.run, job.model.config
    texts = [text for _, text in text_files.read_lines(str(run.predict_file))]
    rows = MaskedWords(texts, job.model.tokenizer, run.max_seq_length)
    if not len(rows):
        raise UserError(f"{run.predict_file}: no text in there")
    read = {"--predict_file": hashlib.sha256("\n".join(texts).encode()).hexdigest()}
    collective.agree(job.world.group, read)
    say(
        f"to score: {len(texts)} lines of {run.predict_file}, {len(rows)} words;"
        f" {rows.truncated} lines are cut at {run.max_seq_length} tokens"
    )
    task = Scoring(config, run.max_seq_length, int(rows.counts.max()))
    # Its parameters are fewer: what the training freezes may not be among them.
    used = dataclasses.replace(run, freeze=None, freeze_layers=None)
    towers = make_towers(job._replace(run=used, task=task))
    towers.load({name: params[name] for name in task.param_specs()}, {})
    batch = rows_at_once(run, towers, predicting=True)
    # A row has one masked word.
    losses = forward(run, rows, batch, towers, "predict", packs=False)["losses"]
    if towers.group.rank > 0:
        return
    scores = list(rows.scores(losses))
    written = result_files.write_sentence_scores(job.output_dir, scores)
    known = [score["ppl"] for score in scores if score["ppl"] is not None]
    say(f"scored {len(scores)} lines, median perplexity {np.median(known):.2f}:")
    say(f"  {', '.join(written)} in {job.output_dir}")
