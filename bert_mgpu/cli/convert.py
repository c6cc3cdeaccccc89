"""Converts a model to another program's format: bert_mgpu convert FLAGS

  bert_mgpu convert --init_checkpoint=model/bert_model.ckpt \\
    --export_hf=model_hf --input_file=texts.txt
  bert_mgpu convert --init_checkpoint=model_hf --export_google=model_tf1

--init_checkpoint is a checkpoint of google-research/bert or of bert_mgpu, or a
Hugging Face folder. The written model is read back, and its outputs are compared
with the original's. Exit codes: 0 done; 1 they differ; 2 wrong flags, or no model.
"""

from __future__ import annotations

import os
import pathlib
from collections.abc import Sequence

from bert_mgpu.cli import script
from bert_mgpu.cli.flag_checks import check_folders_differ, check_needed
from bert_mgpu.config.convert import ConvertConfig
from bert_mgpu.core import files
from bert_mgpu.core.errors import UserError
from bert_mgpu.tasks.registry import TYPES


def main(argv: Sequence[str]) -> int:
    """Runs the command; returns the exit code."""
    with script.redirect_native_stderr(pathlib.Path(os.devnull)):
        return script.run(
            ["", *argv],
            str(__doc__),
            ConvertConfig,
            work=_convert,
            output=_output,
            memory_hint="use a larger machine",
            stopped="an unfinished output is not kept",
        )


def _output(config: ConvertConfig) -> tuple[pathlib.Path, str]:
    flag = "export_hf" if config.export_hf else "export_google"
    return pathlib.Path(getattr(config, flag) or ""), flag


def _convert(config: ConvertConfig) -> None:
    """Checks the flags, loads TensorFlow and converts."""
    check_needed(config, ["init_checkpoint"])
    if not (config.export_hf or config.export_google):
        raise UserError("nothing to do: pass --export_hf or --export_google")
    check_folders_differ(config, ("export_hf", "export_google"))
    if config.export_google:
        files.check_literal(os.path.abspath(config.export_google))
    from bert_mgpu.export import convert

    types = {
        task_type.huggingface_problem_type: name
        for name, task_type in TYPES.items()
        if task_type.huggingface_problem_type
    }
    convert.convert(config, types)
