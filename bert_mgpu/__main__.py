"""What helps around a training, by one name: bert_mgpu COMMAND FLAGS

  bert_mgpu convert FLAGS    a model from one program's format to another's
  bert_mgpu doctor           what this machine has for training
  bert_mgpu doctor data FLAGS    looks through a task's files

In a clone: python -m bert_mgpu COMMAND. Each command has its own --help.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

from bert_mgpu import command, convert, doctor
from bert_mgpu.errors import UserError

COMMANDS: dict[str, Callable[[Sequence[str]], int]] = {
    "convert": lambda rest: convert.main(["bert_mgpu convert", *rest]),
    "doctor": doctor.main,
}


def main() -> int:
    """The command line -> the exit code."""
    name, *rest = sys.argv[1:] or ["--help"]
    if name in ("--help", "-h"):
        return command.show(str(__doc__).strip())
    if name not in COMMANDS:
        known = ", ".join(COMMANDS)
        return command.fail(UserError(f"{name}: no such command: pass one of {known}"))
    return COMMANDS[name](rest)


if __name__ == "__main__":
    sys.exit(main())
