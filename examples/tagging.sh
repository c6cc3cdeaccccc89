#!/usr/bin/env bash
# Entities in texts: checks the data, trains, evaluates, predicts, exports.
#
#   DATA=data/ner MODEL=model OUT=out_ner bash examples/tagging.sh
#
# DATA has train.txt, dev.txt and test.txt with a word and its tag on each line, as for
# BERT-NER; TASK=cluener takes train.json, dev.json and test.json. Your own files need a
# task.json with "type": "tags" and a TASK of another name: see docs/tagging.md.
# Arguments are more flags of run_classifier_mgpu.py, such as --crf=true
# --head_lr_factor=100.
set -euo pipefail
DATA=${DATA:-data/ner}
TASK=${TASK:-ner}
MODEL=${MODEL:-model} # Google's bert_model.ckpt, or a Hugging Face folder
OUT=${OUT:-out_ner}
SERVED=${SERVED:-served/ner/1} # NAME/VERSION, as TensorFlow Serving wants it
N_GPUS=${N_GPUS:-1}
LENGTH=${LENGTH:-128} # tokens of a row; longer sentences are cut into windows
REPAIR=${REPAIR:-begin} # an I- that continues nothing begins an entity
PYTHON=${PYTHON:-.venv/bin/python}
cd "$(dirname "${BASH_SOURCE[0]}")/.." # paths are relative to the clone

# 1. Tags that fit nothing, spans outside of their text, mentions with several types.
"$PYTHON" -m bert_mgpu doctor data --task_name="$TASK" --data_dir="$DATA" \
  --init_checkpoint="$MODEL" --max_seq_length="$LENGTH" --repair_bio="$REPAIR" "$@"

# 2. If it is stopped, run the same command again: it resumes.
"$PYTHON" run_classifier_mgpu.py --task_name="$TASK" --data_dir="$DATA" \
  --init_checkpoint="$MODEL" --output_dir="$OUT" --n_gpus="$N_GPUS" \
  --max_seq_length="$LENGTH" --train_batch_size=16 --learning_rate=5e-5 \
  --num_train_epochs=5 --repair_bio="$REPAIR" --do_train=true --do_eval=true \
  --do_predict=true --export_saved_model="$SERVED" "$@"

# 3. A line for each sentence: its tags; its entities with their places.
head -n 3 "$OUT/predict.txt" "$OUT/predictions.jsonl"
