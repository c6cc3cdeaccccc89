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
from bert_mgpu.runs.run import Run, make_towers
from bert_mgpu.tasks.masked_lm.pseudo_perplexity import MaskedWords, Scoring


def score(run: Run, params: Mapping[str, np.ndarray]) -> None:
    """Pseudo-perplexity of the lines of --predict_file."""
    config, bert_config = run.config, run.model.bert_config
    texts = [text for _, text in text_files.read_lines(str(config.predict_file))]
    rows = MaskedWords(texts, run.model.tokenizer, config.max_seq_length)
    if not len(rows):
        raise UserError(f"{config.predict_file}: no text in there")
    read = {"--predict_file": hashlib.sha256("\n".join(texts).encode()).hexdigest()}
    collective.check_equal(run.topology.group, read)
    say(
        f"to score: {len(texts)} lines of {config.predict_file}, {len(rows)} words;"
        f" {rows.truncated} lines are cut at {config.max_seq_length} tokens"
    )
    task = Scoring(bert_config, config.max_seq_length, int(rows.counts.max()))
    # Its parameters are fewer: what the training freezes may not be among them.
    used = dataclasses.replace(config, freeze=None, freeze_layers=None)
    towers = make_towers(run._replace(config=used, task=task))
    towers.load({name: params[name] for name in task.param_specs()}, {})
    batch = rows_at_once(config, towers, predicting=True)
    # A row has one masked word.
    losses = forward(config, rows, batch, towers=towers, what="predict", packs=False)[
        "losses"
    ]
    if towers.group.rank > 0:
        return
    scores = list(rows.scores(losses))
    written = result_files.write_sentence_scores(run.output_dir, scores)
    known = [score["ppl"] for score in scores if score["ppl"] is not None]
    say(f"scored {len(scores)} lines, median perplexity {np.median(known):.2f}:")
    say(f"  {', '.join(written)} in {run.output_dir}")
