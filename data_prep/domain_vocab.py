#!/usr/bin/env python3
"""How well a vocabulary fits the texts of a domain, and one that fits it better.

`python data_prep/domain_vocab.py --help` tells the rest.
"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from bert_mgpu.cli import domain_vocab

if __name__ == "__main__":
    sys.exit(domain_vocab.main())
