#!/usr/bin/env python3
"""Computes vectors of texts, like google-research/bert's extract_features.py.

`python extract_features.py --help` lists the flags.
"""

import sys

from bert_mgpu.cli import extract_features

if __name__ == "__main__":
    sys.exit(extract_features.main())
