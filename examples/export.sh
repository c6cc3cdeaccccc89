#!/usr/bin/env bash
# Exports a trained model: a SavedModel that takes raw texts, for TensorFlow Serving,
# and a folder for Hugging Face's transformers.
#
#   OUT=out_reviews SERVED=served/reviews/1 HF=hf_reviews bash examples/export.sh
#
# Arguments are more flags of run_classifier_mgpu.py. With --predict_file=FILE and
# --do_predict=true the exports' outputs are compared with the model's.
set -euo pipefail
OUT=${OUT:-out_reviews}              # a trained model
SERVED=${SERVED:-served/reviews/1} # NAME/VERSION, as TensorFlow Serving wants it
HF=${HF:-hf_reviews}
PYTHON=${PYTHON:-.venv/bin/python}
cd "$(dirname "${BASH_SOURCE[0]}")/.." # paths are relative to the clone

exec "$PYTHON" run_classifier_mgpu.py --output_dir="$OUT" \
  --export_saved_model="$SERVED" --export_hf="$HF" "$@"
