"""The interface of a family of fine-tuning tasks: see docs/architecture.md.

A `Family` reads the rows of files and turns them into features. Its `FinetuningTask` is
the model, which evaluation, prediction, streams, reports and exports use.
"""

from __future__ import annotations

import abc
import json
import pathlib
import types
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from bert_mgpu.checkpoints.pretrained import Pretrained
from bert_mgpu.config.finetuning import FinetuneConfig
from bert_mgpu.core.errors import UserError
from bert_mgpu.core.report import SetReport
from bert_mgpu.core.rows import Example, Features, Outputs, Rows
from bert_mgpu.core.task import (
    Batch,
    Display,
    DropoutKey,
    Forward,
    Params,
    Predictions,
    ReadExamples,
    Trust,
)
from bert_mgpu.core.text_files import Faults
from bert_mgpu.tasks import dev_share
from bert_mgpu.tasks.data_checks import CheckedSet, LabelIssues
from bert_mgpu.tasks.files import Columns, TaskFiles
from bert_mgpu.text.segments import Segments
from bert_mgpu.text.tokenization import Tokenizer


class FinetuningTask(abc.ABC):
    """A family's model (a `core.task.Task`), and what its outputs mean.

    `scored`, which `scored_rows` returns, is all that the other methods need of a set.
    """

    name: str
    max_seq_length: int
    labels: tuple[str, ...] = ()  # of the classes; empty if there are none
    unused_params: frozenset[str] = frozenset()  # parameters that no loss depends on
    token_outputs: frozenset[str] = frozenset()  # outputs with a value for each token
    shared_outputs: frozenset[str] = frozenset()  # outputs equal for all rows
    new_head_warnings: Mapping[str, str] = types.MappingProxyType({})
    facts: dict[str, Any]  # a trained model must have the same ones
    huggingface_problem_type: str | None = None  # "problem_type" of its config.json
    metric = "eval_accuracy"  # chooses the best model by default
    shown: tuple[str, ...] = ("eval_accuracy", "eval_loss")  # scores that the log shows
    lower_is_better: frozenset[str] = frozenset({"eval_loss"})  # scores
    has_baseline = True  # whether `Family.baseline` has scores to compare with
    score_settings: tuple[str, ...] = ()  # flags on which the scores depend
    chance_loss: float | None = None  # the least of a model that knows no text, or None
    reads_both_texts = True  # a row has them, cut to fit by `truncation.fit_row`

    @property
    def segments(self) -> Segments:
        """How a long text is cut into the segments of a row."""
        return Segments(self.max_seq_length)

    # The model: see `core.task.Task`.
    @abc.abstractmethod
    def param_specs(self) -> dict[str, tuple[tuple[int, ...], str]]: ...
    def first_values(self, params: Params, new: Collection[str]) -> dict[str, Any]:
        return {}

    @abc.abstractmethod
    def loss_weights(self, batch: Batch) -> dict[str, np.float32]: ...
    @abc.abstractmethod
    def loss_sums(
        self, params: Params, batch: Batch, dropout_key: DropoutKey | None
    ) -> dict[str, Any]: ...
    @abc.abstractmethod
    def outputs(self, params: Params, batch: Batch) -> dict[str, Any]: ...

    def infer(self, rows: Features, forward: Forward) -> Outputs:
        """The outputs of a set. A task may make more rows of them, and call again."""
        return forward(rows)

    # How its outputs are interpreted.
    @abc.abstractmethod
    def scored_rows(
        self, outputs: Outputs, rows: Features, examples: ReadExamples
    ) -> Any:
        """The outputs of a whole set, together with its true labels.

        examples: reads the texts of the set, for tasks that need them.
        """

    @abc.abstractmethod
    def scores(self, scored: Any) -> dict[str, Any]:
        """Metrics of a whole set, including `eval_loss`."""

    def trust(self, scored: Any) -> Trust:
        return Trust()

    @abc.abstractmethod
    def decide(self, scored: Any) -> Predictions:
        """The predictions for the result files, one entry per example."""

    def attributes(self, record: Mapping[str, Any]) -> dict[str, Any]:
        """The attributes of an `api` prediction, from a record of `Predictions`."""
        return dict(record)

    def display(self, record: Mapping[str, Any]) -> Display:
        """A record of `Predictions`, formatted for people to read."""
        return Display(json.dumps(record, ensure_ascii=False))

    def answers(self, outputs: Mapping[str, Any]) -> dict[str, Any]:
        """The tensors that an exported model returns, made from `outputs`."""
        return dict(outputs)

    def metrics(self, rows: Features) -> list[str]:
        """The names of the scores that an evaluation of these rows gives."""
        return [*dict.fromkeys((self.metric, *self.shown))]

    def results(self, scores: Mapping[str, Any], step: int) -> dict[str, Any]:
        """The lines of eval_results.txt: Google's four first, in Google's order."""
        first = {k: scores[k] for k in ("eval_accuracy", "eval_loss") if k in scores}
        return first | {"global_step": step, "loss": scores["eval_loss"]} | {**scores}

    def line(self, scores: Mapping[str, Any]) -> str:
        """One line for the log: the scores that `shown` names, as far as present."""
        found = (f"{key} {scores[key]:.4f}" for key in self.shown if key in scores)
        return "  ".join(found)

    def summary(self, scored: Any, scores: Mapping[str, Any]) -> list[str]:
        """What the log shows of an evaluation: texts of one or several lines."""
        return [self.line(scores)]

    def report(self, scored: Any, examples: ReadExamples) -> SetReport:
        """What report.html shows of a labelled set besides its scores.

        examples: reads the texts of the set.
        """
        return SetReport([])


