"""Pretrains BERT on N towers, from nothing or further on texts of your domain.

Make records of a text file (a sentence a line, blank lines between documents),
train on two GPUs (or on a CPU), and measure:

  python data_prep/create_pretraining_data.py --input_file=corpus.txt \\
    --output_file=corpus.tfrecord --vocab_file=model/vocab.txt

  python run_pretraining_mgpu.py --input_file=corpus.tfrecord \\
    --bert_config_file=model/bert_config.json --output_dir=out \\
    --init_checkpoint=model/bert_model.ckpt --do_train=true --do_eval=true \\
    --num_train_steps=10000 --num_warmup_steps=1000 --learning_rate=5e-5 \\
    --n_gpus=2

Exit codes: 0 done, 1 our fault, 2 bad usage or data, 3 diverged, 4 out of
memory, 5 lost another process, 75 stopped by SIGTERM and resumable, 130
Ctrl-C.
"""

from __future__ import annotations

import sys

from bert_mgpu import launch, run, scripts


def main() -> int:
    """The command line -> the exit code."""
    usage = scripts.usage(str(__doc__), sys.argv[0])
    return run.pretrain(sys.argv, usage, launch.start_anew)


if __name__ == "__main__":
    sys.exit(main())
