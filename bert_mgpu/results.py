"""The files that evaluation and prediction leave in output_dir."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from bert_mgpu.files import write_text
from bert_mgpu.tasks import metrics
from bert_mgpu.tasks.classification import log_softmax


def write_evaluation(output_dir: pathlib.Path, values: Mapping[str, Any]) -> None:
    """eval_results.txt, in the order of the values."""
    lines = (f"{key} = {value}\n" for key, value in values.items())
    write_text(output_dir / "eval_results.txt", lines)


def evaluation_text(
    scores: Mapping[str, Any],
    label_ids: np.ndarray,
    outputs: Mapping[str, np.ndarray],
    label_names: Sequence[str],
) -> list[str]:
    """What an evaluation shows: one line, per-class table, confusion matrix."""
    predictions = outputs["logits"].argmax(-1)
    return [
        f"eval_accuracy {scores['eval_accuracy']:.4f}"
        f"  eval_loss {scores['eval_loss']:.4f}"
        f"  macro_f1 {scores['macro_f1']:.4f}",
        metrics.classification_table(label_ids, predictions, label_names),
        metrics.confusion_table(label_ids, predictions, label_names),
    ]


def write_sentence_scores(
    output_dir: pathlib.Path, scores: Sequence[Mapping[str, Any]]
) -> list[str]:
    """test_results.json, as bert-ad wrote it, and predictions.jsonl; their names.

    scores: of every line of the file, in order.
    """
    lines = (
        json.dumps({"line": line, **score}, ensure_ascii=False) + "\n"
        for line, score in enumerate(scores, 1)
    )
    files: dict[str, str | Iterable[str]] = {
        "test_results.json": json.dumps(scores, indent=2, ensure_ascii=False),
        "predictions.jsonl": lines,
    }
    for name, content in files.items():
        write_text(output_dir / name, content)
    return list(files)


def write_predictions(
    output_dir: pathlib.Path,
    logits: np.ndarray,
    lines: np.ndarray,
    label_names: Sequence[str],
) -> list[str]:
    """predict.txt, test_results.tsv and predictions.jsonl; returns their names.

    logits: float32 [rows, classes]; lines: int64 [rows], in the predicted file.
    """
    shares = np.exp(log_softmax(logits))
    classes = logits.argmax(-1)

    def as_json(row: int) -> str:
        record = {
            "id": f"test-{lines[row] - 1}",
            "line": int(lines[row]),
            "label": label_names[classes[row]],
            "probabilities": dict(
                zip(
                    label_names,
                    (round(x, 6) for x in shares[row].tolist()),
                    strict=True,
                )
            ),
        }
        return json.dumps(record, ensure_ascii=False) + "\n"

    rows = range(len(logits))
    files = {
        "predict.txt": (f"{classes[row]}\n" for row in rows),
        "test_results.tsv": (
            "\t".join(map(str, shares[row].tolist())) + "\n" for row in rows
        ),
        "predictions.jsonl": (as_json(row) for row in rows),
    }
    for name, content in files.items():
        write_text(output_dir / name, content)
    return list(files)
