"""What the commands are run on: a tiny model and files, always the same ones."""

from __future__ import annotations

import json
import pathlib
import random

import numpy as np
import tensorflow as tf

WORDS = {
    "good": ["sun", "joy", "win", "great", "好", "新"],
    "bad": ["rain", "loss", "fear", "poor", "坏", "旧"],
    "other": ["a", "the", "of", "in", "it", "on", "的", "了"],
}
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "[unused1]", "[unused2]"]
VOCABULARY = [*SPECIAL, *sum(WORDS.values(), []), "##s", ".", ","]
CONFIG = {
    "vocab_size": len(VOCABULARY),
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 128,
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.1,
    "attention_probs_dropout_prob": 0.1,
    "max_position_embeddings": 64,
    "type_vocab_size": 2,
    "initializer_range": 0.02,
}
SIZES = {"train": 24, "dev": 13, "test": 11}  # rows


def make(folder: pathlib.Path) -> None:
    """model/, data/TASK/ for each task, corpus.txt."""
    _model(folder / "model")
    for task, write in TASKS.items():
        (folder / "data" / task).mkdir(parents=True)
        write(folder / "data" / task)
    rng = random.Random(7)
    documents = ["\n".join(_text(rng, n % 2) for n in range(6)) for _ in range(20)]
    (folder / "corpus.txt").write_text("\n\n".join(documents) + "\n")


def _text(rng: random.Random, label: int) -> str:
    words = rng.choices(WORDS[("bad", "good")[label]], k=rng.randint(1, 3))
    words += rng.choices(WORDS["other"], k=rng.randint(0, 12))
    return " ".join(rng.sample(words, len(words))) + " ."


def _rows(name: str) -> list[tuple[int, str, str]]:
    rng = random.Random(name)
    labels = [number % 2 for number in range(SIZES[name])]
    return [(label, _text(rng, label), _text(rng, label)) for label in labels]


def _mrpc(folder: pathlib.Path) -> None:
    for name in SIZES:
        lines = ["Quality\t#1 ID\t#2 ID\t#1 String\t#2 String"]
        lines += [f"{label}\t1\t2\t{a}\t{b}" for label, a, b in _rows(name)]
        (folder / f"{name}.tsv").write_text("\n".join(lines) + "\n")


def _described(folder: pathlib.Path, task: dict, lines: dict[str, list[str]]) -> None:
    files = {name: f"{name}.tsv" for name in SIZES}
    (folder / "task.json").write_text(json.dumps(files | task))
    for name, rows in lines.items():
        (folder / f"{name}.tsv").write_text("\n".join(rows) + "\n")


def _single(folder: pathlib.Path) -> None:
    lines = {
        name: [f"{('no', 'yes')[label]}\t{a}" for label, a, _ in _rows(name)]
        for name in SIZES
    }
    _described(folder, {"label": 0, "text_a": 1}, lines)


def _multi(folder: pathlib.Path) -> None:
    lines = {
        name: [
            f"{','.join(['x'] * label + ['y'] * (n % 3 == 0))}\t{a}"
            for n, (label, a, _) in enumerate(_rows(name))
        ]
        for name in SIZES
    }
    task = {"label": 0, "text_a": 1, "type": "multi", "labels": ["x", "y"]}
    _described(folder, task, lines)


def _regression(folder: pathlib.Path) -> None:
    lines = {
        name: [f"{label + len(a) / 100:.2f}\t{a}" for label, a, _ in _rows(name)]
        for name in SIZES
    }
    _described(folder, {"label": 0, "text_a": 1, "type": "regression"}, lines)


TASKS = {"mrpc": _mrpc, "own": _single, "multi": _multi, "regression": _regression}


def _shapes() -> dict[str, list[int]]:
    width, inner = CONFIG["hidden_size"], CONFIG["intermediate_size"]
    norm = {"LayerNorm/gamma": [width], "LayerNorm/beta": [width]}
    dense = {"dense/kernel": [width, width], "dense/bias": [width]}
    layer = {
        **{
            f"attention/self/{part}/{name}": shape
            for part in ("query", "key", "value")
            for name, shape in (("kernel", [width, width]), ("bias", [width]))
        },
        **{f"attention/output/{n}": s for n, s in {**dense, **norm}.items()},
        "intermediate/dense/kernel": [width, inner],
        "intermediate/dense/bias": [inner],
        "output/dense/kernel": [inner, width],
        "output/dense/bias": [width],
        **{f"output/{name}": shape for name, shape in norm.items()},
    }
    embeddings = {
        "word_embeddings": [CONFIG["vocab_size"], width],
        "position_embeddings": [CONFIG["max_position_embeddings"], width],
        "token_type_embeddings": [CONFIG["type_vocab_size"], width],
        **norm,
    }
    shapes = {f"bert/embeddings/{name}": s for name, s in embeddings.items()}
    for number in range(CONFIG["num_hidden_layers"]):
        at = f"bert/encoder/layer_{number}/"
        shapes |= {at + name: shape for name, shape in layer.items()}
    return shapes | {f"bert/pooler/{name}": shape for name, shape in dense.items()}


def _model(folder: pathlib.Path) -> None:
    folder.mkdir(parents=True)
    (folder / "vocab.txt").write_text("".join(f"{word}\n" for word in VOCABULARY))
    (folder / "bert_config.json").write_text(json.dumps(CONFIG))
    rng = np.random.RandomState(1)  # whose numbers stay the same for ever
    names, values = [], []
    for name, shape in sorted(_shapes().items()):
        ones = name.endswith("gamma")
        value = np.ones(shape) if ones else 0.3 * rng.standard_normal(shape)
        names.append(name)
        values.append(tf.constant(value, tf.float32))
    tf.raw_ops.SaveV2(
        prefix=str(folder / "bert_model.ckpt"),
        tensor_names=names,
        shape_and_slices=[""] * len(names),
        tensors=values,
    )