class TaskData(Protocol):
    """The sets of a run, as a family sees them: see `dataset.TaskDataset`."""

    def read(self, split: str) -> tuple[Features, str]: ...
    def path(self, split: str) -> pathlib.Path: ...


class Family(abc.ABC):
    """The code that reads, checks, trains and compares tasks of certain types."""

    baseline_name = ""  # the name of the model that `baseline` scores
    # Whether one forward pass over one row, [CLS] a [SEP] or [CLS] a [SEP] b [SEP], is
    # enough for an example that fits into it: exported models do no more than that.
    exportable = True
    has_windows = False  # whether an example that is too long gets several rows
    # What the type does or lacks -> the shared flags that therefore have no effect.
    refused_flags: Mapping[str, Collection[str]] = types.MappingProxyType({})
    titles = ("text", "second")  # of an example's texts: keys into page.js's words
    labels_are_texts = False  # such as a rewritten text, instead of classes
    # Whether predictions also show the labels of their file, where it has any.
    shows_labels = False

    @abc.abstractmethod
    def read_label(
        self, files: TaskFiles, columns: Columns, cells: Sequence[Any]
    ) -> Any:
        """The label of a row: see `reader.LabelReader`."""

    def complete(
        self, files: TaskFiles, path: Any, examples: list[Example], *, faults: Faults
    ) -> list[Example]:
        """The examples of a file; their labels, if any, may depend on the whole file.

        faults: gets each fault that is found, with a message that names path.
        """
        return examples

    @abc.abstractmethod
    def features(
        self,
        examples: Sequence[Example],
        tokenizer: Tokenizer,
        files: TaskFiles,
        *,
        config: FinetuneConfig,
    ) -> Features:
        """Examples as rows of token ids, with notes from `cache.length_notes`."""

    def feature_settings(self, config: FinetuneConfig) -> dict[str, Any]:
        """The family's own flags that `features` depends on, as JSON values.

        Cached features are made again when these differ.
        """
        return {}

    def training_rows(self, features: Features, config: FinetuneConfig) -> Rows:
        """The rows to train on, made from the features of the training file.

        They differ where some are left out, or something is drawn in each epoch.
        """
        return features

    def prediction_flags(
        self, config: FinetuneConfig, files: TaskFiles, trained: Features | None
    ) -> dict[str, Any]:
        """The family's own flags that predictions depend on, as set in training.

        run.json keeps them for later runs that only use the model. A value that names a
        file is replaced by its content. trained: the rows, if this command trains.
        """
        return {}

    @abc.abstractmethod
    def task(
        self,
        config: FinetuneConfig,
        model: Pretrained,
        files: TaskFiles,
        *,
        data: TaskData,
    ) -> FinetuningTask:
        """The task of a run. Raises UserError where a flag does not fit it."""

    def resolve_labels(
        self,
        config: FinetuneConfig,
        files: TaskFiles,
        model: Pretrained,
        *,
        output_dir: pathlib.Path,
    ) -> TaskFiles:
        """The files with the labels of this run filled in; logs these labels.

        Raises UserError where the trained model has other labels.
        """
        return files

    def kept_together(self, example: Example) -> Sequence[Sequence[str]]:
        """Keys for --dev_share: examples that share any of them stay on one side."""
        return dev_share.both(example)

    def with_labels_of(
        self, files: TaskFiles, sets: Sequence[Sequence[Example]]
    ) -> TaskFiles:
        """The files with the labels that occur in the sets, if the task names none."""
        return files

    def training_key(self, config: FinetuneConfig, key: str, features: Features) -> str:
        """A fingerprint of the training rows and of all that their losses depend on."""
        return key

    def remarks(self, features: Features) -> Iterator[str]:
        """Lines about a set that the log shows below its size."""
        return iter(())

    def warnings(self, checked: CheckedSet, files: TaskFiles) -> Iterator[str]:
        """A line for each likely mistake in the labels of a set."""
        return iter(())

    def tables(self, sets: Sequence[CheckedSet], files: TaskFiles) -> list[str]:
        """Tables of labelled sets that `doctor data` prints below their sizes."""
        return []

    def doubts(self, files: TaskFiles, examples: Sequence[Example]) -> LabelIssues:
        """The labels that are likely wrong, for `doctor data --check_labels`."""
        raise UserError(f"--check_labels: {files.name} is not of the type 'single'")

    def repaired(
        self,
        files: TaskFiles,
        columns: Columns,
        examples: Sequence[Example],
        *,
        path: Any,
    ) -> Iterator[tuple[int, str]]:
        """The numbered lines of a labelled file, rewritten with the labels as read.

        Raises UserError where they cannot be repaired.
        """
        raise UserError(f"{files.name}: labels of its type are not repaired")

    def baseline(
        self,
        train: Callable[[], Features],
        sets: Mapping[str, Features],
        task: FinetuningTask,
        *,
        examples: Callable[[str], Sequence[Example]],
    ) -> dict[str, dict[str, float]]:
        """Name of a set -> scores of a trivial model to beat; empty if there is none.

        train: reads the training set; examples: the texts of a set.
        """
        return {}
