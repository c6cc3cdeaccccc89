"""Fine-tunes BERT on N towers, evaluates it and predicts.

Train on two GPUs (or on a CPU), evaluate on the dev set, predict the test set:

  python run_classifier_mgpu.py --task_name=mrpc --data_dir=data/MRPC \\
    --vocab_file=model/vocab.txt --bert_config_file=model/bert_config.json \\
    --init_checkpoint=model/bert_model.ckpt --output_dir=out \\
    --do_train=true --do_eval=true --do_predict=true --n_gpus=2

Predict another file, or a text, with the trained model:

  python run_classifier_mgpu.py --output_dir=out --do_predict=true \\
    --predict_file=new.tsv
  python run_classifier_mgpu.py --output_dir=out --predict_text="a fine film"

Exit codes: 0 done, 1 a bug in bert_mgpu, 2 bad usage or data, 3 diverged,
4 out of memory, 5 another process failed or was lost, 75 SIGTERM and
130 Ctrl-C, both resumable.
"""

from __future__ import annotations

import os
import pathlib
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from bert_mgpu.cli import session
from bert_mgpu.cli.flag_checks import (
    EXPORTS,
    check_common_flags,
    check_needed,
    check_trained,
    check_used,
)
from bert_mgpu.config.finetuning import FinetuneConfig
from bert_mgpu.core.errors import UserError
from bert_mgpu.core.files import STANDARD_INPUT
from bert_mgpu.tasks import registry, sources

if TYPE_CHECKING:  # it imports TensorFlow
    from bert_mgpu.distributed.topology import Topology


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line; returns the exit code.

    argv: None means sys.argv; see `session.run`.
    """
    return session.run(argv, str(__doc__), FinetuneConfig, check=check, work=work)


def work(config: FinetuneConfig, output_dir: pathlib.Path, topology: Topology) -> None:
    """Does what the flags ask for."""
    from bert_mgpu.runs import seeds

    seeds.run(config, output_dir, topology)


def check(config: FinetuneConfig) -> None:
    """Raises UserError for missing or contradictory flags."""
    if config.task_name is None and config.trained_task is None:
        why = "--help=all lists all flags"
        folder = config.init_checkpoint or config.output_dir
        if not config.do_train and folder:
            check_trained(folder)
            why = "the model's folder does not name its task: pass it and --data_dir"
        check_needed(config, ["task_name"], why)
    if config.do_train or config.do_eval:
        check_needed(
            config, ["data_dir"], "it holds the files to train and evaluate on"
        )
    elif config.do_predict and config.predict_file is None:
        check_needed(config, ["data_dir"], "or pass --predict_file, which needs none")
    check_common_flags(config)
    if config.truncation != "head_tail":
        check_used(config.given, ["head_tokens"], "--truncation=head_tail")
    if not config.export_saved_model:
        check_used(config.given, ["export_tokenizer"], "--export_saved_model")
    if config.data_dir is not None and not os.path.isdir(config.data_dir):
        fault = "a file" if os.path.exists(str(config.data_dir)) else "no such folder"
        raise UserError(
            f"--data_dir={config.data_dir}: {fault}: pass the folder with the"
            " task's files"
        )
    registry.find_task_files(config)
    others = sources.named_files(config.eval_files)
    if others and not (config.do_eval or config.eval_steps):
        raise UserError(
            "--eval_files is given: pass --do_eval=true or --eval_steps as well"
        )
    _check_printed(config)
    if config.seeds > 1:
        _check_seeds(config)
    if config.eval_steps and not config.do_train:
        raise UserError("--eval_steps does nothing without --do_train=true: pass both")
    if config.max_train_steps == 0:
        for name in ("plan", "eval_steps"):
            if getattr(config, name):
                raise UserError(
                    f"--{name} with --max_train_steps=0, which trains nothing: leave"
                    " out one of them"
                )
    if not config.eval_steps:
        check_used(
            config.given, ["early_stopping_patience", "best_metric"], "--eval_steps"
        )
        if config.use_best and config.do_train:
            raise UserError("--use_best with --do_train needs --eval_steps: pass both")


def _check_printed(config: FinetuneConfig) -> None:
    """Checks the flags of printed predictions: for standard input, or for one text."""
    if config.predict_text is None:
        check_used(config.given, ["predict_text_b"], "--predict_text")
    elif config.do_predict:
        raise UserError(
            "--predict_text and --do_predict: the first predicts only its text: leave"
            " one of them out"
        )
    flag = config.predict_prints
    if flag and (config.do_train or config.do_eval):
        raise UserError(
            f"--{flag} needs a trained model: leave --do_train and --do_eval out"
        )
    if config.predict_file == STANDARD_INPUT:
        if config.max_predict_examples:
            raise UserError(
                "--max_predict_examples: --predict_file=- has no known length: leave"
                " --max_predict_examples out"
            )
    else:
        check_used(config.given, ["strict"], "--predict_file=-")
    if config.predict_file is None:
        check_used(config.given, ["predict_format"], "--predict_file")


def _check_seeds(config: FinetuneConfig) -> None:
    if not (config.do_train and config.do_eval):
        raise UserError("--seeds: pass --do_train=true and --do_eval=true")
    for name in (*EXPORTS, "plan"):
        if getattr(config, name):
            raise UserError(f"--{name} is for a single model: leave --seeds out")
    if config.seed + config.seeds > 2**63:
        raise UserError(
            f"--seed={config.seed}: --seeds={config.seeds} counts on from it, beyond 64"
            " bits: pass a smaller one"
        )


if __name__ == "__main__":
    sys.exit(main())
