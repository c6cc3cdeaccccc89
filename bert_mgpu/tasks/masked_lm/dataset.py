"""Finds the records of a pretraining run in its files, and checks them."""

from __future__ import annotations

import glob
import itertools
import os
import pathlib
import types
from collections.abc import Mapping
from typing import Any

import numpy as np

from bert_mgpu.checkpoints.pretrained import Pretrained
from bert_mgpu.config.pretraining import PretrainConfig
from bert_mgpu.core import files, hashing
from bert_mgpu.core.errors import UserError, listed
from bert_mgpu.core.log import fact, progress_bar
from bert_mgpu.core.rows import Example
from bert_mgpu.data import pretraining_records
from bert_mgpu.data.dynamic_masking import DynamicMasking
from bert_mgpu.data.pretraining_records import RecordIndex, RecordSchema
from bert_mgpu.data.record_rows import RecordRows
from bert_mgpu.distributed import collective
from bert_mgpu.distributed.topology import Topology
from bert_mgpu.text.masking import Masking, too_few

_SUFFIX = ".tfrecord"


def find_files(named: str, flag: str) -> list[str]:
    """The files that comma-separated names, globs and folders stand for, sorted.

    A folder stands for all its *.tfrecord files, as in bert-ad. Raises UserError for a
    name that stands for no file.
    """
    paths = []
    for name in filter(None, map(str.strip, named.split(","))):
        if os.path.isdir(name):
            matches = files.expand(os.path.join(glob.escape(name), f"*{_SUFFIX}"))
            missing = f"no file of the folder ends in {_SUFFIX}"
        else:
            matches = files.expand(name)
            missing = "there is no such file"
        if not matches:
            raise UserError(
                f"--{flag}={name}: {missing}: pass the files that"
                " data_prep/create_pretraining_data.py wrote"
            )
        paths += matches
    return paths


def files_of(config: PretrainConfig) -> dict[str, list[str]]:
    """The files of each split that the run will read."""
    splits = {}
    if config.do_train:
        splits["train"] = find_files(str(config.input_file), "input_file")
    if config.do_eval:
        flag = "eval_input_file" if config.eval_input_file else "input_file"
        splits["dev"] = find_files(str(getattr(config, flag)), flag)
    return splits


def _facts(file: str) -> dict[str, Any]:
    """The facts that create_pretraining_data.py wrote beside a file; {} if none."""
    path = pathlib.Path(file)
    try:
        facts = files.read_json(path.with_name(f".{path.name}.json"))
    except UserError:
        return {}
    types = {"settings": dict, "rows": int, "vocabulary": str}
    return {n: v for n, v in facts.items() if isinstance(v, types.get(n, object))}


def made_with(config: PretrainConfig) -> dict[str, Any]:
    """The vocabulary and casing that the first file was made with, where known."""
    for file in [*itertools.chain(*files_of(config).values())][:1]:
        settings = _facts(file).get("settings", {})
        path, lower = (settings.get(n) for n in ("vocab_file", "do_lower_case"))
        known = isinstance(path, str) and isinstance(lower, bool)
        if known and "\0" not in path and os.path.isfile(path):
            names = ("vocab_file", "do_lower_case")
            return {name: settings[name] for name in names} | {"origin": file}
    return {}


def _check_vocabulary(file: str, model: Pretrained) -> None:
    made = _facts(file).get("vocabulary")
    # Ids are read by the words alone: another Python may have made them.
    if made and model.tokenizer and made != model.tokenizer.words_hash:
        raise UserError(
            f"{file}: made with another vocabulary or casing than {model.vocab_file}:"
            " pass the --vocab_file that it was made with, or make it again"
        )


def _check_count(file: str, count: int, skip_bad: bool) -> None:
    """Finds a copy that was cut off between two records, and so looks complete."""
    written = _facts(file).get("rows", count)
    if count > written or (count < written and not skip_bad):
        side = f".{os.path.basename(file)}.json"
        raise UserError(
            f"{file}: {count} records, but {side} beside it says {written}: copy both"
            f" again, or remove {side} where other code has written the records since"
        )
    if count < written:
        fact("records", f"{file}: {count} of the {written} that were written")


