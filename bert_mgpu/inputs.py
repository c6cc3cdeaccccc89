"""The rows of a run: which labels they have, and their features by the cache."""

from __future__ import annotations

import dataclasses
import functools
import pathlib
from collections.abc import Iterator, Sequence
from typing import Any

from bert_mgpu.data import readers, records, shuffles, tables
from bert_mgpu.errors import UserError
from bert_mgpu.rng import permutation, philox
from bert_mgpu.run_config import FinetuneConfig
from bert_mgpu.sources import Model
from bert_mgpu.task import Example, Features
from bert_mgpu.tasks import (
    builtin,
    classification,
    examining,
    kinds,
    label_values,
    reading,
)
from bert_mgpu.tasks.builtin import TaskFiles
from bert_mgpu.text import normalization, tokenization, truncation
from bert_mgpu.train import collective
from bert_mgpu.train.collective import SOLO, Collective
from bert_mgpu.train.recorder import say


def _described(columns: builtin.Columns) -> dict[str, Any]:
    """What is said of columns, as JSON values: nothing that is the default.

    So a run can be resumed by later code that knows more of columns. Functions
    are named: their repr differs in every process.
    """
    defaults = vars(builtin.Columns(text_a=columns.text_a))
    return {"text_a": columns.text_a} | {
        name: getattr(value, "__qualname__", value)
        for name, value in vars(columns).items()
        if value != defaults[name]
    }


@functools.cache
def _code() -> str:
    """A hash of the code that turns a file into features."""
    modules = (
        readers,
        shuffles,
        permutation,
        philox,
        tables,
        builtin,
        reading,
        kinds,
        classification,
        truncation,
        normalization,
        tokenization,
    )
    files = [str(module.__file__) for module in modules]
    return records.fingerprint({"code": [records.file_hash(file) for file in files]})


