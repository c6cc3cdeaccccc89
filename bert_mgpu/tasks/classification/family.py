"""Classification as a family of tasks: one label a row, several, or a number."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bert_mgpu.checkpoints.pretrained import Pretrained
from bert_mgpu.config.finetuning import FinetuneConfig
from bert_mgpu.core import hashing, terminal
from bert_mgpu.core.errors import UserError, listed
from bert_mgpu.core.log import say
from bert_mgpu.core.rows import Example, Features
from bert_mgpu.tasks.base import Family, FinetuningTask, TaskData
from bert_mgpu.tasks.classification import (
    label_checks,
    label_weights,
    labels,
    naive_bayes,
    reader,
)
from bert_mgpu.tasks.classification import task as classification
from bert_mgpu.tasks.classification.problem_type import Loss, ProblemType
from bert_mgpu.tasks.classification.problem_types import PROBLEM_TYPES
from bert_mgpu.tasks.classification.task import Classification
from bert_mgpu.tasks.data_checks import CheckedSet
from bert_mgpu.tasks.files import Columns, TaskFiles
from bert_mgpu.text.tokenization import Tokenizer

_NUMBER = 12  # columns of the terminal


class ClassificationFamily(Family):
    """The types "single", "multi" and "regression"."""

    floor = naive_bayes.NAME

    def read_label(
        self, files: TaskFiles, columns: Columns, cells: Sequence[Any]
    ) -> Any:
        return reader.read_label(files, columns, cells)

    def features(
        self,
        examples: Sequence[Example],
        tokenizer: Tokenizer,
        files: TaskFiles,
        *,
        config: FinetuneConfig,
    ) -> Features:
        return classification.featurise(
            examples,
            tokenizer,
            files.labels,
            max_seq_length=config.max_seq_length,
            how=config.truncation,
            head_tokens=config.head_tokens,
            kind=PROBLEM_TYPES[files.task_type],
        )

    def resolve_labels(
        self,
        config: FinetuneConfig,
        files: TaskFiles,
        model: Pretrained,
        *,
        output_dir: pathlib.Path,
    ) -> TaskFiles:
        found = labels.find_labels(config, files, model, output_dir=output_dir)
        kind = PROBLEM_TYPES[files.task_type]
        if not config.do_train and model.problem_type not in (None, kind.problem_type):
            raise UserError(
                f"--init_checkpoint={config.init_checkpoint} is of the type"
                f" {model.problem_type!r}, the task is {kind.name!r}: pass --task_type"
            )
        say(f"{len(found)} labels: {listed(found)}" if found else f"type: {kind.name}")
        return dataclasses.replace(files, labels=tuple(found))

    def with_labels_of(
        self, files: TaskFiles, sets: Sequence[Sequence[Example]]
    ) -> TaskFiles:
        return dataclasses.replace(files, labels=tuple(labels.labels_of(files, sets)))

    def task(
        self,
        config: FinetuneConfig,
        model: Pretrained,
        files: TaskFiles,
        *,
        data: TaskData,
    ) -> Classification:
        kind = PROBLEM_TYPES[files.task_type]
        return Classification(
            files.name,
            model.bert_config,
            files.labels,
            max_seq_length=config.max_seq_length,
            classifier_dropout=config.classifier_dropout,
            recompute=config.recompute,
            kind=kind,
            loss=_loss(config, kind, files.labels, data=data),
            thresholds=label_weights.thresholds(config.threshold, kind, files.labels),
        )

    def training_key(self, config: FinetuneConfig, key: str) -> str:
        path = config.class_weights
        if not path or path == label_weights.BALANCED:
            return key
        return hashing.fingerprint({"data": key, "w": hashing.file_hash(path)})

    def warnings(self, one: CheckedSet, files: TaskFiles) -> Iterator[str]:
        return label_checks.warnings(one, PROBLEM_TYPES[files.task_type], files.labels)

    def tables(self, sets: Sequence[CheckedSet], files: TaskFiles) -> list[str]:
        kind = PROBLEM_TYPES[files.task_type]
        if not kind.has_labels:
            return []
        lines = [("label", *(one.split for one in sets))]
        counts = [label_checks.counts(one, kind, files.labels) for one in sets]
        for index, label in enumerate(files.labels):
            numbers = (str(of_set[index]) for of_set in counts)
            lines.append((f"{index} {label}", *numbers))
        return [terminal.align(lines, [_NUMBER] * len(sets))]

    def baseline(
        self, train: Features, sets: Mapping[str, Features], task: FinetuningTask
    ) -> dict[str, dict[str, float]]:
        assert isinstance(task, Classification)
        return naive_bayes.scores(train, sets, task.labels, kind=task.kind)


def _loss(
    config: FinetuneConfig, kind: ProblemType, labels: Sequence[str], *, data: TaskData
) -> Loss:
    """How the losses of training rows are weighed."""
    balances = config.do_train and config.class_weights == label_weights.BALANCED
    truth = data.read("train")[0].dense["label_ids"] if balances else None
    weights = label_weights.weights(config.class_weights, kind, labels, truth=truth)
    if config.focal_gamma and not kind.has_labels:
        raise UserError(
            f"--focal_gamma={config.focal_gamma:g}: the type {kind.name!r} has no"
            " labels"
        )
    if weights is not None:
        pairs = zip(labels, weights, strict=True)
        shown = listed([f"{label} {weight:.4g}" for label, weight in pairs])
        say(f"weights of labels in the loss: {shown}")
    return Loss(weights, config.focal_gamma)


FAMILY = ClassificationFamily()
