#!/usr/bin/env bash
# From ads to better ones: a bank of phrases, a model that ranks them for each segment
# of a new ad, and one that writes in slots. `make demo` gets the model first.
#
#   bash examples/rewrite_ads.sh                   # about 5 minutes on two cores
#   ADS=ads.tsv NEW=new.txt MODEL=model OUT=out_ads bash examples/rewrite_ads.sh
#
# Your own ADS has the columns ad and product, which is read with the ad; it needs NEW,
# which has an ad per line. Ads are cut into segments at 。！!？，： only. See
# docs/rewriting.md. Arguments are more flags of both trainings, such as
# --precision=bfloat16.
set -euo pipefail
DEMO=${DEMO:-demo}
ADS=${ADS:-}                 # generated unless given
NEW=${NEW:-}                 # generated with ADS
MODEL=${MODEL:-$DEMO/model}  # a folder with weights, config and vocab.txt
OUT=${OUT:-$DEMO/rewritten_ads}
N_GPUS=${N_GPUS:-1}
LENGTH=${LENGTH:-96}         # tokens of a row; a slot has one for each character
LOWER=${LOWER:-true}         # false for a cased model
CANDIDATES=${CANDIDATES:-20} # phrases for each segment
HEAD_STEPS=${HEAD_STEPS:-100}
EPOCHS=${EPOCHS:-2}
PYTHON=${PYTHON:-.venv/bin/python}
cd "$(dirname "${BASH_SOURCE[0]}")/.." # paths are relative to the clone

if [[ $ADS$NEW && ! -f $NEW ]]; then
  echo "error: NEW=$NEW: no such file: pass one of new ads to rewrite, an ad per line" >&2
  exit 2
fi
if [[ ! $ADS ]]; then
  "$PYTHON" examples/demo_data.py "$DEMO"
  "$PYTHON" examples/drawn_sets.py "$DEMO"
  ADS=$DEMO/ads/ads.tsv NEW=${NEW:-$DEMO/ads/new.txt}
fi

# 1. The bank, and rows that ask whether a phrase belongs in a slot.
"$PYTHON" data_prep/make_rewrite_data.py --input_file="$ADS" --ad_column=ad \
  --hint_column=product --output_dir="$OUT/data" --dev_share=0.2 --negatives=length:3
head -n 5 "$OUT/data/bank.tsv"

train() {
  "$PYTHON" run_classifier_mgpu.py --n_gpus="$N_GPUS" --max_seq_length="$LENGTH" \
    --train_batch_size=16 --learning_rate=1e-4 --do_train=true --do_eval=true \
    --do_lower_case="$LOWER" "$@"
}

# 2. A model that ranks. If it is stopped, run the same command again: it resumes.
train --task_name=ad --data_dir="$OUT/data" --init_checkpoint="$MODEL" \
  --output_dir="$OUT/ranker" --num_train_epochs="$EPOCHS" "$@"

# 3. Phrases of the bank for each segment of new ads, the best first.
"$PYTHON" data_prep/make_rewrite_data.py --input_file="$NEW" --output_dir="$OUT/new" \
  --candidates="$CANDIDATES" --bank="$OUT/data/bank.tsv"
"$PYTHON" run_classifier_mgpu.py --output_dir="$OUT/ranker" --do_predict=true \
  --predict_file="$OUT/new/candidates.txt"
head -n 1 "$OUT/ranker/rewrites.jsonl"

# 4. No phrase fits? A model that writes in slots. Its MLM head, which models of sentences
#    lack, learns alone first. Google's weights have it.
"$PYTHON" data_prep/create_pretraining_data.py --input_file="$OUT/data/infill.txt" \
  --output_file="$OUT/infill.tfrecord" --vocab_file="$MODEL/vocab.txt" \
  --objective=infill --max_seq_length="$LENGTH" --dupe_factor=1 \
  --do_lower_case="$LOWER"
"$PYTHON" run_pretraining_mgpu.py --input_file="$OUT/infill.tfrecord" \
  --max_seq_length="$LENGTH" --init_checkpoint="$MODEL" --output_dir="$OUT/head" \
  --freeze='^bert/' --do_train=true --n_gpus="$N_GPUS" --train_batch_size=32 \
  --learning_rate=1e-3 --num_train_steps="$HEAD_STEPS" \
  --num_warmup_steps=$((HEAD_STEPS / 10))
train --task_name=slots --data_dir="$OUT/data/rewrite" --init_checkpoint="$OUT/head" \
  --output_dir="$OUT/writer" --num_train_epochs=$((2 * EPOCHS)) --max_insert=24 "$@"

# 5. Five candidates for each [SLOT].
"$PYTHON" -m bert_mgpu predict "$OUT/writer" \
  --predict_text="Meet the Lindberg lamp! [SLOT]! Order it today!" \
  --predict_text_b="Lindberg lamp"