@dataclasses.dataclass(frozen=True)
class Inputs:
    """Reads a task's files as features."""

    flag = "data_dir"  # where a user says which files

    run: FinetuneConfig
    files: TaskFiles  # its labels are complete
    model: Model
    cache: pathlib.Path
    group: Collective = SOLO
    _told: set[str] = dataclasses.field(default_factory=set)

    def __post_init__(self) -> None:
        """A mistake in a file is said now, not when the training is over."""
        for split in self.needed[1:]:  # the first is read at once
            self.read(split)

    @property
    def needed(self) -> list[str]:
        """The sets that this run reads."""
        run = self.run
        evaluates = run.do_eval or bool(run.eval_steps)
        asked = {"train": run.do_train, **dict.fromkeys(self.evaluated, evaluates)}
        asked |= dict.fromkeys(self.predicted, run.do_predict and not self.streams)
        return [split for split in asked if asked[split]]

    @property
    def evaluated(self) -> list[str]:
        """The sets to evaluate: dev, and those of --eval_files."""
        return ["dev", *reading.named_files(self.run.eval_files)]

    @property
    def predicted(self) -> list[str]:
        """The sets to predict: test, or those of several files of --predict_file."""
        return [*reading.predicted(self.run)]

    @property
    def streams(self) -> bool:
        """Are rows predicted as they come?"""
        return self.run.predict_file == readers.STANDARD_INPUT

    def _sample(self, split: str) -> str:
        """The flag for a seeded sample of so many rows."""
        if split in self.predicted:
            return "max_predict_examples"
        return "max_train_examples" if split == "train" else "max_eval_examples"

    @functools.cached_property
    def warnings(self) -> list[str]:
        """What is likely wrong with the rows, though all of them can be read."""
        sets: dict[str, examining.Rows] = {}
        for split in self.needed:
            source = self._source(split)
            path = str(source.path)
            again = path in (one.path for one in sets.values())
            if not (again and split in self.predicted):  # dev, for want of a test file
                features, _ = self.read(split, source)
                unknown = self.model.tokenizer.unk_id
                kind = kinds.KINDS[self.files.kind]
                sets[split] = examining.Rows(
                    *(split, path, features, unknown, kind, source.labelled)
                )
        return examining.warnings(sets, self.files.labels)

    def load(self, split: str) -> tuple[Features, str]:
        """(features, fingerprint) of a set, described in the log the first time.

        The fingerprint is that of the file and of how it is read.
        """
        source = self._source(split)
        if source.note and split not in self._told:
            say(source.note)
        features, key = self.read(split, source)
        weights = self.run.class_weights
        if split == "train" and weights and weights != label_values.BALANCED:
            key = records.fingerprint({"data": key, "w": records.file_hash(weights)})
        collective.agree(self.group, {"--data_dir (its contents)": key})
        if split not in self._told:
            self._told.add(split)
            self._tell(split, source, features.notes)
        return features, key

    def _tell(self, split: str, source: reading.Source, notes: dict[str, Any]) -> None:
        shares = ", ".join(
            f"{share} %: {length}"
            for share, length in notes["length_percentiles"].items()
        )
        columns = self.files.columns_of(source.split)
        header = columns.header or (columns.table and columns.table.form.header)
        without = ", line 1 left out as its header" if header else ""
        sample = self._sample(split)
        kept = getattr(self.run, sample)
        sampled = "" if kept is None else f", a sample (--{sample}={kept})"
        say(f"{split}: {notes['rows']} rows of {source.path}{without}{sampled}")
        say(
            f"  tokens a row, percentiles: {shares};"
            f" {notes['truncated'] / notes['rows']:.1%} truncated at"
            f" {self.run.max_seq_length}"
        )

    @property
    def has_pairs(self) -> bool:
        """May rows have two texts?"""
        columns = self.files.columns_of("test")
        return columns.text_b is not None or columns.pair is not None

    @property
    def has_ids(self) -> bool:
        """Does a column say what the rows to predict are called?"""
        return self.files.columns_of("test").id is not None

    def ids(self, split: str) -> list[str] | None:
        """What the rows are called, where a column says; they are read once more."""
        if not self.has_ids:
            return None
        return [example.guid for example in self.examples(split)]

    def path(self, split: str) -> pathlib.Path:
        return self._source(split).path

    def examples(self, split: str) -> list[Example]:
        """The texts of a set; its file is read once more."""
        run, source = self.run, self._source(split)
        return reading.read_examples(
            self.files,
            source.path,
            source.split,
            with_label=source.labelled,
            keep=getattr(run, self._sample(split)),
            seed=self._seed,
            random_numbers=run.random_numbers,
        )

    @property
    def _seed(self) -> int:
        """Of samples."""
        run = self.run
        return run.seed if run.sampled_by is None else run.sampled_by

    def _source(self, split: str) -> reading.Source:
        return reading.source(self.files, self.run, split)

    def stream(self) -> Iterator[Example]:
        """The rows of standard input as they come."""
        files, table = self.files, self.files.columns.table
        if table is not None:  # its format is that of the task's files
            name = files.test or files.dev or files.train or ""
            form = table.form._replace(format=table.form.format_of(name))
            columns = dataclasses.replace(
                files.columns, table=table._replace(form=form)
            )
            files = dataclasses.replace(files, columns=columns)
        source = readers.STANDARD_INPUT
        return reading.stream(files, source, "test", with_label=False)

    def featurise(self, examples: Sequence[Example]) -> Features:
        run, files = self.run, self.files
        return classification.featurise(
            *(examples, self.model.tokenizer, files.labels, run.max_seq_length),
            *(run.truncation, run.head_tokens, kinds.KINDS[files.kind]),
        )

    def read(
        self, split: str, source: reading.Source | None = None
    ) -> tuple[Features, str]:
        """(features, fingerprint) of a set, quietly."""
        run, files = self.run, self.files
        source = source or self._source(split)
        keep = getattr(run, self._sample(split))
        data = {
            "data": records.file_hash(source.path),
            "columns": _described(files.columns_of(source.split)),
        }
        if files.kind != kinds.SINGLE.name:
            data["kind"] = [files.kind, files.separator]
        settings = data | {
            "code": _code(),
            "task": files.name,
            "labels": list(files.labels) if source.labelled else None,
            "keep": None if keep is None else [keep, self._seed, run.random_numbers],
            "tokenizer": self.model.tokenizer.fingerprint,
            "max_seq_length": run.max_seq_length,
            "truncation": [run.truncation, run.head_tokens],
        }

        def make() -> tuple[records.Tensors, dict[str, Any]]:
            features = self.featurise(self.examples(split))
            return records.to_tensors(features), features.notes

        name = records.file_name(f"{files.name}-{split}")
        # The others find what the first one wrote, or make it for themselves.
        with collective.first_alone(self.group):
            writes = self.group.rank == 0
            found = records.cached(self.cache, name, settings, make, writes)
        features = records.from_tensors(*found)
        if records.file_hash(source.path) != data["data"]:
            raise UserError(
                f"{source.path}: was changed while it was read: start again"
            )
        return features, records.fingerprint(data)
