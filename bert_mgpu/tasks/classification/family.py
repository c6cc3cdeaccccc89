"""The family of tasks with one label per row, several labels, or a number."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from bert_mgpu.checkpoints.pretrained import Pretrained
from bert_mgpu.config.classification import UNKNOWN
from bert_mgpu.config.finetuning import FinetuneConfig
from bert_mgpu.core import hashing, terminal
from bert_mgpu.core.errors import UserError, listed
from bert_mgpu.core.log import fact
from bert_mgpu.core.rows import Example, Features
from bert_mgpu.core.text_files import Faults
from bert_mgpu.model.segments import ATTENTION
from bert_mgpu.tasks.base import Family, FinetuningTask, TaskData
from bert_mgpu.tasks.classification import (
    features,
    groups,
    label_checks,
    label_weights,
    labels,
    naive_bayes,
    ranking,
    reader,
    slot_words,
    wrong_labels,
)
from bert_mgpu.tasks.classification.features import LOST_SLOTS
from bert_mgpu.tasks.classification.problem_type import Loss, ProblemType
from bert_mgpu.tasks.classification.problem_types import PROBLEM_TYPES
from bert_mgpu.tasks.classification.task import Classification
from bert_mgpu.tasks.data_checks import CheckedSet, LabelIssues
from bert_mgpu.tasks.files import DEFAULT_TYPE, Columns, TaskFiles
from bert_mgpu.text.tokenization import Tokenizer

_NUMBER_WIDTH = 12  # columns of the terminal


class ClassificationFamily(Family):
    """The types "single", "multi" and "regression"."""

    baseline_name = naive_bayes.NAME

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
        _check_segments(config, files)
        return features.features(examples, tokenizer, files, config=config)

    def feature_settings(self, config: FinetuneConfig) -> dict[str, Any]:
        settings: dict[str, Any] = {}
        if config.max_segments > 1:
            settings = {"max_segments": config.max_segments}
            settings |= {"doc_stride": config.doc_stride}
        if config.ad_slot != UNKNOWN:
            settings["ad_slot"] = config.ad_slot
        return settings

    def complete(
        self, files: TaskFiles, path: Any, examples: list[Example], *, faults: Faults
    ) -> list[Example]:
        if any(example.label is not None for example in examples):
            groups.check_rows(files, path, examples)
        return examples

    def kept_together(self, example: Example) -> Sequence[Sequence[str]]:
        pairs = super().kept_together(example)
        if example.group is None:
            return pairs
        # Single texts, such as phrases, may be in so many groups that all would be one.
        return [(example.group,), *(pairs if example.text_b else [])]

    def remarks(self, features: Features) -> Iterator[str]:
        numbers = ranking.groups_of(features)
        if numbers is not None:
            yield ranking.described(numbers)
        if count := features.notes.get(LOST_SLOTS):
            yield (
                f"WARNING: --max_seq_length cuts off the slot of {count}"
                f" row{'s' * (count > 1)}, whose phrases are ordered by chance: raise"
                " it"
            )
        if count := features.notes.get(slot_words.STRANGE_PHRASES):
            yield (
                f"{count} row{'s' * (count > 1)} whose phrase has no word of the"
                " vocabulary: ranked last"
            )

    def resolve_labels(
        self,
        config: FinetuneConfig,
        files: TaskFiles,
        model: Pretrained,
        *,
        output_dir: pathlib.Path,
    ) -> TaskFiles:
        names = labels.find_labels(
            files,
            model,
            output_dir,
            data_dir=config.data_dir,
            trains=config.do_train,
            evaluates=config.do_eval,
        )
        problem_type = PROBLEM_TYPES[files.task_type]
        known = (None, problem_type.huggingface_problem_type)
        if not config.do_train and model.huggingface_problem_type not in known:
            raise UserError(
                f"--init_checkpoint={config.init_checkpoint} is of the type"
                f" {model.huggingface_problem_type!r}, the task is"
                f" {problem_type.name!r}: pass --task_type"
            )
        if names:
            fact("labels", f"{len(names)}: {listed(names)}")
        else:
            fact("type", problem_type.name)
        return dataclasses.replace(files, labels=tuple(names))

    def with_labels_of(
        self, files: TaskFiles, sets: Sequence[Sequence[Example]]
    ) -> TaskFiles:
        return dataclasses.replace(files, labels=tuple(labels.labels_of(files, sets)))

    def prediction_flags(
        self, config: FinetuneConfig, files: TaskFiles, trained: Features | None
    ) -> dict[str, Any]:
        if config.threshold is None:
            return {}
        problem_type = PROBLEM_TYPES[files.task_type]
        text = label_weights.inline(config.threshold, problem_type, files.labels)
        return {"threshold": text}

    def task(
        self,
        config: FinetuneConfig,
        model: Pretrained,
        files: TaskFiles,
        *,
        data: TaskData,
    ) -> Classification:
        _check_segments(config, files)  # also of a model that is only exported
        problem_type = PROBLEM_TYPES[files.task_type]
        groups.check_flags(config, files)
        loss = _loss(
            problem_type,
            files.labels,
            data=data if config.do_train else None,
            class_weights=config.class_weights,
            focal_gamma=config.focal_gamma,
        )
        thresholds = label_weights.thresholds(
            config.threshold, problem_type, files.labels
        )
        by_words = groups.by_words(config, files)
        task = (slot_words.SlotRanking if by_words else Classification)(
            files.name,
            model.bert_config,
            files.labels,
            max_seq_length=config.max_seq_length,
            max_segments=config.max_segments,
            doc_stride=config.doc_stride,
            segment_pooling=config.segment_pooling,
            classifier_dropout=config.classifier_dropout,
            recompute=config.recompute,
            problem_type=problem_type,
            loss=loss,
            thresholds=thresholds,
            has_slots=files.has_slots,
        )
        if isinstance(task, slot_words.SlotRanking) and config.do_train:
            task.training_rows, _ = data.read("train")
            task.unknown_id = model.required_tokenizer.unk_id
        return task

    def training_key(self, config: FinetuneConfig, key: str, features: Features) -> str:
        path = config.class_weights
        if not path or path == label_weights.BALANCED or path.startswith("{"):
            return key  # the flag itself is compared
        return hashing.fingerprint({"data": key, "w": hashing.file_hash(path)})

    def warnings(self, checked: CheckedSet, files: TaskFiles) -> Iterator[str]:
        problem_type = PROBLEM_TYPES[files.task_type]
        return label_checks.warnings(checked, problem_type, files.labels)

    def tables(self, sets: Sequence[CheckedSet], files: TaskFiles) -> list[str]:
        problem_type = PROBLEM_TYPES[files.task_type]
        if not problem_type.has_labels:
            return []
        lines = [("label", *(checked.split for checked in sets))]
        counts = [
            label_checks.counts(checked, problem_type, files.labels) for checked in sets
        ]
        for index, label in enumerate(files.labels):
            numbers = (str(rows[index]) for rows in counts)
            lines.append((f"{index} {label}", *numbers))
        return [terminal.align(lines, [_NUMBER_WIDTH] * len(sets))]

    def doubts(self, files: TaskFiles, examples: Sequence[Example]) -> LabelIssues:
        if files.task_type != DEFAULT_TYPE:
            return super().doubts(files, examples)
        return wrong_labels.find(examples)

    def baseline(
        self,
        train: Callable[[], Features],
        sets: Mapping[str, Features],
        task: FinetuningTask,
        *,
        examples: Callable[[str], Sequence[Example]],
    ) -> dict[str, dict[str, float]]:
        assert isinstance(task, Classification)
        return naive_bayes.scores(
            train(), sets, task.labels, problem_type=task.problem_type
        )


def _check_segments(config: FinetuneConfig, files: TaskFiles) -> None:
    """Raises UserError for segment flags that do not fit each other or the task."""
    length, most = config.max_seq_length, config.max_segments
    if most == 1:
        for name in ("segment_pooling", "doc_stride"):
            if name in config.given:
                raise UserError(
                    f"--{name}={getattr(config, name)} does nothing without"
                    " --max_segments: pass both, or neither"
                )
        return
    columns = files.columns_of("train")
    if columns.text_b is not None or columns.pair is not None:
        raise UserError(
            f"--max_segments={most}: {files.name} has pairs of texts, which are one"
            " segment: leave the flag out"
        )
    if not 0 < (config.doc_stride or 1) <= length - 2:
        raise UserError(
            f"--doc_stride={config.doc_stride}: a segment has {length - 2} tokens of"
            f" text (--max_seq_length={length}): pass at most that, or words between"
            " two segments would be lost"
        )
    if config.export_hf and config.segment_pooling == ATTENTION:
        raise UserError(
            f"--export_hf with --segment_pooling={ATTENTION}: transformers has no"
            " attention over segments: pass mean or max, or leave one of them out"
        )


def _loss(
    problem_type: ProblemType,
    labels: Sequence[str],
    *,
    data: TaskData | None,
    class_weights: str | None,
    focal_gamma: float,
) -> Loss:
    """The options of the training loss. data: None if nothing is trained."""
    truth = None
    if data is not None and class_weights == label_weights.BALANCED:
        truth = data.read("train")[0].dense["label_ids"]
    weights = label_weights.weights(class_weights, problem_type, labels, truth=truth)
    if focal_gamma and not problem_type.has_labels:
        raise UserError(
            f"--focal_gamma={focal_gamma:g}: the type {problem_type.name!r} has no"
            " labels"
        )
    if weights is not None:
        pairs = zip(labels, weights, strict=True)
        shown = listed([f"{label} {weight:.4g}" for label, weight in pairs])
        fact("labels", f"weights in the loss: {shown}")
    return Loss(weights, focal_gamma)


FAMILY = ClassificationFamily()
