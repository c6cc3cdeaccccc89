#!/usr/bin/env python3
"""Learns a WordPiece vocabulary from raw text, for a model trained from scratch.

`python data_prep/learn_vocab.py --help` lists the flags.
"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from bert_mgpu.cli import learn_vocab

if __name__ == "__main__":
    sys.exit(learn_vocab.main())
