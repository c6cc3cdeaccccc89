#!/usr/bin/env bash
# Predicts lines as they come: a line of JSON for each, on standard output.
#
#   tail -f texts.txt | OUT=out_reviews bash examples/predict_stream.sh > answers.jsonl
#
# The lines are texts, JSON objects, or rows as in the task's own files.
# Arguments are more flags of run_classifier_mgpu.py.
set -euo pipefail
OUT=${OUT:-out_reviews} # a trained model
PYTHON=${PYTHON:-.venv/bin/python}
cd "$(dirname "${BASH_SOURCE[0]}")/.." # paths are relative to the clone

exec "$PYTHON" run_classifier_mgpu.py --output_dir="$OUT" --do_predict=true \
  --predict_file=- "$@"
