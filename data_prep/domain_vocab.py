#!/usr/bin/env python3
"""Reports how well a vocabulary fits the texts of a domain, and extends it.

`python data_prep/domain_vocab.py --help` lists the flags.
"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from bert_mgpu.cli import domain_vocab

if __name__ == "__main__":
    sys.exit(domain_vocab.main())
