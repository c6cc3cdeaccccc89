"""Where the model of a run comes from: sizes, vocabulary, casing, labels, weights.

Flags come first; what they do not say is taken from the folder of
--init_checkpoint or from what the run has left in output_dir.
"""

from __future__ import annotations

import dataclasses
import json
import pathlib
import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from bert_mgpu.config import BertConfig
from bert_mgpu.errors import UserError
from bert_mgpu.interop import google_ckpt, huggingface, names
from bert_mgpu.run_config import RunConfig
from bert_mgpu.text.tokenization import Tokenizer
from bert_mgpu.train import checkpoint

LABELS_FILE, CONFIG_FILE, VOCAB_FILE, RUN_FILE = (
    "label_list.txt",
    "bert_config.json",
    "vocab.txt",
    "run.json",
)
# Fewer words than rows of the embedding are usual up to a padded size.
_MAX_UNUSED_ROWS = 128
_MAX_POSITIONS = 512
_MAX_NAMES_SHOWN = 8
# Names of Google's checkpoints with the casing that they were trained with.
_CASED, _UNCASED = (
    r"(^|/)(multi_)?cased_",
    r"(^|/)(uncased_|multilingual_|chinese_)",
)


@dataclasses.dataclass(frozen=True)
class Model:
    """What a run trains or uses, except the values of the weights."""

    config: BertConfig
    config_file: str
    tokenizer: Tokenizer
    vocab_file: str
    do_lower_case: bool
    labels: list[str] | None  # as found beside the weights; None where absent


def is_hugging_face(path: str) -> bool:
    folder = pathlib.Path(path)
    if folder.is_dir():
        return any(folder.glob("*.safetensors*")) or (
            (folder / "config.json").is_file() and not any(folder.glob("*.index"))
        )
    return folder.suffix in (".safetensors", ".bin", ".h5", ".keras", ".pt")


def find_model(run: RunConfig, output_dir: pathlib.Path) -> Model:
    """Raises UserError for what is missing, broken or does not fit together."""
    beside = _beside_weights(run, output_dir)
    config_file = run.bert_config_file or beside.get("config_file")
    vocab_file = run.vocab_file or beside.get("vocab_file")
    for flag, value in (
        ("bert_config_file", config_file),
        ("vocab_file", vocab_file),
    ):
        if value is None:
            raise UserError(
                f"--{flag} is missing: pass it, or let --init_checkpoint name a"
                " Hugging Face folder, which has its own"
            )
    assert config_file is not None and vocab_file is not None
    config = BertConfig.from_json_file(config_file, run.hidden_act)
    lower = _casing(run, beside.get("do_lower_case"))
    tokenizer = Tokenizer(vocab_file, lower)
    _check_sizes(run, config, config_file, tokenizer, vocab_file)
    return Model(
        config, config_file, tokenizer, vocab_file, lower, beside.get("labels")
    )


def _beside_weights(run: RunConfig, output_dir: pathlib.Path) -> dict[str, Any]:
    """What the folder of the weights says: our own run first, then the start."""
    found: dict[str, Any] = {}
    if run.init_checkpoint:
        start = pathlib.Path(run.init_checkpoint)
        if is_hugging_face(run.init_checkpoint):
            settings = huggingface.folder_settings(start)
            found = {k: v for k, v in settings.items() if v is not None}
        else:
            found = _left_by_run(start if start.is_dir() else start.parent)
    if checkpoint.saved_steps(output_dir):  # else a start that failed left them
        found |= _left_by_run(output_dir)
    return found


def _left_by_run(folder: pathlib.Path) -> dict[str, Any]:
    """What a folder that holds a run of ours (or Google's files) says."""
    found: dict[str, Any] = {}
    for key, name in (("config_file", CONFIG_FILE), ("vocab_file", VOCAB_FILE)):
        if (folder / name).is_file():
            found[key] = str(folder / name)
    labels = folder / LABELS_FILE
    if labels.is_file():
        found["labels"] = labels.read_text(encoding="utf-8").split("\n")[:-1]
    try:
        flags = json.loads((folder / RUN_FILE).read_text(encoding="utf-8"))["flags"]
        found["do_lower_case"] = bool(flags["do_lower_case"])
    except (OSError, ValueError, KeyError, TypeError):
        pass  # not a run of ours
    return found


