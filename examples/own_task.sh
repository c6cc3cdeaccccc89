#!/usr/bin/env bash
# Your own data: checks it, trains, evaluates and predicts.
#
#   cp examples/task_json/single.json data/reviews/task.json   # and adapt it
#   DATA=data/reviews MODEL=model OUT=out_reviews bash examples/own_task.sh
#
# examples/task_json has a task.json for one label a row (single), several (multi), a
# number (regression), pairs of texts (pairs), entities (tags), questions (qa) and texts
# to rewrite (rewrite). Arguments are flags of run_classifier_mgpu.py. At the end it
# prints the first predictions.
set -euo pipefail
DATA=${DATA:-data/reviews} # the files that task.json names, and task.json
TASK=${TASK:-reviews}      # a name of yours
MODEL=${MODEL:-model}      # Google's bert_model.ckpt, or a Hugging Face folder
OUT=${OUT:-out_reviews}
N_GPUS=${N_GPUS:-1}
LENGTH=${LENGTH:-128} # tokens of a row
PYTHON=${PYTHON:-.venv/bin/python}
cd "$(dirname "${BASH_SOURCE[0]}")/.." # paths are relative to the clone

# 1. What is wrong with the data? Rows that cannot be read end this with code 2.
"$PYTHON" -m bert_mgpu doctor data --task_name="$TASK" --data_dir="$DATA" \
  --init_checkpoint="$MODEL" --max_seq_length="$LENGTH" "$@"

# 2. If it is stopped, run the same command again: it resumes.
"$PYTHON" run_classifier_mgpu.py --task_name="$TASK" --data_dir="$DATA" \
  --init_checkpoint="$MODEL" --output_dir="$OUT" --n_gpus="$N_GPUS" \
  --max_seq_length="$LENGTH" --train_batch_size=16 --learning_rate=3e-5 \
  --do_train=true --do_eval=true --do_predict=true "$@"

# 3. One line for each row of the test file.
head -n 3 "$OUT/predict.txt" "$OUT/predictions.jsonl"
