"""The sets of a fine-tuning run: their files, samples and cached features."""

from __future__ import annotations

import dataclasses
import functools
import pathlib
from collections.abc import Sequence
from typing import Any

from bert_mgpu.checkpoints.pretrained import Pretrained
from bert_mgpu.config.finetuning import FinetuneConfig
from bert_mgpu.core import hashing, run_files
from bert_mgpu.core.files import STANDARD_INPUT
from bert_mgpu.core.log import fact
from bert_mgpu.core.rows import Example, Features, Rows
from bert_mgpu.data import cache as cache_lib
from bert_mgpu.distributed import collective
from bert_mgpu.tasks import (
    data_checks,
    dev_share,
    reader,
    row_groups,
    set_log,
    sources,
    task_json,
)
from bert_mgpu.tasks.base import Family
from bert_mgpu.tasks.files import DEFAULT_TYPE, TaskFiles, described
from bert_mgpu.tasks.registry import code_of


@dataclasses.dataclass
class TaskDataset:
    """The files of a task, read as features.

    A run calls `check_files` once, before it does anything that takes long.
    """

    flag = "data_dir"  # the one that names the files

    config: FinetuneConfig
    files: TaskFiles  # with its labels filled in
    family: Family
    model: Pretrained
    cache: pathlib.Path
    group: collective.Collective = collective.SOLO
    _logged: set[str] = dataclasses.field(default_factory=set)
    _sources: dict[str, sources.Source] = dataclasses.field(default_factory=dict)
    # Set -> what `read` returned: a file that changes or goes later changes nothing.
    _read: dict[str, tuple[Features, str]] = dataclasses.field(default_factory=dict)
    _hashes: dict[str, str] = dataclasses.field(default_factory=dict)  # set -> its file

    def check_files(self) -> None:
        """Reads all sets, so that a mistake in any of them is found before training."""
        for split in self.needed[1:]:  # the run reads the first one right away
            self.read(split)

    @property
    def needed(self) -> list[str]:
        """The sets that the run reads."""
        config = self.config
        evaluates = config.do_eval or bool(config.eval_steps)
        predicts = config.do_predict and not self.streams
        reads = {"train": config.do_train, **dict.fromkeys(self.evaluated, evaluates)}
        reads |= dict.fromkeys(self.predicted, predicts)
        return [split for split in reads if reads[split]]

    @property
    def evaluated(self) -> list[str]:
        """The sets to evaluate: dev, and those of --eval_files."""
        return ["dev", *sources.named_files(self.config.eval_files)]

    @property
    def predicted(self) -> list[str]:
        """The sets to predict: test, or the files of --predict_file."""
        return [*sources.predicted(self.config.predict_file)]

    @property
    def streams(self) -> bool:
        """Whether rows of standard input are predicted as they arrive."""
        return self.config.predict_file == STANDARD_INPUT

    def _sample_flag(self, split: str) -> str:
        """The flag that limits a set to a seeded sample."""
        if split in self.predicted:
            return "max_predict_examples"
        return "max_train_examples" if split == "train" else "max_eval_examples"

    @functools.cached_property
    def warnings(self) -> list[str]:
        """A line for each likely mistake in rows that can be read."""
        sets: dict[str, data_checks.CheckedSet] = {}
        unknown = self.model.required_tokenizer.unk_id
        for split in self.needed:
            source = self._source(split)
            path = str(source.path)
            seen = path in (checked.path for checked in sets.values())
            if not (seen and split in self.predicted):  # dev stands in for test
                features, _ = self.read(split, source)
                rows = data_checks.CheckedSet(split, path, features, unknown=unknown)
                sets[split] = rows._replace(labelled=source.labelled)
        label_warnings = functools.partial(self.family.warnings, files=self.files)
        takes_more = self.config.max_seq_length < self.model.bert_config.longest
        return data_checks.warnings(sets, label_warnings, takes_more=takes_more)

    def load(self, split: str) -> tuple[Features, str]:
        """(features, fingerprint) of a set, described in the log the first time.

        The fingerprint covers the file and how it is read.
        """
        source = self._source(split)
        if source.note and split not in self._logged:
            fact(split, source.note)
        features, key = self.read(split, source)
        if split == "train":
            key = self.family.training_key(self.config, key, features)
        collective.check_equal(self.group, {"--data_dir (its contents)": key})
        if split not in self._logged:
            self._logged.add(split)
            sized = set_log.lines(
                source,
                features,
                self.config,
                kept=self._sample_flag(split),
                has_windows=self.family.has_windows,
            )
            for line in (*sized, *self.family.remarks(features)):
                fact(split, line)
        return features, key

    def load_training(self) -> tuple[Rows, str]:
        """(rows, fingerprint) of the rows to train on: see `Family.training_rows`."""
        features, key = self.load("train")
        return self.family.training_rows(features, self.config), key

    @property
    def task(self) -> dict[str, Any]:
        """The task as run.json keeps it for later predictions: see `task_json`."""
        trained, _ = self._read.get("train", (None, ""))
        flags = self.family.prediction_flags(self.config, self.files, trained)
        return task_json.values_of(self.files) | ({"flags": flags} if flags else {})

    def check(self, split: str, scored: Any) -> None:
        """Checks nothing, as every row has an output."""

    @property
    def has_pairs(self) -> bool:
        """Whether rows may have two texts."""
        columns = self.files.columns_of("test")
        return columns.text_b is not None or columns.pair is not None

    def ids(self, split: str) -> list[str | int] | None:
        """The ids of the rows, read from the file again; None without an id column."""
        if self._source(split).columns.id is None:
            return None
        return [example.guid for example in self.examples(split)]

    def path(self, split: str) -> pathlib.Path:
        return self._source(split).path

    def examples(self, split: str, shown: bool = True) -> list[Example]:
        """The examples of a set, read from its file again.

        shown: with the labels of the file that are shown beside predictions. Raises
        UserError if the file is no longer as it was when `read` read it.
        """
        config, source = self.config, self._source(split)
        read = functools.partial(
            reader.read_examples,
            self.files,
            source.path,
            source.split,
            columns=source.columns,
            label=self.family.read_label,
            complete=functools.partial(self.family.complete, self.files),
        )
        examples = read(with_label=source.labelled)
        if shown and self.family.shows_labels and not source.labelled:
            examples = reader.labelled(examples, read)
        if split in self._hashes:
            hashing.check_unchanged(source.path, self._hashes[split])
        if source.share:
            family, is_dev = self.family, split != "train"
            examples = dev_share.of_family(family, examples, source.share, dev=is_dev)
        return row_groups.sample(
            examples,
            getattr(config, self._sample_flag(split)),
            self._seed,
            groups=row_groups.keys(self.files, examples),
            random_numbers=config.random_numbers,
        )

    @property
    def _seed(self) -> int:
        """The seed of the samples."""
        config = self.config
        return config.seed if config.sampled_by is None else config.sampled_by

    def _source(self, split: str) -> sources.Source:
        config = self.config
        if split not in self._sources:
            self._sources[split] = sources.source(
                self.files,
                split,
                data_dir=config.data_dir,
                eval_files=config.eval_files,
                predict_file=config.predict_file,
                predict_format=config.predict_format,
                encoding=config.encoding,
                dev_share=dev_share.of_run(config, self.files),
            )
        return self._sources[split]

    @property
    def takes_pairs(self) -> bool:
        """Whether an example to predict is given as two texts."""
        return self.files.columns_of("test").text_b is not None

    def example(self, text_a: str, text_b: str | None = None) -> Example:
        """An example of a text, or of a pair. Raises ValueError for the wrong kind."""
        columns = self.files.columns_of("test")
        if self.takes_pairs != (text_b is not None):
            kind = "pairs of texts" if self.takes_pairs else "single texts"
            raise ValueError(f"{self.files.name} is a task of {kind}")
        return Example("test-0", *reader.clean(columns, text_a, text_b), line=1)

    def featurise(self, examples: Sequence[Example]) -> Features:
        tokenizer = self.model.required_tokenizer
        return self.family.features(examples, tokenizer, self.files, config=self.config)

    def read(
        self, split: str, source: sources.Source | None = None
    ) -> tuple[Features, str]:
        """(features, fingerprint) of a set. Logs nothing.

        A set that is not predicted is read once; a later change is not seen.
        """
        if split in self._read:
            return self._read[split]
        config, files = self.config, self.files
        source = source or self._source(split)
        keep = getattr(config, self._sample_flag(split))
        data: dict[str, Any] = {
            "data": hashing.file_hash(source.path),
            "columns": described(source.columns),
        }
        if source.share:
            data["share"] = [split, source.share]
        if files.task_type != DEFAULT_TYPE:
            data["kind"] = [files.task_type, files.separator, *files.options.items()]
        settings = data | {
            "code": code_of(type(self.family)),
            "task": files.name,
            "labels": list(files.labels) if source.labelled else None,
            "keep": None if keep is None else [keep, self._seed, config.random_numbers],
            "tokenizer": self.model.required_tokenizer.fingerprint,
            "max_seq_length": config.max_seq_length,
            "truncation": [config.truncation, config.head_tokens],
        }
        if table := source.columns.table:  # which the name of the file may decide
            settings["format"] = table.form.format_of(source.path)
        if own := self.family.feature_settings(config):
            settings["family"] = own

        def make() -> tuple[cache_lib.Tensors, dict[str, Any]]:
            features = self.featurise(self.examples(split, shown=False))
            return cache_lib.to_tensors(features), features.notes

        self._hashes[split] = data["data"]
        name = cache_lib.file_name(f"{files.name}-{split}")
        folder = self.cache / (run_files.PREDICTED if split in self.predicted else "")
        # The other processes read what the first one wrote, or make it themselves.
        with collective.first_process_first(self.group):
            writes = self.group.rank == 0
            tensors, notes = cache_lib.cached(
                folder, name, settings, make=make, writes=writes, source=source.path
            )
        hashing.check_unchanged(source.path, data["data"])
        found = cache_lib.from_tensors(tensors, notes), hashing.fingerprint(data)
        if split not in self.predicted:  # there may be many, each used once
            self._read[split] = found
        return found
