"""The settings of `bert_mgpu convert`."""

from __future__ import annotations

import dataclasses

from bert_mgpu.config.base import INPUT, MODEL, TASK, FlagTable, flag
from bert_mgpu.core.activations import ACTIVATIONS


@dataclasses.dataclass(frozen=True)
class ConvertConfig(FlagTable):
    """The settings of python -m bert_mgpu convert."""

    init_checkpoint: str | None = flag(
        None,
        MODEL,
        "the model: a checkpoint's name without .index, an output_dir, or a"
        " Hugging Face folder",
    )
    bert_config_file: str | None = flag(
        None, MODEL, "model sizes, bert_config.json [beside the model]"
    )
    vocab_file: str | None = flag(
        None, MODEL, "WordPiece vocabulary, one token a line [beside the model]"
    )
    do_lower_case: bool = flag(
        True, MODEL, "fold case and accents, as uncased models want; false for cased"
    )
    hidden_act: str | None = flag(
        None, MODEL, "activation instead of the config's", choices=ACTIVATIONS
    )
    export_hf: str | None = flag(
        None, TASK, "write to this folder as Hugging Face's transformers reads it"
    )
    export_google: str | None = flag(
        None,
        TASK,
        "write to this folder as google-research/bert and bert_mgpu read it",
    )
    input_file: str | None = flag(
        None,
        INPUT,
        "text whose first 64 lines are compared; without it: rows of tokens drawn at"
        " random",
    )
