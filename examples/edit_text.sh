#!/usr/bin/env bash
# Learns to rewrite texts from pairs of a text and a better one; here, utterances in
# which pronouns become the names mentioned before. `make demo` gets the model first.
#
#   bash examples/edit_text.sh                     # about 3 minutes on two cores
#   DATA=data/pairs MODEL=model OUT=out_pairs bash examples/edit_text.sh
#
# Your own DATA has train.tsv, dev.tsv and test.tsv with the columns context, source and
# target, in this order and below a line with these names; a task.json is put beside
# them. For everything else see docs/rewriting.md. Arguments are more flags of the
# training, such as --precision=bfloat16.
set -euo pipefail
DEMO=${DEMO:-demo}
DATA=${DATA:-}               # generated unless given
MODEL=${MODEL:-$DEMO/model}  # a folder with weights, config and vocab.txt
OUT=${OUT:-$DEMO/edited}
N_GPUS=${N_GPUS:-1}
LENGTH=${LENGTH:-64}         # tokens of a row, context and source together
LOWER=${LOWER:-true}         # false for a cased model
HEAD_STEPS=${HEAD_STEPS:-200}
EPOCHS=${EPOCHS:-4}
INSERT_FROM=${INSERT_FROM:-input} # or vocabulary, if other words have to be written
KEEP_BIAS=${KEEP_BIAS:-1}    # higher changes less; evaluation shows nine values
PYTHON=${PYTHON:-.venv/bin/python}
cd "$(dirname "${BASH_SOURCE[0]}")/.." # paths are relative to the clone

if [[ ! $DATA ]]; then
  "$PYTHON" examples/demo_data.py "$DEMO"
  "$PYTHON" examples/drawn_sets.py "$DEMO"
  DATA=$DEMO/dialogues
fi
[[ -e $DATA/task.json ]] || cp examples/task_json/rewrite.json "$DATA/task.json"
mkdir -p "$OUT"

# 1. How much is written, what copying would score, pairs that cannot be learnt.
"$PYTHON" -m bert_mgpu doctor data --task_name=dialogues --data_dir="$DATA" \
  --init_checkpoint="$MODEL" --max_seq_length="$LENGTH" --do_lower_case="$LOWER" "$@"

# 2. Weights of sentence encoders lack the MLM head, which does the writing: it
#    is trained alone, on the pairs. Google's weights have it: leave this out.
tail -n +2 "$DATA/train.tsv" | awk -F'\t' '{print $1 "\n" $3 "\n"}' > "$OUT/corpus.txt"
"$PYTHON" data_prep/create_pretraining_data.py --input_file="$OUT/corpus.txt" \
  --output_file="$OUT/corpus.tfrecord" --vocab_file="$MODEL/vocab.txt" \
  --objective=documents --max_seq_length="$LENGTH" --dynamic_masking=true \
  --do_lower_case="$LOWER"
"$PYTHON" run_pretraining_mgpu.py --input_file="$OUT/corpus.tfrecord" \
  --dynamic_masking=true --max_seq_length="$LENGTH" --init_checkpoint="$MODEL" \
  --output_dir="$OUT/head" --freeze='^bert/' --do_train=true --n_gpus="$N_GPUS" \
  --train_batch_size=32 --learning_rate=1e-3 --num_train_steps="$HEAD_STEPS" \
  --num_warmup_steps=$((HEAD_STEPS / 10))

# 3. If it is stopped, run the same command again: it resumes. All that is written here
#    stands in the row; without INSERT_FROM=input, names of train.tsv are written.
"$PYTHON" run_classifier_mgpu.py --task_name=dialogues --data_dir="$DATA" \
  --init_checkpoint="$OUT/head" --output_dir="$OUT/trained" --n_gpus="$N_GPUS" \
  --max_seq_length="$LENGTH" --train_batch_size=16 --learning_rate=1e-4 \
  --num_train_epochs="$EPOCHS" --insert_from="$INSERT_FROM" --do_train=true \
  --do_eval=true "$@"

# 4. A line for each row: its text; the same with its edits.
"$PYTHON" run_classifier_mgpu.py --output_dir="$OUT/trained" --do_predict=true \
  --predict_file="$DATA/test.tsv" --keep_bias="$KEEP_BIAS"
head -n 3 "$OUT/trained/predict.txt" "$OUT/trained/predictions.jsonl"

# 5. One text.
"$PYTHON" -m bert_mgpu predict "$OUT/trained" --predict_text="Will they like it there?" \
  --predict_text_b="Where is Clara Turner now? In Oslo."
