"""The family of tasks that find the entities of texts: the type "tags"."""

from __future__ import annotations

import dataclasses
import functools
import pathlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from bert_mgpu.checkpoints import train_state
from bert_mgpu.checkpoints.pretrained import Pretrained
from bert_mgpu.config.finetuning import FinetuneConfig
from bert_mgpu.config.tagging import BIO, PIECES, WORDS
from bert_mgpu.core.errors import UserError, listed
from bert_mgpu.core.log import fact
from bert_mgpu.core.rows import Example, Features
from bert_mgpu.core.text_files import Faults
from bert_mgpu.tasks import reader as files_reader
from bert_mgpu.tasks import sources
from bert_mgpu.tasks.base import Family, FinetuningTask, TaskData
from bert_mgpu.tasks.data_checks import CheckedSet
from bert_mgpu.tasks.files import Columns, TaskFiles
from bert_mgpu.tasks.tagging import (
    bio,
    dataset,
    dictionary,
    entity_checks,
    reader,
    repair,
)
from bert_mgpu.tasks.tagging.reader import Entities
from bert_mgpu.tasks.tagging.task import Tagging
from bert_mgpu.text.tokenization import Tokenizer


class TaggingFamily(Family):
    """Tasks of the type "tags"."""

    baseline_name = dictionary.NAME
    has_windows = True
    shows_labels = True

    def read_label(
        self, files: TaskFiles, columns: Columns, cells: Sequence[Any]
    ) -> Any:
        return reader.read_label(files, columns, cells)

    def complete(
        self, files: TaskFiles, path: Any, examples: list[Example], *, faults: Faults
    ) -> list[Example]:
        return reader.complete(path, examples, files, faults=faults)

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
            files.labels,
            max_seq_length=config.max_seq_length,
            doc_stride=_stride(config),
            by_words=files.options.get("units") == WORDS,
            for_crf=config.crf,
        )

    def feature_settings(self, config: FinetuneConfig) -> dict[str, Any]:
        return {"doc_stride": config.doc_stride, "crf": config.crf}

    def resolve_labels(
        self,
        config: FinetuneConfig,
        files: TaskFiles,
        model: Pretrained,
        *,
        output_dir: pathlib.Path,
    ) -> TaskFiles:
        saved = bool(train_state.saved_steps(output_dir))
        used = saved or not config.do_train
        types, options = bio.types_of(files.labels), {**files.options}
        tags = None
        if config.do_train:
            examples = self._training_file(config, files)
            types = types or _types([examples])
            as_words = any(example.words is not None for example in examples)
            options.setdefault("units", WORDS if as_words else PIECES)
        elif not saved and "units" not in options:  # models of other projects tag words
            options["units"] = WORDS
            fact("types", f"of words; --tag_units={PIECES} tags each piece of a word")
        own = model.labels or []
        whole = bio.is_whole(own)
        if own and (used or (whole and {*bio.types_of(own)} == {*types})):
            tags = own
            if not whole:
                raise UserError(
                    f"the labels of {config.init_checkpoint}, {listed(tags)}, are not O"
                    " and the tags B- and I-, or B-, I-, E- and S-, of each type: pass"
                    " another model"
                )
            if types and {*types} != {*bio.types_of(tags)}:
                raise UserError(
                    f"the task {files.name} has the types {listed(types)}, the trained"
                    f" model {listed(bio.types_of(tags))}: pass the task and data of"
                    " that model"
                )
        tags = tags or bio.tags_of(types, config.tag_scheme)
        scheme = bio.scheme_of(tags)
        if "tag_scheme" in config.given and config.tag_scheme != scheme:
            raise UserError(
                f"--tag_scheme={config.tag_scheme}: the trained model has {scheme}:"
                " leave the flag out"
            )
        found = bio.types_of(tags)
        fact("types", f"{len(found)}: {listed(found)}")
        return dataclasses.replace(files, labels=tuple(tags), options=options)

    def _training_file(self, config: FinetuneConfig, files: TaskFiles) -> list[Example]:
        source = sources.split_path(files, config.data_dir, "train")
        examples = files_reader.read_examples(
            files,
            source.path,
            source.split,
            label=self.read_label,
            with_label=True,
            complete=functools.partial(self.complete, files),
        )
        if not (files.labels or _types([examples])):
            raise UserError(f"{source.path}: no entity in any row: nothing to learn")
        return examples

    def with_labels_of(
        self, files: TaskFiles, sets: Sequence[Sequence[Example]]
    ) -> TaskFiles:
        types = bio.types_of(files.labels) or _types(sets)
        tags = bio.tags_of(types, BIO)
        return dataclasses.replace(files, labels=tuple(tags))

    def task(
        self,
        config: FinetuneConfig,
        model: Pretrained,
        files: TaskFiles,
        *,
        data: TaskData,
    ) -> Tagging:
        if config.crf and config.export_hf:
            raise UserError(
                "--export_hf with --crf: transformers has no conditional random field:"
                " leave one of them out"
            )
        _stride(config)  # refuses a bad stride before any text is read
        return Tagging(
            files.name,
            model.bert_config,
            files.labels,
            max_seq_length=config.max_seq_length,
            units=files.options.get("units", PIECES),
            has_crf=config.crf,
            dropout=config.classifier_dropout,
            recompute=config.recompute,
            chance_loss=_entropy(data.read("train")[0]) if config.do_train else None,
        )

    def remarks(self, features: Features) -> Iterator[str]:
        notes = features.notes
        if notes["repaired"]:
            yield f"{notes['repaired']} tags or spans repaired (--repair_bio)"
        if notes["between"]:
            yield (
                f"{notes['between']} of {notes['entities']} entities begin or end"
                " inside a token: they cannot be found"
            )

    def warnings(self, checked: CheckedSet, files: TaskFiles) -> Iterator[str]:
        table = files.columns.table
        word_lines = table is not None and table.form.word_lines(checked.path)
        return entity_checks.warnings(checked, files.labels, word_lines=word_lines)

    def tables(self, sets: Sequence[CheckedSet], files: TaskFiles) -> list[str]:
        return entity_checks.tables(sets, files.labels)

    def repaired(
        self,
        files: TaskFiles,
        columns: Columns,
        examples: Sequence[Example],
        *,
        path: Any,
    ) -> Iterator[tuple[int, str]]:
        assert columns.table is not None
        kind = columns.table.form.format_of(path)
        if kind == "conll":
            scheme = files.options.get("scheme")
            return repair.conll(path, columns, examples, scheme=scheme)
        if kind == "jsonl" and not any(example.words for example in examples):
            return repair.json_objects(path, columns, examples)
        raise UserError(
            f"{path}: only CoNLL files, and JSON with spans, can be repaired"
        )

    def baseline(
        self,
        train: Callable[[], Features],
        sets: Mapping[str, Features],
        task: FinetuningTask,
        *,
        examples: Callable[[str], Sequence[Example]],
    ) -> dict[str, dict[str, float]]:
        return dictionary.scores(train(), sets, task.labels)


def _stride(config: FinetuneConfig) -> int:
    """Tokens between window starts. Raises UserError if more than fit in a row."""
    room = config.max_seq_length - 2
    if config.doc_stride and config.doc_stride > room:
        raise UserError(
            f"--doc_stride={config.doc_stride}: a row has {room} tokens of text"
            f" (--max_seq_length={config.max_seq_length}): pass at most that, or"
            " words between two windows would be lost"
        )
    return config.doc_stride or max(1, room // 2)


def _types(sets: Sequence[Sequence[Example]]) -> list[str]:
    """The types of the entities in the sets, sorted."""
    labels = (one.label for examples in sets for one in examples)
    given = (label.types for label in labels if isinstance(label, Entities))
    return sorted({name for types in given for name in types})


def _entropy(features: Features) -> float:
    """The loss of a model that knows how often each tag occurs, and nothing else."""
    counts = np.bincount(features.ragged["tag_ids"].values)[1:]  # 0: no tag
    shares = counts[counts > 0] / max(1, counts.sum())
    return float(-(shares * np.log(shares)).sum())


FAMILY = TaggingFamily()
