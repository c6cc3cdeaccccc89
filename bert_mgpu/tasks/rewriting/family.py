"""The family of tasks that rewrite texts: the type "rewrite"."""

from __future__ import annotations

import pathlib
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from bert_mgpu.checkpoints.pretrained import Pretrained
from bert_mgpu.config.finetuning import LONG_TEXT_FLAGS, FinetuneConfig
from bert_mgpu.config.rewriting import KEEP, RewriteChoice
from bert_mgpu.core.errors import UserError
from bert_mgpu.core.rows import Example, Features, Rows
from bert_mgpu.tasks import task_json
from bert_mgpu.tasks.base import Family, FinetuningTask, TaskData
from bert_mgpu.tasks.data_checks import CheckedSet
from bert_mgpu.tasks.files import Columns, TaskFiles
from bert_mgpu.tasks.rewriting import dataset, pair_checks
from bert_mgpu.tasks.rewriting.files import TARGET, marker_of
from bert_mgpu.tasks.rewriting.task import Rewriting
from bert_mgpu.tasks.rewriting.training_rows import TrainingRows
from bert_mgpu.text.tokenization import Tokenizer

_REFUSED = {
    "leaves text beyond --max_seq_length unchanged": (*LONG_TEXT_FLAGS, "doc_stride"),
    "has no export, since a text takes several passes": (
        *("export_hf", "export_saved_model", "export_onnx"),
    ),
}

_NO_TARGET = (
    f"{TARGET!r} is missing: give the column of the rewritten text, or --target_column"
)


class RewritingFamily(Family):
    """Tasks of the type "rewrite"."""

    baseline_name = "copying"
    labels_are_texts = True
    exportable = False  # a text takes several passes
    titles = ("text", "context")
    refused_flags = types.MappingProxyType(_REFUSED)

    def read_label(
        self, files: TaskFiles, columns: Columns, cells: Sequence[Any]
    ) -> Any:
        assert columns.label is not None
        target, marker = columns.one_text(cells, columns.label), marker_of(files)
        if not target.strip():
            raise ValueError("the target is empty: delete the line")
        if marker in target:
            raise ValueError(
                f"the target has {marker}: put the text in its place, or pass"
                " another --slot_marker"
            )
        return target

    def kept_together(self, example: Example) -> Sequence[Sequence[str]]:
        """Rows of one ad have the same target, with slots at different places."""
        return [*super().kept_together(example), (str(example.label),)]

    def resolve_labels(
        self,
        config: FinetuneConfig,
        files: TaskFiles,
        model: Pretrained,
        *,
        output_dir: pathlib.Path,
    ) -> TaskFiles:
        if files.columns.label is None and (config.do_train or config.do_eval):
            path = pathlib.Path(config.data_dir or "", task_json.FILE)
            raise UserError(f"{path}: {_NO_TARGET}")
        return files

    def features(
        self,
        examples: Sequence[Example],
        tokenizer: Tokenizer,
        files: TaskFiles,
        *,
        config: FinetuneConfig,
    ) -> Features:
        return dataset.featurise(
            examples,
            tokenizer,
            max_seq_length=config.max_seq_length,
            max_insert=config.max_insert,
            slot_marker=marker_of(files),
        )

    def feature_settings(self, config: FinetuneConfig) -> dict[str, Any]:
        return {"max_insert": config.max_insert}

    def prediction_flags(
        self, config: FinetuneConfig, files: TaskFiles, trained: Features | None
    ) -> dict[str, Any]:
        values = _choice(config, trained)._asdict()
        return {name: value for name, value in values.items() if value is not None}

    def training_rows(self, features: Features, config: FinetuneConfig) -> Rows:
        return TrainingRows(features, config.seed)

    def task(
        self,
        config: FinetuneConfig,
        model: Pretrained,
        files: TaskFiles,
        *,
        data: TaskData,
    ) -> Rewriting:
        if model.bert_config.type_vocab_size < 2:
            raise UserError(
                f"--init_checkpoint={config.init_checkpoint}: the model has one token"
                " type (type_vocab_size), but rewriting needs two, for the text and its"
                " context: pass another model"
            )
        trained = data.read("train")[0] if config.do_train else None
        if trained:
            pair_checks.check(trained.notes, data.path("train"))
        return Rewriting(
            files.name,
            model.bert_config,
            model.required_tokenizer,
            max_seq_length=config.max_seq_length,
            max_insert=config.max_insert,
            slot_marker=marker_of(files),
            choice=_choice(config, trained),
            dropout=config.classifier_dropout,
            recompute=config.recompute,
        )

    def remarks(self, features: Features) -> Iterator[str]:
        return pair_checks.remarks(features.notes)

    def warnings(self, checked: CheckedSet, files: TaskFiles) -> Iterator[str]:
        if files.columns.label is None and checked.split in ("train", "dev"):
            return iter([f"{task_json.FILE}: {_NO_TARGET}"])
        return pair_checks.warnings(checked)

    def tables(self, sets: Sequence[CheckedSet], files: TaskFiles) -> list[str]:
        return pair_checks.tables(sets)

    def baseline(
        self,
        train: Callable[[], Features],
        sets: Mapping[str, Features],
        task: FinetuningTask,
        *,
        examples: Callable[[str], Sequence[Example]],
    ) -> dict[str, dict[str, float]]:
        assert isinstance(task, Rewriting)
        return {name: task.copying(examples(name)) for name in sets}


def _choice(config: FinetuneConfig, trained: Features | None) -> RewriteChoice:
    """The flags; without --without_slots, as the training pairs say."""
    choice = RewriteChoice(*(getattr(config, name) for name in RewriteChoice._fields))
    if choice.without_slots or not trained or not pair_checks.only_slots(trained.notes):
        return choice
    return choice._replace(without_slots=KEEP)


FAMILY = RewritingFamily()
