"""Where the model of a run comes from: sizes, vocabulary, casing, labels, weights.

Flags come first; what they do not say is taken from the folder of
--init_checkpoint or from what the run has left in output_dir.
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

LABELS_FILE, CONFIG_FILE, VOCAB_FILE, RUN_FILE = (
    "label_list.txt",
    "bert_config.json",
    "vocab.txt",
    "run.json",
)
MAX_POSITIONS = 512
_MAX_NAMES_SHOWN = 8
# Only the first kind is read, the others are refused with a reason.
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
    """What a run trains or uses, except the values of the weights."""

    bert_config: BertConfig
    config_file: str
    words: Tokenizer | None  # None where nothing says which vocabulary it is
    vocab_file: str | None
    do_lower_case: bool
    labels: list[str] | None  # as found beside the weights; None where absent
    problem_type: str | None = None  # transformers' word for what the labels are

    @property
    def tokenizer(self) -> Tokenizer:
        """Raises UserError where the run has no vocabulary."""
        if self.words is None:
            raise _missing("vocab_file", VOCAB_FILE)
        return self.words

    @property
    def vocabulary(self) -> str:
        """The vocab_file. Raises UserError where the run has none."""
        if self.vocab_file is None:
            raise _missing("vocab_file", VOCAB_FILE)
        return self.vocab_file


def is_hugging_face(path: str) -> bool:
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
    """Raises UserError for what is missing, broken or does not fit together.

    data: what the run's data says of the text: it was made with a vocab_file and a
    casing, and may be read without a vocabulary. None: this run reads text itself.
    """
    if config.init_checkpoint and not train_state.saved_steps(output_dir):
        _check_weights(config.init_checkpoint)
    of_weights = _beside_weights(config, output_dir)
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
    kind = beside.get("problem_type")
    return Pretrained(
        bert_config,
        config_file,
        tokenizer,
        vocab_file=vocab_file,
        do_lower_case=lower,
        labels=labels,
        problem_type=kind,
    )


def _check_weights(path: str) -> None:
    """Raises UserError where there is nothing of that name, with the nearest ones."""
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


def _beside_weights(config: RunConfig, output_dir: pathlib.Path) -> dict[str, Any]:
    """What the folder of the weights says: our own run first, then the start."""
    found: dict[str, Any] = {}
    if config.init_checkpoint:
        folder = folder_of(config.init_checkpoint)
        if is_hugging_face(config.init_checkpoint):
            settings = huggingface_read.folder_settings(folder)
            found = {k: v for k, v in settings.items() if v is not None}
            found["origin"] = str(folder)
        else:
            found = _left_by_run(folder)
    if train_state.saved_steps(output_dir):  # else a start that failed left them
        found |= _left_by_run(output_dir)
    return found


def _left_by_run(folder: pathlib.Path) -> dict[str, Any]:
    """What a folder that holds a run of ours (or Google's files) says."""
    found: dict[str, Any] = {}
    for key, name in (("config_file", CONFIG_FILE), ("vocab_file", VOCAB_FILE)):
        if files.is_there(folder / name):  # whatever it is, it was meant
            found[key] = str(folder / name)
    if files.is_there(folder / LABELS_FILE):
        found["labels"] = run_folder.read_labels(folder / LABELS_FILE)
    settings = run_folder.read_settings(folder / RUN_FILE)
    if "do_lower_case" in settings:
        found["origin"] = str(folder)
    return found | settings


def as_trained(
    config: RunConfig, output_dir: pathlib.Path
) -> tuple[RunConfig, list[str]]:
    """What a run without training does not say is as the model was trained.

    Returns the settings and notes for the log.
    """
    if config.do_train:
        return config, []
    trained = _beside_weights(config, output_dir)
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
    """The folder of a checkpoint, which may be named by it."""
    return pathlib.Path(path) if os.path.isdir(path) else pathlib.Path(path).parent


def _casing(
    config: RunConfig, beside: Mapping[str, Any], data: Mapping[str, Any] | None
) -> bool:
    """Refuses a flag, or data, that contradicts what the weights were trained with.

    beside: what the folder of the weights says; data: see `find_model`.
    """
    lower, origin = beside.get("do_lower_case"), beside.get("origin")
    said = "do_lower_case" in config.given
    if lower is None and config.init_checkpoint:
        origin = config.init_checkpoint
        if match := _GOOGLE_MODEL.fullmatch(folder_of(origin).resolve().name):
            lower = match[1] not in _CASED
            # Google's rule: the default counts as said, where text is read.
            said = said or data is None
    made, maker = ((data or {}).get(key) for key in ("do_lower_case", "origin"))
    if None not in (made, lower) and made != lower:
        raise UserError(
            f"{maker}: made with --do_lower_case={str(made).lower()}, but {origin} is"
            f" {'uncased' if lower else 'cased'}: make it anew with"
            f" --do_lower_case={str(lower).lower()}"
        )
    if lower is None:
        lower, origin = made, maker
    if lower is None:
        return config.do_lower_case
    if said and config.do_lower_case != lower:
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
    """What the start of a run says of its model."""
    bert_config = model.bert_config
    start = (
        f"model: {bert_config.num_hidden_layers} layers x {bert_config.hidden_size},"
        f" {bert_config.num_attention_heads} heads, {bert_config.hidden_act}"
        f" ({'--hidden_act' if config.hidden_act else model.config_file}),"
    )
    if model.words is None:
        return [
            f"{start} vocabulary of {bert_config.vocab_size}",
            "no --vocab_file: none is written to output_dir, where a later fine-tuning"
            " would look for it",
        ]
    lines = [
        f"{start} {'uncased' if model.do_lower_case else 'cased'} vocabulary of"
        f" {len(model.words.tokens)}"
    ]
    unused = bert_config.vocab_size - len(model.words.tokens)
    if unused:
        lines.append(
            f"{model.vocab_file}: {unused} tokens fewer than the embedding has rows;"
            " the others stay unused"
        )
    return lines
