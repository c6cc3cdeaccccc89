"""Google folders: a model in google-research/bert's layout, plus a run's settings."""

from __future__ import annotations

import json
import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bert_mgpu.checkpoints import google_read
from bert_mgpu.checkpoints.run_folder import PRODUCER
from bert_mgpu.core import files
from bert_mgpu.core.errors import UserError
from bert_mgpu.core.run_files import CONFIG, LABELS, MODEL, RUN, VOCAB
from bert_mgpu.model.config import BertConfig

CHECKPOINT = "bert_model.ckpt"


def export(
    directory: str | os.PathLike[str],
    params: Mapping[str, np.ndarray],
    bert_config: BertConfig,
    *,
    vocab_file: str | os.PathLike[str],
    labels: Sequence[str] | None,
    facts: Mapping[str, Any],
) -> None:
    """Writes bert_model.ckpt, bert_config.json and vocab.txt.

    Google's format has no place for labels and flags, such as do_lower_case: they go
    to label_list.txt and run.json, as in the output_dir of a run. The folder is written
    completely or not at all, and replaces nothing but an earlier export.

    facts: the content of run.json (see `run_folder.facts`).

    Raises UserError where the folder holds other files, or cannot be written.
    """
    target = pathlib.Path(directory).absolute()
    files.check_replaceable(target, is_export)
    text = json.dumps(facts, indent=2, ensure_ascii=False)
    try:
        with files.replacing_folder(target) as new:
            (new / VOCAB).write_bytes(pathlib.Path(vocab_file).read_bytes())
            (new / CONFIG).write_text(bert_config.to_google_json(), encoding="utf-8")
            (new / RUN).write_text(text + "\n", encoding="utf-8")
            if labels:
                lines = "".join(f"{label}\n" for label in labels)
                (new / LABELS).write_text(lines, encoding="utf-8")
            google_read.write(new / CHECKPOINT, params)
    except OSError as error:
        raise UserError(f"{directory}: cannot export: {error.strerror}") from None


def is_export(folder: pathlib.Path, names: set[str]) -> bool:
    """Whether `folder`, whose files are `names`, was written by `export`."""
    others = {name for name in names if not name.startswith(f"{CHECKPOINT}.")}
    if not (RUN in others and others <= {*MODEL}):
        return False
    try:
        return files.read_json(folder / RUN).items() >= PRODUCER.items()
    except UserError:
        return False
