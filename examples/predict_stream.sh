#!/usr/bin/env bash
# Predicts lines as they come: a line of JSON for each, on standard output.
#
#   tail -f new.tsv | OUT=out_reviews bash examples/predict_stream.sh > answers.jsonl
#
# The lines have the columns of the test file, with its header if that has one.
# Arguments are more flags of run_classifier_mgpu.py.
set -euo pipefail
DATA=${DATA:-data/reviews}
TASK=${TASK:-reviews}
OUT=${OUT:-out_reviews} # a trained model
PYTHON=${PYTHON:-.venv/bin/python}
cd "$(dirname "${BASH_SOURCE[0]}")/.." # from where paths count

exec "$PYTHON" run_classifier_mgpu.py --task_name="$TASK" --data_dir="$DATA" \
  --output_dir="$OUT" --do_predict=true --predict_file=- "$@"