def _casing(run: RunConfig, found: bool | None) -> bool:
    """Refuses a flag that contradicts what the weights were trained with."""
    given = "do_lower_case" in run.given
    if found is None and run.init_checkpoint:
        name = run.init_checkpoint.lower()
        if re.search(_CASED, name):
            found = False
        elif re.search(_UNCASED, name):
            found = True
        given = True  # Google's rule: the default counts as said
    if found is None:
        return run.do_lower_case
    if given and run.do_lower_case != found:
        kind = "uncased" if found else "cased"
        said = str(run.do_lower_case).lower()
        raise UserError(
            f"--do_lower_case={said}, but {run.init_checkpoint} is {kind}: pass"
            f" --do_lower_case={str(found).lower()}"
        )
    return found


def _check_sizes(
    run: RunConfig,
    config: BertConfig,
    config_file: str,
    tokenizer: Tokenizer,
    vocab_file: str,
) -> None:
    positions = min(config.max_position_embeddings, _MAX_POSITIONS)
    if run.max_seq_length > positions:
        raise UserError(
            f"--max_seq_length={run.max_seq_length}: the model has"
            f" {config.max_position_embeddings} positions ({config_file}): pass at"
            f" most {positions}, and see --truncation"
        )
    words, rows = len(tokenizer.tokens), config.vocab_size
    if words > rows or rows - words > _MAX_UNUSED_ROWS:
        raise UserError(
            f"{vocab_file}: {words} tokens, but vocab_size is {rows} in"
            f" {config_file}: pass the vocabulary that the model was trained with"
        )


def notes(run: RunConfig, model: Model) -> list[str]:
    """What the start of a run says of its model."""
    config = model.config
    lines = [
        f"model: {config.num_hidden_layers} layers x {config.hidden_size},"
        f" {config.num_attention_heads} heads, {config.hidden_act}"
        f" ({'--hidden_act' if run.hidden_act else model.config_file}),"
        f" {'uncased' if model.do_lower_case else 'cased'} vocabulary of"
        f" {len(model.tokenizer.tokens)}"
    ]
    unused = config.vocab_size - len(model.tokenizer.tokens)
    if unused:
        lines.append(
            f"{model.vocab_file}: {unused} tokens fewer than the embedding has rows;"
            " the others stay unused"
        )
    return lines


def first_weights(
    specs: Mapping[str, tuple[tuple[int, ...], str]],
    random: Mapping[str, np.ndarray],
    path: str | None,
    say: Callable[[str], None],
) -> dict[str, np.ndarray]:
    """Weights of a checkpoint for the names it has, random ones for the rest.

    Raises UserError where an encoder weight is absent or has another shape: the
    checkpoint does not belong to the config. A head may be new; that is said.
    """
    if path is None:
        say(f"no --init_checkpoint: all {len(specs)} weights start at random")
        return dict(random)
    wanted = {name: shape for name, (shape, _) in specs.items()}
    if is_hugging_face(path):
        stored = huggingface.read(path)
        shapes = {name: value.shape for name, value in stored.items()}
    else:
        shapes = {
            name: shape
            for name, (shape, _) in google_ckpt.read_names(path).items()
            if not _belongs_to_training(name)
        }
    missing, unexpected, mismatched = names.describe_difference(wanted, shapes)
    for name in mismatched:
        if name.startswith("bert/"):
            raise UserError(
                f"{path}: {name} has shape {list(shapes[name])}, the model wants"
                f" {list(wanted[name])}: pass the --bert_config_file that belongs to"
                " it"
            )
    lost = [n for n in missing if n.startswith(("bert/embeddings", "bert/encoder"))]
    if lost:
        raise UserError(
            f"{path}: lacks {_listed(lost)}: it is no BERT checkpoint, or"
            " --bert_config_file belongs to another"
        )
    usable = sorted(set(wanted) - set(missing) - set(mismatched))
    if is_hugging_face(path):
        values = {name: stored[name] for name in usable}
    else:
        values = google_ckpt.read(path, usable)
    say(f"weights: {len(values)} of {len(wanted)} start from {path}")
    if missing:
        say(f"  new, start at random: {_listed(missing)}")
    for name in mismatched:
        say(
            f"  new head: {name} has shape {list(shapes[name])} there and"
            f" {list(wanted[name])} here, starts at random"
        )
    if unexpected:
        say(f"  there but not used: {_listed(unexpected)}")
    return dict(random) | {
        name: np.asarray(value, np.float32) for name, value in values.items()
    }


def _belongs_to_training(name: str) -> bool:
    last = name.rpartition("/")[2]
    return last in ("adam_m", "adam_v", "global_step") or name.startswith("bert_mgpu/")


def _listed(items: list[str]) -> str:
    shown = ", ".join(items[:_MAX_NAMES_SHOWN])
    more = len(items) - _MAX_NAMES_SHOWN
    return f"{shown} and {more} more" if more > 0 else shown
