"""All commands: bert_mgpu COMMAND FLAGS

  bert_mgpu train FLAGS        fine-tunes, as run_classifier_mgpu.py
  bert_mgpu predict FOLDER FLAGS
                               predicts a file or a text with a trained model
  bert_mgpu serve FOLDER       serves a trained model over HTTP, with a web page
  bert_mgpu doctor             reports what this machine has for training
  bert_mgpu doctor data FLAGS  checks a task's files
  bert_mgpu convert FLAGS      converts a model to another program's format
  bert_mgpu features FLAGS     writes vectors of texts, as extract_features.py
  bert_mgpu squad FLAGS        trains and predicts answers, as run_squad_mgpu.py
  bert_mgpu pretrain FLAGS     pretrains on raw text, as run_pretraining_mgpu.py
  bert_mgpu records FLAGS      makes its records, as create_pretraining_data.py
  bert_mgpu vocab FLAGS        finds words of a domain, as domain_vocab.py
  bert_mgpu learn_vocab FLAGS  learns a new vocabulary, as learn_vocab.py
  bert_mgpu ads FLAGS          makes data for rewriting, as make_rewrite_data.py
  bert_mgpu install_horovod    builds Horovod, for several processes or machines

Each command has its own --help. Where bert_mgpu is not in PATH, write
python -m bert_mgpu instead.
"""

from __future__ import annotations

import difflib
import glob
import importlib
import os
import sys

import bert_mgpu
from bert_mgpu.cli import script
from bert_mgpu.core import log, run_files
from bert_mgpu.core.errors import UserError, shortened

_LONGEST_NAME = 100  # characters of a name that are compared with known ones

# The module of each command has main(flags) -> exit code; only the one asked for is
# imported.
COMMANDS = {
    "convert": "convert",
    "doctor": "doctor.environment",
    "install_horovod": "doctor.horovod_build",
    "serve": "serve",
}
# The commands that run scripts, whose main() reads sys.argv; and the flag they imply.
SCRIPTS = {
    "train": ("run_classifier", "do_train"),
    "predict": ("run_classifier", "do_predict"),
    "features": ("extract_features", None),
    "squad": ("run_squad", None),
    "pretrain": ("run_pretraining", "do_train"),
    "records": ("create_pretraining_data", None),
    "vocab": ("domain_vocab", None),
    "learn_vocab": ("learn_vocab", None),
    "ads": ("make_rewrite_data", None),
}


def main() -> int:
    """Runs the command line; returns the exit code."""
    name, *flags = sys.argv[1:] or ["--help"]
    if name in ("--help", "-h", "help"):
        return log.print_stdout(str(__doc__).strip())
    if name in ("--version", "version"):
        return log.print_stdout(f"bert_mgpu {bert_mgpu.__version__}")
    if name in SCRIPTS:
        module, flag = SCRIPTS[name]
        one_text = any(part.startswith("--predict_text") for part in flags)
        implied = [f"--{flag}=true"] if flag and not one_text else []
        if name == "predict" and flags and not flags[0].startswith("-"):
            flags[0] = f"--{_flag_of_model(flags[0])}={flags[0]}"
        sys.argv = [f"bert_mgpu {name}", *implied, *flags]
        return int(importlib.import_module(f"bert_mgpu.cli.{module}").main())
    if name not in COMMANDS:
        known = [*SCRIPTS, *COMMANDS]
        near = difflib.get_close_matches(name[:_LONGEST_NAME], known, n=1)
        meant = f"did you mean {near[0]}? " if near else ""
        return script.fail(
            UserError(
                f"{shortened(name)}: no such command: {meant}pass one of"
                f" {', '.join(known)}"
            )
        )
    return importlib.import_module(f"bert_mgpu.cli.{COMMANDS[name]}").main(flags)


def _flag_of_model(folder: str) -> str:
    """The flag for the folder of a model to predict with; an export is only read."""
    saved = glob.glob(f"{run_files.CHECKPOINT}-*.index", root_dir=folder)
    exported = os.path.exists(os.path.join(folder, run_files.RUN)) and not saved
    return "init_checkpoint" if exported else "output_dir"
