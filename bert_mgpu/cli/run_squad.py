"""Answers questions from their contexts: google-research/bert's run_squad.py.

Train on two GPUs (or on a CPU) and predict, as in its README:

  python run_squad_mgpu.py --vocab_file=model/vocab.txt \\
    --bert_config_file=model/bert_config.json \\
    --init_checkpoint=model/bert_model.ckpt \\
    --do_train=True --train_file=squad/train-v1.1.json \\
    --do_predict=True --predict_file=squad/dev-v1.1.json \\
    --train_batch_size=12 --learning_rate=3e-5 --num_train_epochs=2.0 \\
    --max_seq_length=384 --doc_stride=128 --output_dir=out --n_gpus=2

SQuAD 2.0 needs --version_2_with_negative=True. --do_eval=true also scores the
answers to --predict_file, or to --dev_file.

Exit codes: 0 done, 1 a bug in bert_mgpu, 2 bad usage or data, 3 diverged,
4 out of memory, 5 another process failed or was lost, 75 SIGTERM and
130 Ctrl-C, both resumable.
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from bert_mgpu.cli import run_classifier, session
from bert_mgpu.cli.flag_checks import check_needed
from bert_mgpu.config.squad import NEGATIVE, SquadConfig
from bert_mgpu.core.log import fact
from bert_mgpu.tasks import sources

if TYPE_CHECKING:  # it imports TensorFlow
    from bert_mgpu.distributed.topology import Topology


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line; returns the exit code.

    argv: None means sys.argv; see `session.run`.
    """
    return session.run(argv, str(__doc__), SquadConfig, check=check, work=work)


def work(config: SquadConfig, output_dir: pathlib.Path, topology: Topology) -> None:
    """Does what the flags ask for."""
    asked = as_google(config)
    reads_dev = asked.do_eval or asked.eval_steps
    if config.predict_file and not (asked.predict_file or reads_dev):
        fact("flags", "--predict_file: not read: --do_predict is false")
    if asked.version_2_with_negative and not config.version_2_with_negative:
        fact("flags", f"--{NEGATIVE}=true, as the model was trained")
    run_classifier.work(asked, output_dir, topology)


def check(config: SquadConfig) -> None:
    """Raises UserError for missing or contradictory flags."""
    asked = {
        "train_file": config.do_train,
        "predict_file": config.do_predict,
        "dev_file": config.do_eval and not _is_one_file(config.predict_file),
    }
    if "data_dir" not in config.given:
        check_needed(config, [name for name in asked if asked[name]])
    run_classifier.check(as_google(config))


def as_google(config: SquadConfig) -> SquadConfig:
    """The settings, interpreted as run_squad.py does; see also `with_dev_file`.

    Without --do_predict nothing is predicted, even if there is a file for it. A model
    trained with unanswerable questions keeps that setting, whatever its task's name.
    """
    config = with_dev_file(config)
    trained = config.trained_task
    if trained and not {"task_name", NEGATIVE} & config.given:
        own = trained.values.get(NEGATIVE)
        config = dataclasses.replace(config, version_2_with_negative=own)
    if config.do_predict:
        return config
    given = config.given - {"predict_file"}
    return dataclasses.replace(config, predict_file=None, given=given)


def with_dev_file(config: SquadConfig) -> SquadConfig:
    """The settings, with --predict_file as the dev file unless another is given.

    If it names several files, none of them is evaluated.
    """
    path = config.predict_file
    if config.dev_file is not None or path is None or not _is_one_file(path):
        return config
    if "data_dir" in config.given:  # a dev file would be relative to it
        path = os.path.abspath(path)
    return dataclasses.replace(config, dev_file=path)


def _is_one_file(path: str | None) -> bool:
    return path is not None and len(sources.predicted(path)) == 1


if __name__ == "__main__":
    sys.exit(main())
