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
        "the model: a Google checkpoint (name without .index), an output_dir, or a"
        " Hugging Face folder",
    )
    export_hf: str | None = flag(
        None, TASK, "write to this folder in the format of Hugging Face's transformers"
    )
    export_google: str | None = flag(
        None,
        TASK,
        "write to this folder in the format of google-research/bert, which bert_mgpu"
        " reads too",
    )
    input_file: str | None = flag(
        None,
        INPUT,
        "text whose first 64 lines serve to compare the outputs of both models;"
        " without it, random token ids do",
    )
