#!/usr/bin/env python3
"""Fine-tunes BERT on N towers, evaluates it and predicts.

`python run_classifier_mgpu.py --help` lists the flags.
"""

import sys

from bert_mgpu.cli import run_classifier

if __name__ == "__main__":
    sys.exit(run_classifier.main())
