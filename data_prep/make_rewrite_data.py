#!/usr/bin/env python3
"""Makes data for rewriting from ads: phrases, and rows to rank, fill and rewrite.

`python data_prep/make_rewrite_data.py --help` lists the flags.
"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from bert_mgpu.cli import make_rewrite_data

if __name__ == "__main__":
    sys.exit(make_rewrite_data.main())
