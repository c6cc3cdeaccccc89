"""The model of a run without the values of its weights: sizes, vocabulary, labels.

Flags take precedence; the rest comes from the folder of --init_checkpoint, or from
output_dir if the run has saved a checkpoint there.
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
import re
from collections.abc import Mapping
from typing import Any, TypeVar

from bert_mgpu.checkpoints import (
    casing,
    google_read,
    huggingface_read,
    run_folder,
    train_state,
    vocab_growth,
)
from bert_mgpu.config.base import ModelFlags, RunConfig
from bert_mgpu.core import files, run_files
from bert_mgpu.core.errors import UserError
from bert_mgpu.core.text_files import check_file
from bert_mgpu.model.config import BertConfig
from bert_mgpu.text.tokenization import Tokenizer

AnyConfig = TypeVar("AnyConfig", bound=RunConfig)

# Names of models on Hugging Face's hub, as transformers takes them for a download.
_HUB_NAME = re.compile(r"([\w.-]+/)?([\w.-]*bert[\w.-]*)", re.IGNORECASE)
_GOOGLES = re.compile("bert-(base|large)-((multilingual-)?(un)?cased|chinese)")
# Only .safetensors is read; the others are rejected with a reason.
_HUGGING_FACE_FILES = frozenset(
    {".safetensors", ".bin", ".h5", ".keras", ".pt", ".pth", ".pkl", ".pickle"}
)


@dataclasses.dataclass(frozen=True)
class Pretrained:
    """A model that a run trains or uses, without the values of its weights."""

    bert_config: BertConfig
    config_file: str
    tokenizer: Tokenizer | None  # None where the vocabulary is not known
    vocab_file: str | None
    do_lower_case: bool
    labels: list[str] | None  # as found beside the weights; None where absent
    # The problem type of a classifier, as transformers names it.
    huggingface_problem_type: str | None = None

    @property
    def required_tokenizer(self) -> Tokenizer:
        """The tokenizer. Raises UserError where the run has no vocabulary."""
        if self.tokenizer is None:
            raise _missing("vocab_file", run_files.VOCAB)
        return self.tokenizer

    @property
    def required_vocab_file(self) -> str:
        """The vocab_file. Raises UserError where the run has no vocabulary."""
        if self.vocab_file is None:
            raise _missing("vocab_file", run_files.VOCAB)
        return self.vocab_file


def is_hugging_face(path: str) -> bool:
    """Whether `path` is a folder or a weights file in transformers' format."""
    folder = pathlib.Path(path)
    if not folder.is_dir():
        return folder.suffix in _HUGGING_FACE_FILES
    # Other names are of cached rows, see --cache_dir.
    return any(folder.glob("model*.safetensors*")) or (
        (folder / "config.json").is_file() and not any(folder.glob("*.index"))
    )


def _missing(flag: str, name: str) -> UserError:
    advice = "; docs/models.md makes one of tokenizer.json" * (name == run_files.VOCAB)
    return UserError(
        f"--{flag} is missing: pass it, or an --init_checkpoint that has a {name}"
        f" beside it{advice}"
    )


def find_model(
    flags: ModelFlags,
    output_dir: pathlib.Path | None = None,
    data: Mapping[str, Any] | None = None,
    *,
    max_seq_length: int = 1,
    trains: bool = False,
) -> Pretrained:
    """The model that the flags name. Raises UserError if parts are missing or conflict.

    output_dir: of a run, whose model takes precedence over --init_checkpoint; data: the
    vocab_file and the casing that the run's records were made with, which can be read
    without a vocabulary (None: the run reads text itself); max_seq_length: positions
    that the model must have; trains: whether it may start from random weights.
    """
    saved_run = _saved_run(output_dir)
    if flags.init_checkpoint and not saved_run:
        _check_weights(flags.init_checkpoint)
    beside_weights = _beside_weights(flags.init_checkpoint, saved_run)
    beside = {**(data or {}), **beside_weights}
    config_file = flags.bert_config_file or beside.get("config_file")
    vocab_file = flags.vocab_file or beside.get("vocab_file")
    if config_file is None or (vocab_file is None and data is None):
        if not (trains or flags.init_checkpoint or beside):
            raise UserError(
                f"--output_dir={output_dir}: holds no trained model: pass the folder"
                " of one, an --init_checkpoint, or --do_train=true"
            )
        if config_file is None:
            raise _missing("bert_config_file", run_files.CONFIG)
        raise _missing("vocab_file", run_files.VOCAB)
    check_file(config_file)
    bert_config = BertConfig.from_json_file(config_file, flags.hidden_act)
    _check_positions(max_seq_length, bert_config, config_file)
    lower = casing.resolve(
        flags.do_lower_case,
        "do_lower_case" in flags.given,
        beside_weights,
        init_checkpoint=flags.init_checkpoint,
        data=data,
    )
    if vocab_file is None:
        return Pretrained(
            bert_config,
            config_file,
            None,
            vocab_file=None,
            do_lower_case=lower,
            labels=beside.get("labels"),
        )
    check_file(vocab_file)
    tokenizer = Tokenizer(vocab_file, lower)
    _check_words(bert_config, config_file, tokenizer, vocab_file=vocab_file)
    return Pretrained(
        bert_config,
        config_file,
        tokenizer,
        vocab_file=vocab_file,
        do_lower_case=lower,
        labels=beside.get("labels"),
        huggingface_problem_type=beside.get("problem_type"),
    )


