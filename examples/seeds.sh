#!/usr/bin/env bash
# Is it better, or was it chance? Trains with several seeds: mean and deviation.
#
#   DATA=data/reviews SEEDS=5 bash examples/seeds.sh
#
# Arguments are more flags of run_classifier_mgpu.py.
set -euo pipefail
DATA=${DATA:-data/reviews}
TASK=${TASK:-reviews}
MODEL=${MODEL:-model} # Google's bert_model.ckpt, or a Hugging Face folder
OUT=${OUT:-out_seeds}
SEEDS=${SEEDS:-5}
N_GPUS=${N_GPUS:-1}
PYTHON=${PYTHON:-.venv/bin/python}
cd "$(dirname "${BASH_SOURCE[0]}")/.." # paths are relative to the clone

"$PYTHON" run_classifier_mgpu.py --task_name="$TASK" --data_dir="$DATA" \
  --init_checkpoint="$MODEL" --output_dir="$OUT" --n_gpus="$N_GPUS" --seeds="$SEEDS" \
  --do_train=true --do_eval=true "$@"
cat "$OUT/seeds.json"