class RecordDataset:
    """The records of a run as rows (a `run.Data`)."""

    flag = "input_file"  # the one that names the files
    task: Mapping[str, Any] = types.MappingProxyType(
        {}
    )  # later runs need nothing from it

    def __init__(
        self,
        config: PretrainConfig,
        model: Pretrained,
        cache: pathlib.Path,
        *,
        topology: Topology,
    ):
        """Checks all records that the run will read. Raises UserError for a bad one."""
        self._config, self._topology = config, topology
        self._masking = self._make_masking(config, model)
        if self._masking and (
            note := too_few(self._masking.masking, config.max_seq_length)
        ):
            fact("masking", note)
        schema = RecordSchema(
            config.max_seq_length,
            config.max_predictions_per_seq,
            model.bert_config.vocab_size,
            segments=model.bert_config.type_vocab_size,
            dynamic=config.dynamic_masking,
        )
        self._files = files_of(config)
        self._indices: dict[str, list[RecordIndex]] = {}
        for split, paths in self._files.items():
            for file in paths:
                _check_vocabulary(file, model)
            # The other processes read the index of the first one, or make their own.
            with collective.first_process_first(topology.group):
                self._indices[split] = [
                    pretraining_records.index(
                        file,
                        schema,
                        config.skip_bad_records,
                        cache=cache,
                        writes=topology.group.rank == 0,
                    )
                    for file in progress_bar(paths, "check records", "files")
                ]
            for file, index in zip(paths, self._indices[split], strict=True):
                _check_count(file, len(index.sizes), config.skip_bad_records)
            if not any(len(index.sizes) for index in self._indices[split]):
                raise UserError(f"{listed(paths, 3)}: no records")
        self.next_sentence = self._has_next_sentence_labels()
        self._check_masks()

    @staticmethod
    def _make_masking(
        config: PretrainConfig, model: Pretrained
    ) -> DynamicMasking | None:
        if not config.dynamic_masking:
            return None
        tokenizer = model.required_tokenizer
        masking = Masking(
            config.masking,
            tokenizer.mask_id,
            len(tokenizer.tokens),
            probability=config.masked_lm_prob,
            most=config.max_predictions_per_seq,
            unk_id=tokenizer.unk_id,
        )
        special = tokenizer.cls_id, tokenizer.sep_id
        return DynamicMasking(
            masking, special, config.seed, random_numbers=config.random_numbers
        )

    def _has_next_sentence_labels(self) -> bool:
        """Whether rows have next_sentence_labels. Raises UserError if only some do."""
        example: dict[bool, str] = {}  # a file with them, a file without
        for split, indices in self._indices.items():
            for file, index in zip(self._files[split], indices, strict=True):
                for has in {*map(bool, index.follows.tolist())}:
                    example.setdefault(has, file)
        if len(example) > 1:
            raise UserError(
                f"{example[True]} has next_sentence_labels, but {example[False]} has"
                " records without them: train on one kind of record at a time"
            )
        return True in example

    def _check_masks(self) -> None:
        """Raises UserError if --masking does not fit a file, or no token is masked."""
        config = self._config
        for split, indices in self._indices.items():
            files = self._files[split]
            for file, index in zip(files, indices, strict=True):
                made = _facts(file).get("settings", {}).get("objective")
                infills = config.dynamic_masking and config.masking == "infill"
                if config.dynamic_masking and made and (made == "infill") != infills:
                    raise UserError(
                        f"{file}: made with --objective={made}, which"
                        f" --masking={config.masking} does not fit: pass --masking="
                        + ("infill" if made == "infill" else "token or span")
                    )
                if infills and not index.pairs.all():
                    raise UserError(
                        f"{file}: has rows without a second text: --masking=infill"
                        " masks a part of that: pass another --masking"
                    )
            if self._masking:  # what is masked is only known once masks are drawn
                continue
            if not any(index.counts.any() for index in indices):
                raise UserError(f"{listed(files, 3)}: no token is masked")
            most = self._most(split)
            if most is None:
                continue
            counts = np.concatenate([index.counts for index in indices])[:most]
            if not counts.any():
                raise UserError(
                    f"{listed(files, 3)}: no token is masked in the first"
                    f" {len(counts)} rows, which are evaluated: raise --max_eval_steps,"
                    " or pass other records as --eval_input_file"
                )

    def _most(self, split: str) -> int | None:
        """The largest number of rows of a set to read; None: all of them."""
        config = self._config
        if split != "dev":
            return None
        return config.max_eval_steps * config.eval_batch_size * self._topology.n_towers

    def named(self, split: str) -> str:
        """The files of a set, for a message."""
        return listed(self._files[split], 3)

    def load(self, split: str) -> tuple[RecordRows, str]:
        """(rows, fingerprint) of train or dev, described in the log."""
        files, indices = self._files[split], self._indices[split]
        rows = RecordRows(files, indices, self._masking, most=self._most(split))
        for index in indices:
            for line in index.bad[:3]:
                fact(split, f"left out: {line}")
        bad = sum(len(index.bad) for index in indices)
        left_out = f"; {bad} bad records are left out" * (bad > 0)
        fact(split, f"{len(rows)} rows of {self.named(split)}{left_out}")
        if 1 < len(files) < (processes := self._topology.group.size):
            fact(
                split,
                f"fewer files than {processes} processes: each reads rows of any file",
            )
        tokens = int(rows.lengths.sum())
        fact(split, f"{tokens} tokens, {tokens / len(rows):.1f} per row")
        key = hashing.fingerprint({"content": [index.content for index in indices]})
        collective.check_equal(
            self._topology.group, {"--input_file (its contents)": key}
        )
        return rows, key

    def load_training(self) -> tuple[RecordRows, str]:
        return self.load("train")

    def examples(self, split: str) -> list[Example]:
        """No examples: records have no texts."""
        return []

    def check(self, split: str, scored: Any) -> None:
        """Raises UserError if the masks that were drawn mask no token."""
        if not scored["masked_lm_counts"]:
            raise UserError(
                f"{self.named(split)}: --masking={self._config.masking} masks no"
                f" token of the {scored['rows']} rows that are evaluated: pass records"
                " of longer texts as --eval_input_file, or leave --do_eval out"
            )
