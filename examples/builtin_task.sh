#!/usr/bin/env bash
# Fine-tunes BERT on a built-in task of classification, evaluates it and predicts:
#
#   bash examples/builtin_task.sh toutiao data/toutiao model/bert_model.ckpt out_toutiao
#   N_GPUS=4 bash examples/builtin_task.sh xnli data/XNLI model out --num_train_epochs=1
#
# TASK DATA_DIR MODEL OUTPUT_DIR, then any flags of run_classifier_mgpu.py. MODEL is
# Google's checkpoint, a Hugging Face folder (safetensors) or what an earlier run left,
# with vocabulary and config beside it. N_GPUS and PYTHON may be set.
set -euo pipefail
PYTHON=${PYTHON:-.venv/bin/python}
N_GPUS=${N_GPUS:-1} # towers, each with its own rows of a step
cd "$(dirname "${BASH_SOURCE[0]}")/.." # paths are relative to the clone

if (($# < 4)); then
  echo "error: TASK DATA_DIR MODEL OUTPUT_DIR are needed: see the head of $0" >&2
  exit 2
fi
task=$1 data=$2 model=$3 out=$4
shift 4

# task          files in DATA_DIR (all columns: docs/classification.md)
#                                            tokens  rows of a step and tower  epochs
case $task in
  cola) # train.tsv dev.tsv test.tsv: is it a sentence?
    length=64 batch=32 epochs=3 ;;
  mnli) # train.tsv dev_matched.tsv test_matched.tsv: does one follow from the other?
    length=128 batch=32 epochs=3 ;;
  mrpc) # train.tsv dev.tsv test.tsv: do both say the same?
    length=128 batch=32 epochs=3 ;;
  xnli) # multinli/multinli.train.zh.tsv xnli.dev.tsv: mnli in Chinese
    length=128 batch=32 epochs=2 ;;
  sentiment) # train.txt test.txt: comments as lines of JSON, good or bad
    length=256 batch=16 epochs=3 ;;
  wos5736 | wos46985) # train.txt test.txt: abstracts, 11 or 134 fields of science
    length=384 batch=8 epochs=5 ;;
  toutiao) # train_0705.tsv test_0705.tsv: Chinese headlines, 15 classes
    length=64 batch=32 epochs=3 ;;
  title_audit) # train_all_0531.txt test_all_0531.txt: may this title be shown?
    length=64 batch=32 epochs=3 ;;
  abuse) # train_abuse_0531.txt eval_data_revise.txt: is it abusive?
    length=128 batch=32 epochs=3 ;;
  ad) # train_0620.txt eval_0620.txt: does this segment fit into this ad?
    length=128 batch=32 epochs=3 ;;
  high_level) # train_without_content_0515.txt test_without_content_0515.txt: titles
    length=64 batch=32 epochs=5 ;;
  doc_lv1) # train.tsv test.tsv: articles, 20 classes
    length=512 batch=12 epochs=3 ;;
  ner | cluener)
    echo "error: $task: see examples/tagging.sh" >&2
    exit 2 ;;
  squad | squad2 | cmrc2018 | drcd)
    echo "error: $task: see examples/questions.sh" >&2
    exit 2 ;;
  *)
    echo "error: $task: no built-in task: for your own, examples/own_task.sh" >&2
    exit 2 ;;
esac

exec "$PYTHON" run_classifier_mgpu.py --task_name="$task" --data_dir="$data" \
  --init_checkpoint="$model" --output_dir="$out" --n_gpus="$N_GPUS" \
  --max_seq_length="$length" --train_batch_size="$batch" --num_train_epochs="$epochs" \
  --learning_rate=2e-5 --do_train=true --do_eval=true --do_predict=true "$@"
