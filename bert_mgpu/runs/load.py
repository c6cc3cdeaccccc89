"""Loads a trained model for predictions, without a run."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence

from bert_mgpu.config.finetuning import FinetuneConfig
from bert_mgpu.distributed.topology import single_process
from bert_mgpu.runs import finetune, train
from bert_mgpu.runs.predictor import Predictor


def load(
    config: FinetuneConfig, folder: pathlib.Path, devices: Sequence[str]
) -> Predictor:
    """Loads the model of a folder onto devices of this process. Writes nothing.

    config: of a run that predicts standard input. Raises UserError if the folder holds
    no trained model.
    """
    run = finetune.prepare(config, folder, single_process(config.n_gpus, [*devices]))
    _, towers = train.train_or_load(run, use_best=config.use_best)
    return Predictor.of_run(run, towers)
