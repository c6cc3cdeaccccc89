"""The settings of run_squad_mgpu.py: those of fine-tuning, with Google's defaults."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

from bert_mgpu.config.finetuning import FinetuneConfig

NEGATIVE = "version_2_with_negative"
_FLAGS = {field.name: field for field in dataclasses.fields(FinetuneConfig)}


def _changed(name: str, default: Any, text: str | None = None) -> Any:
    """The flag of this name with another default and, unless None, other help text."""
    metadata = dict(_FLAGS[name].metadata)
    metadata["help"] = text or metadata["help"]
    return dataclasses.field(default=default, metadata=metadata)


@dataclasses.dataclass(frozen=True)
class SquadConfig(FinetuneConfig):
    """All settings of run_squad_mgpu.py."""

    task_name: str | None = _changed("task_name", "squad")
    data_dir: str | None = _changed("data_dir", ".")  # file names are relative to it
    max_seq_length: int = _changed("max_seq_length", 384)
    doc_stride: int | None = _changed(
        "doc_stride",
        128,
        "tokens from the start of a window of a long context to the start of the next",
    )

    first: ClassVar[tuple[str, ...]] = (
        *("train_file", "predict_file", "output_dir", "init_checkpoint"),
        *("vocab_file", "bert_config_file", "do_train", "do_eval", "do_predict"),
        *(NEGATIVE, "null_score_diff_threshold", "doc_stride"),
        *("max_seq_length", "max_query_length", "max_answer_length", "n_best_size"),
        *("do_lower_case", "n_gpus", "train_batch_size", "learning_rate"),
        *("num_train_epochs", "seed", "plan"),
    )
