"""Pretrains the weights of ../shared/models further on texts of one line each."""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Sequence
from typing import Any

from benchmarks import runner
from benchmarks.studies import accuracy_by_towers
from bert_mgpu.checkpoints import google_read

LENGTH, MASKED = 32, 6
_COMMON = {"max_seq_length": LENGTH, "dynamic_masking": "true"}
_TRAINING = {"train_batch_size": 32, "padding": "bucket", "seed": 1, "log_steps": 50}
_TRAINING |= {"max_predictions_per_seq": MASKED, "keep_checkpoint_max": 1}
_TRAINING |= {"precision": "bfloat16", "save_checkpoints_steps": 200}
# The weights have no masked-LM head: it is first trained alone.
_HEAD = {"num_train_steps": 700, "num_warmup_steps": 70, "learning_rate": 1e-3}
_HEAD |= {"freeze": "^bert/"}
_EPOCHS = 3  # of training everything, after the head


def pretrained(
    folder: pathlib.Path, texts: Callable[[], Sequence[str]]
) -> pathlib.Path:
    """A checkpoint by run_pretraining_mgpu.py below the folder, made if necessary.

    Continues where it was killed. The objective is masked LM alone: each line is a
    document. The pooler, which neither the objective trains nor the published weights
    contain, is left out: fine-tuning initialises it at random by its own seed.
    """
    weights = folder / "weights" / "bert_model.ckpt"
    if google_read.is_there(str(weights)):
        return weights
    model = accuracy_by_towers.WORK / "model"
    common: dict[str, Any] = {"vocab_file": model / "vocab.txt", **_COMMON}
    corpus, records = folder / "corpus.txt", folder / "corpus.tfrecord"
    if not records.exists():
        folder.mkdir(parents=True, exist_ok=True)
        corpus.write_text("".join(f"{text}\n" for text in texts()), encoding="utf-8")
        flags = {"input_file": corpus, "output_file": records, "objective": "mlm"}
        runner.call("data_prep/create_pretraining_data.py", common | flags)
    with corpus.open(encoding="utf-8") as lines:
        steps = sum(1 for _ in lines) * _EPOCHS // _TRAINING["train_batch_size"]
    longer = {"num_train_steps": steps, "num_warmup_steps": steps // 10}
    longer |= {"learning_rate": 5e-5}
    common |= {"input_file": records, "do_train": "true", "hidden_act": "gelu_erf"}
    common |= {"bert_config_file": model / "bert_config.json", **_TRAINING}
    head, output = folder / "head", folder / "all"
    first = model / "bert_model.ckpt"
    for where, begin, stage in ((head, first, _HEAD), (output, head, longer)):
        if (where / f"model.ckpt-{stage['num_train_steps']}.index").exists():
            continue
        places = {"output_dir": where, "init_checkpoint": begin}
        runner.call("run_pretraining_mgpu.py", common | stage | places)
    tensors = google_read.read(output)
    kept = {n: v for n, v in tensors.items() if n.startswith("bert/")}
    slots = ("/adam_m", "/adam_v")
    names = [n for n in kept if "/pooler/" not in n and not n.endswith(slots)]
    weights.parent.mkdir(exist_ok=True)
    google_read.write(weights, {name: kept[name] for name in names})
    return weights
