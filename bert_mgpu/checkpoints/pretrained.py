"""The model of a run without the values of its weights: sizes, vocabulary, labels.

Flags come first; the rest is taken from the folder of --init_checkpoint, or from
output_dir where the run has saved there.
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
import re
from collections.abc import Mapping
from typing import Any

from bert_mgpu.checkpoints import (
    google_read,
    huggingface_read,
    run_folder,
    train_state,
    vocab_growth,
)
from bert_mgpu.config.base import RunConfig
from bert_mgpu.core import files
from bert_mgpu.core.errors import UserError
from bert_mgpu.core.text_files import check_file
from bert_mgpu.model.config import BertConfig
from bert_mgpu.text.tokenization import Tokenizer

LABELS_FILE, CONFIG_FILE = "label_list.txt", "bert_config.json"
VOCAB_FILE, RUN_FILE = "vocab.txt", "run.json"
MAX_POSITIONS = 512
# Only the first is read; the others are refused with a reason.
_HUGGING_FACE_FILES = frozenset(
    {".safetensors", ".bin", ".h5", ".keras", ".pt", ".pth", ".pkl", ".pickle"}
)
# Google's published models are known by the names of their folders.
_GOOGLE_MODEL = re.compile(
    r"(?:wwm_)?((?:multi_)?cased|uncased|multilingual|chinese)_L-\d+_H-\d+_A-\d+"
)
_CASED = ("cased", "multi_cased")


@dataclasses.dataclass(frozen=True)
class Pretrained:
    """A model that a run trains or uses, without the values of its weights."""

    bert_config: BertConfig
    config_file: str
    words: Tokenizer | None  # None where the vocabulary is not known
    vocab_file: str | None
    do_lower_case: bool
    labels: list[str] | None  # as found beside the weights; None where absent
    problem_type: str | None = None  # of a classifier, as transformers names it

    @property
    def tokenizer(self) -> Tokenizer:
        """Raises UserError where the run has no vocabulary."""
        if self.words is None:
            raise _missing("vocab_file", VOCAB_FILE)
        return self.words

    @property
    def vocabulary(self) -> str:
        """The vocab_file. Raises UserError where the run has no vocabulary."""
        if self.vocab_file is None:
            raise _missing("vocab_file", VOCAB_FILE)
        return self.vocab_file


def is_hugging_face(path: str) -> bool:
    """Whether `path` is a folder or a file of weights of transformers."""
    folder = pathlib.Path(path)
    if folder.is_dir():
        return any(folder.glob("*.safetensors*")) or (
            (folder / "config.json").is_file() and not any(folder.glob("*.index"))
        )
    return folder.suffix in _HUGGING_FACE_FILES


def _missing(flag: str, name: str) -> UserError:
    return UserError(
        f"--{flag} is missing: pass it, or an --init_checkpoint that has a {name}"
        " beside it"
    )


def find_model(
    config: RunConfig, output_dir: pathlib.Path, data: Mapping[str, Any] | None = None
) -> Pretrained:
    """The model of a run. Raises UserError for what is missing, broken or at odds.

    data: the vocab_file and the casing that the run's records were made with; they
    can be read without a vocabulary. None: this run reads text itself.
    """
    if config.init_checkpoint and not train_state.saved_steps(output_dir):
        _check_weights(config.init_checkpoint)
    of_weights = _beside_weights(config.init_checkpoint, output_dir)
    beside = {**(data or {}), **of_weights}
    config_file = config.bert_config_file or beside.get("config_file")
    vocab_file = config.vocab_file or beside.get("vocab_file")
    if config_file is None or (vocab_file is None and data is None):
        if not (config.do_train or config.init_checkpoint or beside):
            raise UserError(
                f"--output_dir={output_dir}: holds no trained model: pass the folder"
                " of one, an --init_checkpoint, or --do_train=true"
            )
        if config_file is None:
            raise _missing("bert_config_file", CONFIG_FILE)
        raise _missing("vocab_file", VOCAB_FILE)
    check_file(config_file)
    bert_config = BertConfig.from_json_file(config_file, config.hidden_act)
    _check_positions(config, bert_config, config_file)
    lower, labels = _casing(config, of_weights, data), beside.get("labels")
    if vocab_file is None:
        return Pretrained(
            bert_config,
            config_file,
            None,
            vocab_file=None,
            do_lower_case=lower,
            labels=labels,
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
        labels=labels,
        problem_type=beside.get("problem_type"),
    )


def _check_weights(path: str) -> None:
    """Raises UserError where nothing has that name, and lists similar names."""
    if os.path.isfile(path) or os.path.isdir(path) or google_read.is_there(path):
        return
    if os.path.exists(path):
        raise UserError(f"--init_checkpoint={path}: a pipe or a device: pass a file")
    folder = pathlib.Path(path).absolute().parent
    if folder.is_dir():
        check_file(path)
    raise UserError(
        f"--init_checkpoint={path}: no such checkpoint: pass a folder with a model, or"
        " a checkpoint's name without .index, such as DIR/bert_model.ckpt"
    )


def _beside_weights(
    init_checkpoint: str | None, output_dir: pathlib.Path
) -> dict[str, Any]:
    """The settings of the model in output_dir, else of --init_checkpoint."""
    settings: dict[str, Any] = {}
    if init_checkpoint:
        folder = folder_of(init_checkpoint)
        if is_hugging_face(init_checkpoint):
            named = huggingface_read.folder_settings(folder)
            settings = {k: v for k, v in named.items() if v is not None}
            settings["origin"] = str(folder)
        else:
            settings = _left_by_run(folder)
    if train_state.saved_steps(output_dir):  # else a start that failed left them
        settings |= _left_by_run(output_dir)
    return settings


def _left_by_run(folder: pathlib.Path) -> dict[str, Any]:
    """The settings of the model in a folder that a run, or Google, has written."""
    settings: dict[str, Any] = {}
    for key, name in (("config_file", CONFIG_FILE), ("vocab_file", VOCAB_FILE)):
        # Even if it is no file: what has this name was meant.
        if files.is_there(folder / name):
            settings[key] = str(folder / name)
    if files.is_there(folder / LABELS_FILE):
        settings["labels"] = run_folder.read_labels(folder / LABELS_FILE)
    flags = run_folder.read_settings(folder / RUN_FILE)
    if "do_lower_case" in flags:
        settings["origin"] = str(folder)
    return settings | flags


def as_trained(
    config: RunConfig, output_dir: pathlib.Path
) -> tuple[RunConfig, list[str]]:
    """The settings of a run that does not train, as its model was trained.

    Flags that the command line names stay. Also returns notes for the log.
    """
    if config.do_train:
        return config, []
    trained = _beside_weights(config.init_checkpoint, output_dir)
    taken = {
        name: trained[name]
        for name in run_folder.NAMES
        if name in trained
        and hasattr(config, name)  # the other script's flags
        and name not in config.given
        and trained[name] != getattr(config, name)
    }
    notes = [
        f"--{name}={value}, as the model was trained" for name, value in taken.items()
    ]
    return dataclasses.replace(config, **taken), notes


def folder_of(path: str) -> pathlib.Path:
    """The folder of a checkpoint; `path` may be the folder itself."""
    return pathlib.Path(path) if os.path.isdir(path) else pathlib.Path(path).parent


def _casing(
    config: RunConfig, beside: Mapping[str, Any], data: Mapping[str, Any] | None
) -> bool:
    """Whether the model is uncased.

    beside: settings from the folder of the weights; data: see `find_model`. Raises
    UserError where a flag, or data, contradicts what the weights were trained with.
    """
    lower, origin = beside.get("do_lower_case"), beside.get("origin")
    binding = "do_lower_case" in config.given
    if lower is None and config.init_checkpoint:
        origin = config.init_checkpoint
        if match := _GOOGLE_MODEL.fullmatch(folder_of(origin).resolve().name):
            lower = match[1] not in _CASED
            # Google's rule: the default counts as given, where text is read.
            binding = binding or data is None
    of_data, data_file = ((data or {}).get(key) for key in ("do_lower_case", "origin"))
    if None not in (of_data, lower) and of_data != lower:
        raise UserError(
            f"{data_file}: made with --do_lower_case={str(of_data).lower()}, but"
            f" {origin} is {'uncased' if lower else 'cased'}: make it again with"
            f" --do_lower_case={str(lower).lower()}"
        )
    if lower is None:
        lower, origin = of_data, data_file
    if lower is None:
        return config.do_lower_case
    if binding and config.do_lower_case != lower:
        default = "" if "do_lower_case" in config.given else " (the default)"
        raise UserError(
            f"--do_lower_case={str(config.do_lower_case).lower()}{default}, but"
            f" {origin} is {'uncased' if lower else 'cased'}: pass"
            f" --do_lower_case={str(lower).lower()}"
        )
    return lower


def _check_positions(
    config: RunConfig, bert_config: BertConfig, config_file: str
) -> None:
    positions = min(bert_config.max_position_embeddings, MAX_POSITIONS)
    if config.max_seq_length > positions:
        raise UserError(
            f"--max_seq_length={config.max_seq_length}: the model has"
            f" {bert_config.max_position_embeddings} positions ({config_file}): pass at"
            f" most {positions}"
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


def notes(config: RunConfig, model: Pretrained) -> list[str]:
    """Lines for the log about the model of a run."""
    bert_config = model.bert_config
    start = (
        f"model: {bert_config.num_hidden_layers} layers x {bert_config.hidden_size},"
        f" {bert_config.num_attention_heads} heads, {bert_config.hidden_act}"
        f" ({'--hidden_act' if config.hidden_act else model.config_file}),"
    )
    if model.words is None:
        return [
            f"{start} vocabulary of {bert_config.vocab_size}",
            "no --vocab_file: output_dir gets no vocab.txt, which fine-tuning will look"
            " for there",
        ]
    lines = [
        f"{start} {'uncased' if model.do_lower_case else 'cased'} vocabulary of"
        f" {len(model.words.tokens)}"
    ]
    unused = bert_config.vocab_size - len(model.words.tokens)
    if unused:
        lines.append(
            f"{model.vocab_file}: {unused} tokens fewer than the embedding has rows;"
            " the remaining rows are unused"
        )
    return lines
