"""Fine-tunes BERT on N towers, evaluates it and predicts.

Train on two GPUs (or on a CPU), measure on the dev set, predict the test set:

  python run_classifier_mgpu.py --task_name=mrpc --data_dir=data/MRPC \\
    --vocab_file=model/vocab.txt --bert_config_file=model/bert_config.json \\
    --init_checkpoint=model/bert_model.ckpt --output_dir=out \\
    --do_train=true --do_eval=true --do_predict=true --n_gpus=2

Predict another file with the trained model:

  python run_classifier_mgpu.py --task_name=mrpc --data_dir=data/MRPC \\
    --output_dir=out --do_predict=true --predict_file=new.tsv

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
    return run.finetune(sys.argv, usage, launch.start_anew)


if __name__ == "__main__":
    sys.exit(main())
