#!/usr/bin/env bash
# Evaluates on several files while it trains, keeps the best weights, stops early, and
# writes report.html; then evaluates that model on one more file.
#
#   EVAL_FILES=may=data/reviews/may.csv,june=data/reviews/june.csv \
#     LATER=july=data/reviews/july.csv bash examples/evaluate.sh
#
# The files have the columns of the dev file. Arguments are more flags of the training;
# columns and encoding belong in task.json, since LATER is evaluated without them.
set -euo pipefail
DATA=${DATA:-data/reviews}
TASK=${TASK:-reviews} # built in, or yours with a task.json in DATA
MODEL=${MODEL:-model} # Google's bert_model.ckpt, or a Hugging Face folder
OUT=${OUT:-out_looked}
EVAL_FILES=${EVAL_FILES:?NAME=FILE,NAME=FILE: labelled files beside dev}
LATER=${LATER:-}               # NAME=FILE: for the trained model
EVAL_STEPS=${EVAL_STEPS:-200} # steps between evaluations
N_GPUS=${N_GPUS:-1}
PYTHON=${PYTHON:-.venv/bin/python}
cd "$(dirname "${BASH_SOURCE[0]}")/.." # paths are relative to the clone

"$PYTHON" run_classifier_mgpu.py --task_name="$TASK" --data_dir="$DATA" \
  --init_checkpoint="$MODEL" --output_dir="$OUT" --n_gpus="$N_GPUS" --do_train=true \
  --do_eval=true --eval_files="$EVAL_FILES" --eval_steps="$EVAL_STEPS" \
  --early_stopping_patience=5 --use_best=true "$@"

if [[ $LATER ]]; then
  "$PYTHON" run_classifier_mgpu.py --task_name="$TASK" --data_dir="$DATA" \
    --output_dir="$OUT" --n_gpus="$N_GPUS" --do_eval=true --eval_files="$LATER" \
    --use_best=true
fi
tail -n +1 "$OUT"/eval_results*.txt
echo "look at $OUT/report.html"
