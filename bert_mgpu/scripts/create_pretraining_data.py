"""Makes records for run_pretraining_mgpu.py from raw text.

The text has one sentence a line and blank lines between documents. Pairs of
texts with masks, as google-research/bert makes them:

  python data_prep/create_pretraining_data.py --input_file='corpus/*.txt.xz' \\
    --output_file=data/train.tfrecord --vocab_file=model/vocab.txt \\
    --max_seq_length=128 --max_predictions_per_seq=20 --dupe_factor=5

Documents for masks that are drawn anew in every epoch, whole Chinese words:

  python data_prep/create_pretraining_data.py --input_file=corpus.txt \\
    --output_file=data/train.tfrecord --vocab_file=model/vocab.txt \\
    --objective=documents --dynamic_masking=true --segmenter=jieba

The same command goes on where a stopped one was. Exit codes: 0 done, 1 our
fault, 2 bad usage or data, 4 out of memory, 75 stopped by SIGTERM, 130 Ctrl-C.
"""

from __future__ import annotations

import sys

from bert_mgpu import scripts
from bert_mgpu.preparing import pretraining_data


def main() -> int:
    """The command line -> the exit code."""
    return pretraining_data.main(sys.argv, scripts.usage(str(__doc__), sys.argv[0]))


if __name__ == "__main__":
    sys.exit(main())
