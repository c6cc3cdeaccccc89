#!/usr/bin/env python3
"""Makes records for run_pretraining_mgpu.py from raw text.

`python data_prep/create_pretraining_data.py --help` lists the flags.
"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from bert_mgpu.cli import create_pretraining_data

if __name__ == "__main__":
    sys.exit(create_pretraining_data.main())
