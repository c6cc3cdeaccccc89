"""The family of tasks that answer questions from a context: the type "qa"."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from bert_mgpu.checkpoints.pretrained import Pretrained
from bert_mgpu.config.finetuning import FinetuneConfig
from bert_mgpu.config.span_qa import CUT, Choice, WindowCut
from bert_mgpu.core import hashing
from bert_mgpu.core.errors import UserError
from bert_mgpu.core.log import fact
from bert_mgpu.core.rows import Example, Features, KeptRows, Rows
from bert_mgpu.core.text_files import Faults
from bert_mgpu.tasks.base import Family, FinetuningTask, TaskData
from bert_mgpu.tasks.data_checks import CheckedSet
from bert_mgpu.tasks.files import Columns, TaskFiles
from bert_mgpu.tasks.span_qa import (
    dataset,
    question_checks,
    reader,
    similar_sentence,
)
from bert_mgpu.tasks.span_qa.files import NEGATIVE
from bert_mgpu.tasks.span_qa.task import SpanQa
from bert_mgpu.text.tokenization import Tokenizer

_THRESHOLD = "null_score_diff_threshold"
_CHOICE_FLAGS = ("n_best_size", "max_answer_length", _THRESHOLD)


class SpanQaFamily(Family):
    """Tasks of the type "qa"."""

    baseline_name = similar_sentence.NAME
    has_windows = True
    titles = ("question", "context")
    refused_flags = types.MappingProxyType(
        {"has no dropout before its head": ("classifier_dropout",)}
    )

    def read_label(
        self, files: TaskFiles, columns: Columns, cells: Sequence[Any]
    ) -> Any:
        return reader.read_label(files, columns, cells)

    def complete(
        self, files: TaskFiles, path: Any, examples: list[Example], *, faults: Faults
    ) -> list[Example]:
        reader.check_ids(path, examples, faults)
        return examples

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
            **_cut(config)._asdict(),
            max_answer_length=config.max_answer_length,
            shown=None if config.verbose_logging else dataset.SHOWN,
        )

    def feature_settings(self, config: FinetuneConfig) -> dict[str, Any]:
        names = "max_answer_length", "verbose_logging"
        return _cut(config)._asdict() | {name: getattr(config, name) for name in names}

    def training_rows(self, features: Features, config: FinetuneConfig) -> Rows:
        # run_squad.py, too, skips questions whose answers are not in their context.
        taught = _taught(features)
        return features if taught.all() else KeptRows(features, taught)

    def training_key(self, config: FinetuneConfig, key: str, features: Features) -> str:
        kept = _taught(features)
        if kept.all():
            return key
        # Not the key of earlier code, which counted all rows: its runs cannot go on.
        return hashing.fingerprint({"data": key, "rows": int(kept.sum())})

    def prediction_flags(
        self, config: FinetuneConfig, files: TaskFiles, trained: Features | None
    ) -> dict[str, Any]:
        return {name: getattr(config, name) for name in _CHOICE_FLAGS}

    def task(
        self,
        config: FinetuneConfig,
        model: Pretrained,
        files: TaskFiles,
        *,
        data: TaskData,
    ) -> SpanQa:
        if config.do_train and not data.read("train")[0].notes["learnt"]:
            raise UserError(
                f"{data.path('train')}: no answer occurs in its context: nothing to"
                " learn"
            )
        own = {name: getattr(config, name) for name in _CHOICE_FLAGS}
        negative = bool(files.options.get(NEGATIVE))
        # Not refused, since google-research/bert takes it.
        if not negative and _THRESHOLD in config.given:
            given = f"--{_THRESHOLD}={config.null_score_diff_threshold:g}"
            fact("flags", f"{given} does nothing without --{NEGATIVE}=true")
        if negative and config.n_best_size < 2:
            raise UserError(
                f"--n_best_size={config.n_best_size}: with --{NEGATIVE} the list has"
                ' "no answer" and the best answer: pass 2 or more'
            )
        return SpanQa(
            files.name,
            model.bert_config,
            max_seq_length=config.max_seq_length,
            choice=Choice(version_2_with_negative=negative, **own),
            cut=_cut(config),
            chinese=self._is_chinese(config, data),
            recompute=config.recompute,
        )

    def _is_chinese(self, config: FinetuneConfig, data: TaskData) -> bool:
        """Whether most characters of the contexts to be scored are Chinese."""
        if not (config.do_train or config.do_eval):
            return False
        split = "dev" if config.do_eval or config.eval_steps else "train"
        return bool(data.read(split)[0].notes["chinese"])

    def kept_together(self, example: Example) -> Sequence[Sequence[str]]:
        return [(example.text_b or "",)]  # several questions share a context

    def baseline(
        self,
        train: Callable[[], Features],
        sets: Mapping[str, Features],
        task: FinetuningTask,
        *,
        examples: Callable[[str], Sequence[Example]],
    ) -> dict[str, dict[str, float]]:
        assert isinstance(task, SpanQa)
        found = {}
        for name in sets:
            own = examples(name)
            predicted = similar_sentence.answers(own)
            odds = np.zeros(len(own)) if task.choice.version_2_with_negative else None
            found[name] = task.scores_of(own, predicted, best=predicted, odds=odds)
        return found

    def remarks(self, features: Features) -> Iterator[str]:
        return question_checks.remarks(features)

    def warnings(self, checked: CheckedSet, files: TaskFiles) -> Iterator[str]:
        return question_checks.warnings(checked)

    def tables(self, sets: Sequence[CheckedSet], files: TaskFiles) -> list[str]:
        return question_checks.tables(sets)


def _cut(config: FinetuneConfig) -> WindowCut:
    """Raises UserError if rows are too short, or windows further apart than a row."""
    room = config.max_seq_length - dataset.SPECIAL
    if room < 2:
        raise UserError(
            f"--max_seq_length={config.max_seq_length}: a row has no room for a"
            f" question and a context: pass {dataset.SPECIAL + 2} or more"
        )
    # Not the default, which may exceed a short row, as in run_squad.py.
    if "doc_stride" in config.given and (config.doc_stride or 0) > room:
        raise UserError(
            f"--doc_stride={config.doc_stride}: a row has {room} tokens of question and"
            f" context (--max_seq_length={config.max_seq_length}): pass at most"
            f" {room}"
        )
    stride = config.doc_stride or min(CUT.doc_stride, max(1, room // 2))
    return WindowCut(stride, config.max_query_length)


FAMILY = SpanQaFamily()


def _taught(features: Features) -> np.ndarray:
    """Which rows have a target: bool [rows]."""
    return features.dense[dataset.STARTS] != dataset.NO_TARGET
