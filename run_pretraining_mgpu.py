#!/usr/bin/env python3
"""Pretrains BERT on N towers, from scratch or further on texts of your domain.

`python run_pretraining_mgpu.py --help` lists the flags.
"""

import sys

from bert_mgpu.cli import run_pretraining

if __name__ == "__main__":
    sys.exit(run_pretraining.main())
