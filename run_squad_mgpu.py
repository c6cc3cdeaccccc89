#!/usr/bin/env python3
"""Answers questions from their contexts, like google-research/bert's run_squad.py.

`python run_squad_mgpu.py --help` lists the flags.
"""

import sys

from bert_mgpu.cli import run_squad

if __name__ == "__main__":
    sys.exit(run_squad.main())
