#!/usr/bin/env bash
# Pretrains a small English BERT further on the BBC news, without labels, and fine-tunes
# it on few labelled rows, from there and from the start. `make demo` gets both first.
#
#   bash examples/pretrain_domain.sh               # about 6 minutes on two cores
#   STEPS=20 OUT=/tmp/domain bash examples/pretrain_domain.sh
set -euo pipefail
cd "$(dirname "$0")/.."
PYTHON=${PYTHON:-.venv/bin/python}
DEMO=${DEMO:-demo}    # made by examples/demo_data.py
OUT=${OUT:-$DEMO/domain}
STEPS=${STEPS:-150}    # of pretraining
LENGTH=${LENGTH:-128}  # tokens of a row
ROWS=${ROWS:-64}       # labelled ones
MODEL=$DEMO/model

"$PYTHON" examples/demo_data.py "$DEMO"
mkdir -p "$OUT"

# 1. Text: a sentence a line, a blank line after each document.
cut -f2 "$DEMO/train.tsv" | sed 's/\([.!?]\) /\1\n/g; s/$/\n/' > "$OUT/corpus.txt"

# 2. Records: whole words, masks drawn anew in every epoch.
"$PYTHON" data_prep/create_pretraining_data.py --input_file="$OUT/corpus.txt" \
  --output_file="$OUT/corpus.tfrecord" --vocab_file="$MODEL/vocab.txt" \
  --objective=documents --max_seq_length="$LENGTH" --do_whole_word_mask=true \
  --dynamic_masking=true

pretrain() {  # on two towers
  "$PYTHON" run_pretraining_mgpu.py --input_file="$OUT/corpus.tfrecord" \
    --dynamic_masking=true --max_seq_length="$LENGTH" --padding=pack --n_gpus=2 \
    --train_batch_size=8 --do_train=true --num_train_steps="$STEPS" \
    --num_warmup_steps=$((STEPS / 10)) "$@"
}

# 3. These weights have no head for masked words, as they are a model of sentences. A
#    random one would spoil them: first the head learns alone, then all do.
pretrain --init_checkpoint="$MODEL" --output_dir="$OUT/head" --freeze='^bert/' \
  --learning_rate=1e-3
pretrain --init_checkpoint="$OUT/head" --output_dir="$OUT/pretrained" \
  --learning_rate=5e-5 --do_eval=true --max_eval_steps=10

# 4. Fine-tuning, from the published weights and from those of step 3.
for start in "$MODEL" "$OUT/pretrained"; do
  "$PYTHON" run_classifier_mgpu.py --task_name=bbc --data_dir="$DEMO" \
    --init_checkpoint="$start" --output_dir="$OUT/from-$(basename "$start")" \
    --max_seq_length="$LENGTH" --max_train_examples="$ROWS" --num_train_epochs=5 \
    --train_batch_size=8 --learning_rate=1e-4 --do_train=true --do_eval=true
done
grep eval_accuracy "$OUT"/from-*/eval_results.txt
