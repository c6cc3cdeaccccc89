#!/usr/bin/env bash
# Answers to questions: checks the data, trains, evaluates, predicts, exports.
#
#   DATA=data/squad MODEL=model OUT=out_squad bash examples/questions.sh
#
# DATA has train-v1.1.json and dev-v1.1.json; TASK=squad2 takes the files of SQuAD 2.0,
# TASK=cmrc2018 and TASK=drcd Chinese ones. Your own files in SQuAD's format need a
# task.json with "type": "qa" and a TASK of another name: see docs/questions.md.
# PORT=8501 serves the model at the end, with a page to type questions into.
# Arguments are more flags of run_classifier_mgpu.py, such as --precision=bfloat16.
set -euo pipefail
DATA=${DATA:-data/squad}
TASK=${TASK:-squad}
MODEL=${MODEL:-model} # Google's bert_model.ckpt, or a Hugging Face folder
OUT=${OUT:-out_squad}
SERVED=${SERVED:-served/squad/1} # NAME/VERSION, as TensorFlow Serving wants it
N_GPUS=${N_GPUS:-1}
LENGTH=${LENGTH:-384} # tokens of a row; longer contexts are cut into windows
STRIDE=${STRIDE:-}    # tokens from the start of a window to that of the next one;
                      # without it 128, and at most half a row
PYTHON=${PYTHON:-.venv/bin/python}
cd "$(dirname "${BASH_SOURCE[0]}")/.." # paths are relative to the clone

# 1. Answers that are not at their place, or longer than --max_answer_length.
"$PYTHON" -m bert_mgpu doctor data --task_name="$TASK" --data_dir="$DATA" \
  --init_checkpoint="$MODEL" --max_seq_length="$LENGTH" \
  ${STRIDE:+--doc_stride="$STRIDE"} "$@"

# 2. If it is stopped, run the same command again: it resumes.
"$PYTHON" run_classifier_mgpu.py --task_name="$TASK" --data_dir="$DATA" \
  --init_checkpoint="$MODEL" --output_dir="$OUT" --n_gpus="$N_GPUS" \
  --max_seq_length="$LENGTH" ${STRIDE:+--doc_stride="$STRIDE"} --train_batch_size=12 \
  --learning_rate=3e-5 --num_train_epochs=2 --do_train=true --do_eval=true \
  --do_predict=true --export_saved_model="$SERVED" "$@"

# 3. Answers to other questions, until Ctrl-C.
if [[ -n ${PORT:-} ]]; then
  exec "$PYTHON" -m bert_mgpu serve "$OUT" --port="$PORT"
fi

# Otherwise a line for each question: its answer; the same with its place.
head -n 3 "$OUT/predict.txt" "$OUT/predictions.jsonl"
