"""The settings of `bert_mgpu convert`."""

from __future__ import annotations

import dataclasses

from bert_mgpu.config.base import INPUT, MODEL, TASK, ModelFlags, flag


@dataclasses.dataclass(frozen=True)
class ConvertConfig(ModelFlags):
    """The settings of `bert_mgpu convert`."""

    init_checkpoint: str | None = flag(
        None,
        MODEL,
        "the model: a checkpoint's name without .index, an output_dir, or a"
        " Hugging Face folder",
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
