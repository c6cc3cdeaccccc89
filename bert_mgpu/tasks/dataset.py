"""The sets of a fine-tuning run: their files, samples, and features by the cache."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import pathlib
from collections.abc import Iterator, Sequence
from typing import Any

from bert_mgpu.checkpoints.pretrained import Pretrained
from bert_mgpu.config.finetuning import FinetuneConfig
from bert_mgpu.core import hashing, text_files
from bert_mgpu.core.errors import UserError
from bert_mgpu.core.log import say
from bert_mgpu.core.rows import Example, Features, Outputs
from bert_mgpu.data import cache as cache_lib
from bert_mgpu.distributed import collective
from bert_mgpu.distributed.collective import SOLO, Collective
from bert_mgpu.tasks import data_checks, reader, sources
from bert_mgpu.tasks.base import Family
from bert_mgpu.tasks.files import DEFAULT_TYPE, Columns, TaskFiles


def _described(columns: Columns) -> dict[str, Any]:
    """What is said of columns, as JSON values: nothing that is the default.

    So a run can be resumed by later code that knows more of columns. Functions
    are named: their repr differs in every process.
    """
    defaults = vars(Columns(text_a=columns.text_a))
    return {"text_a": columns.text_a} | {
        name: getattr(value, "__qualname__", value)
        for name, value in vars(columns).items()
        if value != defaults[name]
    }


@functools.cache
def code_of(family: type[Family]) -> str:
    """A hash of the code that turns a file into features."""
    shared = "core.rows", "core.rng", "core.text_files", "text", "data", "tasks"
    folder = pathlib.Path(inspect.getfile(family)).parent
    own = [hashing.file_hash(file) for file in sorted(folder.glob("*.py"))]
    return hashing.fingerprint({"code": [hashing.hash_of_code(*shared), *own]})


@dataclasses.dataclass(frozen=True)
class TaskDataset:
    """Reads a task's files as features."""

    flag = "data_dir"  # where a user says which files

    config: FinetuneConfig
    files: TaskFiles  # its labels are complete
    family: Family
    model: Pretrained
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
        config = self.config
        evaluates = config.do_eval or bool(config.eval_steps)
        asked = {"train": config.do_train, **dict.fromkeys(self.evaluated, evaluates)}
        asked |= dict.fromkeys(self.predicted, config.do_predict and not self.streams)
        return [split for split in asked if asked[split]]

    @property
    def evaluated(self) -> list[str]:
        """The sets to evaluate: dev, and those of --eval_files."""
        return ["dev", *sources.named_files(self.config.eval_files)]

    @property
    def predicted(self) -> list[str]:
        """The sets to predict: test, or those of several files of --predict_file."""
        return [*sources.predicted(self.config)]

    @property
    def streams(self) -> bool:
        """Are rows predicted as they come?"""
        return self.config.predict_file == text_files.STANDARD_INPUT

    def _sample(self, split: str) -> str:
        """The flag for a seeded sample of so many rows."""
        if split in self.predicted:
            return "max_predict_examples"
        return "max_train_examples" if split == "train" else "max_eval_examples"

    @functools.cached_property
    def warnings(self) -> list[str]:
        """What is likely wrong with the rows, though all of them can be read."""
        sets: dict[str, data_checks.CheckedSet] = {}
        for split in self.needed:
            source = self._source(split)
            path = str(source.path)
            again = path in (one.path for one in sets.values())
            if not (again and split in self.predicted):  # dev, for want of a test file
                features, _ = self.read(split, source)
                unknown = self.model.tokenizer.unk_id
                sets[split] = data_checks.CheckedSet(
                    split, path, features, unknown=unknown, labelled=source.labelled
                )
        of_labels = functools.partial(self.family.warnings, files=self.files)
        return data_checks.warnings(sets, of_labels)

    def load(self, split: str) -> tuple[Features, str]:
        """(features, fingerprint) of a set, described in the log the first time.

        The fingerprint is that of the file and of how it is read.
        """
        source = self._source(split)
        if source.note and split not in self._told:
            say(source.note)
        features, key = self.read(split, source)
        if split == "train":
            key = self.family.training_key(self.config, key)
        collective.check_equal(self.group, {"--data_dir (its contents)": key})
        if split not in self._told:
            self._told.add(split)
            self._tell(split, source, features)
        return features, key

    def _tell(self, split: str, source: sources.Source, features: Features) -> None:
        notes = features.notes
        shares = ", ".join(
            f"{share} %: {length}"
            for share, length in notes["length_percentiles"].items()
        )
        columns = self.files.columns_of(source.split)
        header = columns.header or (columns.table and columns.table.form.header)
        without = ", line 1 left out as its header" if header else ""
        sample = self._sample(split)
        kept = getattr(self.config, sample)
        sampled = "" if kept is None else f", a sample (--{sample}={kept})"
        count = f"{notes['rows']} rows"
        if features.owners is not None:
            count += f", {len(features.first_rows)} examples,"
        say(f"{split}: {count} of {source.path}{without}{sampled}")
        say(
            f"  tokens a row, percentiles: {shares};"
            f" {notes['truncated'] / notes['rows']:.1%} truncated at"
            f" {self.config.max_seq_length}"
        )

    def check(self, split: str, outputs: Outputs) -> None:
        """Every row has an output."""

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
        config, source = self.config, self._source(split)
        return reader.read_examples(
            self.files,
            source.path,
            source.split,
            label=self.family.read_label,
            with_label=source.labelled,
            keep=getattr(config, self._sample(split)),
            seed=self._seed,
            random_numbers=config.random_numbers,
        )

    @property
    def _seed(self) -> int:
        """Of samples."""
        config = self.config
        return config.seed if config.sampled_by is None else config.sampled_by

    def _source(self, split: str) -> sources.Source:
        return sources.source(self.files, self.config, split)

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
        source = text_files.STANDARD_INPUT
        label = self.family.read_label
        return reader.stream(files, source, "test", label=label, with_label=False)

    def featurise(self, examples: Sequence[Example]) -> Features:
        tokenizer = self.model.tokenizer
        return self.family.features(examples, tokenizer, self.files, config=self.config)

    def read(
        self, split: str, source: sources.Source | None = None
    ) -> tuple[Features, str]:
        """(features, fingerprint) of a set, quietly."""
        config, files = self.config, self.files
        source = source or self._source(split)
        keep = getattr(config, self._sample(split))
        data = {
            "data": hashing.file_hash(source.path),
            "columns": _described(files.columns_of(source.split)),
        }
        if files.task_type != DEFAULT_TYPE:
            data["kind"] = [files.task_type, files.separator]
        settings = data | {
            "code": code_of(type(self.family)),
            "task": files.name,
            "labels": list(files.labels) if source.labelled else None,
            "keep": None if keep is None else [keep, self._seed, config.random_numbers],
            "tokenizer": self.model.tokenizer.fingerprint,
            "max_seq_length": config.max_seq_length,
            "truncation": [config.truncation, config.head_tokens],
        }

        def make() -> tuple[cache_lib.Tensors, dict[str, Any]]:
            features = self.featurise(self.examples(split))
            return cache_lib.to_tensors(features), features.notes

        name = cache_lib.file_name(f"{files.name}-{split}")
        # The others find what the first one wrote, or make it for themselves.
        with collective.first_process_first(self.group):
            writes = self.group.rank == 0
            found = cache_lib.cached(
                self.cache, name, settings, make=make, writes=writes
            )
        features = cache_lib.from_tensors(*found)
        if hashing.file_hash(source.path) != data["data"]:
            raise UserError(
                f"{source.path}: was changed while it was read: start again"
            )
        return features, hashing.fingerprint(data)
