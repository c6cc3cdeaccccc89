"""A trained model for predictions, without a run around it."""

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
    """The model of a folder, on devices of this process. Nothing is written.

    config: of a run that predicts standard input. Raises UserError where the folder
    holds no trained model.
    """
    run = finetune.prepare(config, folder, single_process(config.n_gpus, [*devices]))
    _, towers = train.train_or_load(run, use_best=config.use_best)
    return Predictor.of_run(run, towers)
