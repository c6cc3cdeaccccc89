"""Scores sentences by their pseudo-perplexity under a pretrained model."""

from __future__ import annotations

import dataclasses
import hashlib
import math
from collections.abc import Mapping

import numpy as np

from bert_mgpu.core import text_files
from bert_mgpu.core.errors import UserError
from bert_mgpu.core.log import say
from bert_mgpu.distributed import collective
from bert_mgpu.evaluation import result_files
from bert_mgpu.evaluation.forward import forward
from bert_mgpu.runs.run import Run, make_towers
from bert_mgpu.tasks.masked_lm.pseudo_perplexity import MaskedWords, Scoring


def score(run: Run, params: Mapping[str, np.ndarray]) -> None:
    """Writes the pseudo-perplexity of each line of --predict_file."""
    config, bert_config = run.config, run.model.bert_config
    texts = [text for _, text in text_files.read_lines(str(config.predict_file))]
    rows = MaskedWords(texts, run.model.required_tokenizer, config.max_seq_length)
    if not len(rows):
        raise UserError(f"{config.predict_file}: holds no text")
    content = {"--predict_file": hashlib.sha256("\n".join(texts).encode()).hexdigest()}
    collective.check_equal(run.topology.group, content)
    say(
        f"scoring {len(texts)} lines of {config.predict_file}, {len(rows)} words;"
        f" {rows.truncated} lines are truncated at {config.max_seq_length} tokens"
    )
    task = Scoring(bert_config, config.max_seq_length, int(rows.target_counts.max()))
    # The task has fewer parameters, perhaps none of those that the training freezes.
    unfrozen = dataclasses.replace(config, freeze=None, freeze_layers=None)
    towers = make_towers(dataclasses.replace(run, config=unfrozen, task=task))
    towers.load({name: params[name] for name in task.param_specs()}, {})
    # A row has one masked word, so rows are not packed.
    settings = run.forward_settings("predict", predicting=True)
    settings = dataclasses.replace(settings, packs=False)
    losses = forward(rows, towers, settings)["losses"]
    if towers.group.rank > 0:
        return
    scores = list(rows.scores(losses))
    written = result_files.write_sentence_scores(run.output_dir, scores)
    perplexities = [
        math.inf if score["ppl"] is None else score["ppl"]
        for score in scores
        if score["tokens"]
    ]
    say(f"scored {len(scores)} lines, median perplexity {np.median(perplexities):.2f}:")
    say(f"  {', '.join(written)} in {run.output_dir}")
