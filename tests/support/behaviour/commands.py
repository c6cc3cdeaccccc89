"""The commands whose files, output and exit codes are kept, by the name of a case.

A case is a list of steps that run one after the other in one folder, beside model/,
data/ and corpus.txt of `workspace.make`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

Flags = dict[str, Any]


class Step(NamedTuple):
    """A program with its flags, and what it reads from standard input."""

    program: str  # of `PROGRAMS`
    flags: Flags
    stdin: str = ""


# Where each stands in a clone; the first that is there. Modules are run by -m.
PROGRAMS: dict[str, list[list[str]]] = {
    "classifier": [["run_classifier_mgpu.py"]],
    "pretraining": [["run_pretraining_mgpu.py"]],
    "records": [["data_prep/create_pretraining_data.py"]],
    "vocabulary": [["data_prep/domain_vocab.py"]],
    "convert": [["-m", "bert_mgpu", "convert"]],
    "doctor": [["-m", "bert_mgpu", "doctor"]],
    "doctor data": [["-m", "bert_mgpu", "doctor", "data"]],
}
_MODEL = {
    "vocab_file": "model/vocab.txt",
    "bert_config_file": "model/bert_config.json",
    "init_checkpoint": "model/bert_model.ckpt",
}


def _tune(task: str, out: str = "out", **changed: Any) -> Step:
    flags = {
        "task_name": task,
        "data_dir": f"data/{task}",
        **_MODEL,
        "output_dir": out,
        "max_seq_length": 16,
        "train_batch_size": 4,
        "learning_rate": 1e-3,
        "num_train_epochs": 1,
        "log_steps": 1,
        "xla": "off",
        "report": False,
    }
    return Step("classifier", flags | changed)


def _use(task: str, **changed: Any) -> Step:
    """The trained model of out/."""
    kept = ("task_name", "data_dir", "output_dir", "max_seq_length", "xla", "report")
    flags = _tune(task).flags
    return Step("classifier", {name: flags[name] for name in kept} | changed)


def _pretrain(records: str, **changed: Any) -> Step:
    flags = {
        "input_file": records,
        **_MODEL,
        "output_dir": "out",
        "max_seq_length": 16,
        "max_predictions_per_seq": 3,
        "train_batch_size": 2,
        "n_gpus": 2,
        "num_train_steps": 6,
        "num_warmup_steps": 2,
        "learning_rate": 1e-3,
        "log_steps": 1,
        "xla": "off",
    }
    return Step("pretraining", flags | changed)


def _records(**changed: Any) -> Step:
    flags = {
        "input_file": "corpus.txt",
        "output_file": "made.tfrecord",
        "vocab_file": "model/vocab.txt",
        "max_seq_length": 16,
        "max_predictions_per_seq": 3,
        "workers": 1,
    }
    return Step("records", flags | changed)


_ALL = {"do_train": True, "do_eval": True, "do_predict": True}
_LOOKED = {"eval_steps": 2, "use_best": True, "report": True}

CASES: dict[str, list[Step]] = {
    "single": [_tune("own", **_ALL, **_LOOKED)],
    "pairs": [_tune("mrpc", **_ALL, n_gpus=2, cpu_devices=2, padding="bucket")],
    "multi": [
        _tune("multi", **_ALL, n_gpus=4, train_batch_size=1, padding="pack"),
        _use("multi", do_eval=True, do_predict=True, threshold=0.4),
    ],
    "regression": [
        _tune(
            "regression",
            **_ALL,
            train_batch_size=2,
            gradient_accumulation_steps=2,
            padding="max_length",
            report=True,
        )
    ],
    "compiled": [_tune("mrpc", **_ALL, xla="on", padding="max_length")],
    "low precision": [
        _tune("mrpc", **_ALL, precision="bfloat16", optimizer="adamw", ema_decay=0.9),
    ],
    "float16": [
        _tune("own", **_ALL, precision="float16", slot_bits=8, freeze="pooler")
    ],
    "goes on": [
        _tune("own", do_train=True, save_checkpoints_steps=4, n_gpus=2),
        _tune("own", do_train=True, num_train_epochs=3, n_gpus=2),
    ],
    "seeds": [_tune("own", do_train=True, do_eval=True, seeds=2)],
    "several files": [
        _tune("own", do_train=True),
        _use(
            "own",
            do_predict=True,
            predict_file="data/own/test.tsv,data/own/dev.tsv",
        ),
    ],
    "stream": [
        _tune("own", do_train=True),
        Step(
            "classifier",
            _use("own", do_predict=True, predict_file="-").flags,
            "no\ta great win\nyes\tthe fear\n",
        ),
    ],
    "exports": [
        _tune(
            "own",
            do_train=True,
            export_hf="hub",
            export_saved_model="served",
            export_onnx="onnx",
        ),
    ],
    "conversion": [
        _tune("own", do_train=True),
        Step("convert", {"init_checkpoint": "out", "export_hf": "hub"}),
        Step("convert", {"init_checkpoint": "hub", "export_google": "google"}),
        _tune(
            "own",
            do_train=True,
            init_checkpoint="hub",
            vocab_file=None,
            bert_config_file=None,
            output_dir="again",
        ),
    ],
    "sentence pairs": [
        _records(objective="nsp"),
        _pretrain("made.tfrecord", do_train=True, do_eval=True, padding="pack"),
        _pretrain("made.tfrecord", do_predict=True, predict_file="corpus.txt"),
    ],
    "documents": [
        _records(objective="documents", dynamic_masking=True),
        _pretrain("made.tfrecord", do_train=True, do_eval=True, dynamic_masking=True),
    ],
    "domain words": [
        Step(
            "vocabulary",
            {
                "input_file": "corpus.txt",
                "vocab_file": "model/vocab.txt",
                "output_vocab_file": "new.txt",
                "add": 2,
                "min_count": 1,
            },
        ),
    ],
    "plan": [_tune("own", do_train=True, plan=True)],
    "doctor": [
        Step("doctor", {}),
        Step("doctor data", {"task_name": "own", "data_dir": "data/own", **_MODEL}),
    ],
    "help": [Step(program, {"help": True}) for program in PROGRAMS],
    "mistakes": [
        _tune("own", out="out1", do_train=True, num_train_epoch=3),
        _tune("own", out="out2", do_train=True, train_batch_size=0),
        _tune("own", out="out3", do_train=True, data_dir="nowhere"),
        _tune("cola", out="out4", do_train=True, data_dir="data/own"),
        _tune("own", out="out5", do_train=True, vocab_file="model/bert_config.json"),
        _tune("own", out="out6", do_train=True, init_checkpoint="nowhere"),
        _tune("own", out="out7", do_train=True, max_seq_length=600),
        _tune("own", out="out8", do_train=True, freeze="["),
        _tune("own", out="out9", do_predict=True, init_checkpoint=None),
        _tune("own", out="out10", do_train=True, learning_rate=1e9, num_train_epochs=9),
        _tune("own", out="out11"),
        Step("records", {"input_file": "nowhere", "output_file": "made.tfrecord"}),
        Step("convert", {"init_checkpoint": "nowhere", "export_hf": "hub"}),
    ],
}
