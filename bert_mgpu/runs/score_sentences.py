"""Pseudo-perplexity of sentences, by a pretrained model."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping

import numpy as np

from bert_mgpu.core import text_files
from bert_mgpu.core.errors import UserError
from bert_mgpu.core.log import say
from bert_mgpu.distributed import collective
from bert_mgpu.evaluation import result_files
from bert_mgpu.evaluation.forward import forward, rows_at_once
from bert_mgpu.runs.run import Job, make_towers
from bert_mgpu.tasks.masked_lm.pseudo_perplexity import MaskedWords, Scoring


def score(job: Job, params: Mapping[str, np.ndarray]) -> None:
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
