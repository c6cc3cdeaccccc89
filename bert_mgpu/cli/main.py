"""All commands: bert_mgpu COMMAND FLAGS

  bert_mgpu train FLAGS        fine-tunes, as run_classifier_mgpu.py
  bert_mgpu predict FLAGS      predicts a file or a text with a trained model
  bert_mgpu serve FOLDER       serves a trained model by HTTP, with a page
  bert_mgpu doctor             reports what this machine has for training
  bert_mgpu doctor data FLAGS  checks a task's files
  bert_mgpu convert FLAGS      converts a model to another program's format
  bert_mgpu pretrain FLAGS     pretrains on raw text, as run_pretraining_mgpu.py
  bert_mgpu records FLAGS      makes its records, as create_pretraining_data.py
  bert_mgpu vocab FLAGS        finds words of a domain, as domain_vocab.py
  bert_mgpu install_horovod    builds Horovod, for several processes or machines

Each command has its own --help. Where bert_mgpu is not in PATH, write
python -m bert_mgpu instead.
"""

from __future__ import annotations

import importlib
import sys

from bert_mgpu.cli import script
from bert_mgpu.core import log
from bert_mgpu.core.errors import UserError

# The module of each command has main(flags) -> exit code; only the one asked for is
# imported.
COMMANDS = {
    "convert": "convert",
    "doctor": "doctor.environment",
    "install_horovod": "doctor.horovod_build",
    "serve": "serve",
}
# Those of scripts, whose main() reads sys.argv, and a flag that the name stands for.
SCRIPTS = {
    "train": ("run_classifier", "do_train"),
    "predict": ("run_classifier", "do_predict"),
    "pretrain": ("run_pretraining", "do_train"),
    "records": ("create_pretraining_data", None),
    "vocab": ("domain_vocab", None),
}


def main() -> int:
    """Runs the command line; returns the exit code."""
    name, *flags = sys.argv[1:] or ["--help"]
    if name in ("--help", "-h"):
        return log.print_stdout(str(__doc__).strip())
    if name in SCRIPTS:
        module, flag = SCRIPTS[name]
        one_text = any(part.startswith("--predict_text") for part in flags)
        implied = [f"--{flag}=true"] if flag and not one_text else []
        sys.argv = [f"bert_mgpu {name}", *implied, *flags]
        return int(importlib.import_module(f"bert_mgpu.cli.{module}").main())
    if name not in COMMANDS:
        known = ", ".join([*SCRIPTS, *COMMANDS])
        return script.fail(UserError(f"{name}: no such command: pass one of {known}"))
    return importlib.import_module(f"bert_mgpu.cli.{COMMANDS[name]}").main(flags)
