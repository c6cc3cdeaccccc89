"""The commands besides training: bert_mgpu COMMAND FLAGS

  bert_mgpu convert FLAGS      converts a model to another program's format
  bert_mgpu doctor             reports what this machine has for training
  bert_mgpu doctor data FLAGS  checks a task's files
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
}


def main() -> int:
    """Runs the command line; returns the exit code."""
    name, *flags = sys.argv[1:] or ["--help"]
    if name in ("--help", "-h"):
        return log.print_stdout(str(__doc__).strip())
    if name not in COMMANDS:
        known = ", ".join(COMMANDS)
        return script.fail(UserError(f"{name}: no such command: pass one of {known}"))
    return importlib.import_module(f"bert_mgpu.cli.{COMMANDS[name]}").main(flags)