def _check_weights(path: str) -> None:
    """Raises UserError where there is no such checkpoint, listing similar names."""
    if os.path.isfile(path) or os.path.isdir(path) or google_read.is_there(path):
        return
    if os.path.exists(path):
        raise UserError(f"--init_checkpoint={path}: a pipe or a device: pass a file")
    if match := _HUB_NAME.fullmatch(path):
        owner, name = match.groups()
        known = not os.path.isdir(owner) if owner else _GOOGLES.fullmatch(name)
        if known and not name.endswith((".ckpt", *_HUGGING_FACE_FILES)):
            raise UserError(
                f"--init_checkpoint={path}: no such folder, and nothing is downloaded:"
                f" run `hf download {owner or 'google-bert/'}{name} --local-dir {name}`"
                f" (pip install huggingface_hub), then pass --init_checkpoint={name}"
            )
    if pathlib.Path(path).absolute().parent.is_dir():
        check_file(path)
    raise UserError(
        f"--init_checkpoint={path}: no such checkpoint: pass a folder with a model, or"
        " a checkpoint's name without .index, such as DIR/bert_model.ckpt"
    )


def _saved_run(output_dir: pathlib.Path | None) -> pathlib.Path | None:
    """output_dir if a run has saved a checkpoint there, not just started; else None."""
    return output_dir if output_dir and train_state.saved_steps(output_dir) else None


def _beside_weights(
    init_checkpoint: str | None, saved_run: pathlib.Path | None
) -> dict[str, Any]:
    """The settings of a saved run's model, or else those beside --init_checkpoint."""
    settings: dict[str, Any] = {}
    if init_checkpoint:
        folder = run_folder.folder_of(init_checkpoint)
        if is_hugging_face(init_checkpoint):
            named = huggingface_read.folder_settings(folder)
            settings = {k: v for k, v in named.items() if v is not None}
            settings["origin"] = str(folder)
            settings |= _prediction_settings(folder)
        else:
            settings = _settings_in_folder(folder)
    if saved_run:
        settings |= _settings_in_folder(saved_run)
    return settings


def _settings_in_folder(folder: pathlib.Path) -> dict[str, Any]:
    """The settings of the model in a folder written by a run or by Google."""
    settings: dict[str, Any] = {}
    for key, name in (
        ("config_file", run_files.CONFIG),
        ("vocab_file", run_files.VOCAB),
    ):
        # Even if it is not a regular file: the name shows what it is meant to be.
        if files.lexists(folder / name):
            settings[key] = str(folder / name)
    if files.lexists(folder / run_files.LABELS):
        settings["labels"] = run_folder.read_labels(folder / run_files.LABELS)
    flags = _prediction_settings(folder)
    if "do_lower_case" in flags:
        settings["origin"] = str(folder)
    return settings | flags


def _prediction_settings(folder: pathlib.Path) -> dict[str, Any]:
    """What run.json keeps for later predictions: flags, and the "task"."""
    path = folder / run_files.RUN
    return {**run_folder.read_settings(path), "task": run_folder.read_task(path)}


def as_trained(
    config: AnyConfig, output_dir: pathlib.Path | None
) -> tuple[AnyConfig, list[str]]:
    """The config of a run that does not train, with the settings its model had.

    Flags given on the command line stay. The model's task is added where the folder
    has one. Also returns notes for the log.
    """
    if config.do_train:
        return config, []
    trained = _beside_weights(config.init_checkpoint, _saved_run(output_dir))
    task = trained.get("task")
    trained |= task.flags if task else {}
    taken = {
        name: trained[name]
        for name in (*run_folder.REMEMBERED, *(task.flags if task else ()))
        if name in trained
        and hasattr(config, name)  # not a flag of the other script
        and name not in config.given
        and trained[name] != getattr(config, name)
    }
    flags = [run_folder.as_flag(name, value) for name, value in taken.items()]
    notes = [f"{flag}, as the model was trained" for flag in flags]
    if task and hasattr(config, "trained_task"):
        taken["trained_task"] = task
    return dataclasses.replace(config, **taken), notes


def _check_positions(
    max_seq_length: int, bert_config: BertConfig, config_file: str
) -> None:
    most, positions = bert_config.longest, bert_config.max_position_embeddings
    if max_seq_length > most:
        limit = f"the model has {positions} positions ({config_file})"
        if positions > most:
            limit = f"rows have at most {most} tokens, whatever the model has"
        raise UserError(
            f"--max_seq_length={max_seq_length}: {limit}: pass at most {most}"
        )


def _check_words(
    bert_config: BertConfig, config_file: str, tokenizer: Tokenizer, *, vocab_file: str
) -> None:
    words, rows = len(tokenizer.tokens), bert_config.vocab_size
    if words > rows or rows - words > vocab_growth.MAX_UNUSED_ROWS:
        raise UserError(
            f"{vocab_file}: {words} tokens, but vocab_size is {rows} in"
            f" {config_file}: pass the --vocab_file that the model was trained with"
        )


def notes(model: Pretrained, hidden_act: str | None) -> list[str]:
    """Lines for the log about a model; hidden_act: the flag that overrides its own."""
    bert_config = model.bert_config
    start = (
        f"{bert_config.size_in_words},"
        f" {bert_config.num_attention_heads} heads, {bert_config.hidden_act}"
        f" ({'--hidden_act' if hidden_act else model.config_file}),"
    )
    if model.tokenizer is None:
        return [
            f"{start} vocabulary of {bert_config.vocab_size}",
            "no --vocab_file: output_dir gets no vocab.txt, which fine-tuning will look"
            " for there",
        ]
    lines = [
        f"{start} {'uncased' if model.do_lower_case else 'cased'} vocabulary of"
        f" {len(model.tokenizer.tokens)}"
    ]
    if unused := bert_config.vocab_size - len(model.tokenizer.tokens):
        lines.append(
            f"{model.vocab_file}: {unused} tokens fewer than the embedding has rows;"
            " the remaining rows are unused"
        )
    known = model.tokenizer.tokens
    return lines + huggingface_read.ignored_tokens(model.vocab_file, known)
