"""The settings of run_pretraining_mgpu.py."""

from __future__ import annotations

import dataclasses

from bert_mgpu.config.base import INPUT, MODEL, TASK, TEST, TRAIN, RunConfig, flag


@dataclasses.dataclass(frozen=True)
class PretrainConfig(RunConfig):
    """The settings of run_pretraining_mgpu.py."""

    # fmt: off
    input_file: str | None = flag(None, INPUT, "records to train on, made by data_prep/create_pretraining_data.py: names, globs and folders (all their *.tfrecord), comma-separated")
    eval_input_file: str | None = flag(None, INPUT, "records to evaluate on [input_file]")
    skip_bad_records: bool = flag(False, INPUT, "skip and count damaged records instead of ending with an error", identity=True)
    max_predictions_per_seq: int = flag(20, INPUT, "maximum number of masked tokens per row; must match the records", identity=True, remembered=True, minimum=1, maximum=4096)
    dynamic_masking: bool = flag(False, INPUT, "records hold no masks (--dynamic_masking of create_pretraining_data.py): draw new ones in every epoch", identity=True, remembered=True)
    masking: str = flag("token", INPUT, "what dynamic masking masks: tokens (whole words if the records mark them), spans of geometric length, or (infill) a span of the second text as long as the first", identity=True, remembered=True, choices=("token", "span", "infill"))
    masked_lm_prob: float = flag(0.15, INPUT, "share of the tokens to mask with dynamic masking", identity=True, remembered=True, minimum=0.001, maximum=0.9)

    do_eval: bool = flag(False, TASK, "evaluate the model on eval_input_file")
    do_predict: bool = flag(False, TASK, "score the lines of --predict_file by pseudo-perplexity")
    max_seq_length: int = flag(128, MODEL, "tokens per row, [CLS] and [SEP] included; must match the records", identity=True, remembered=True, minimum=3)

    num_train_steps: int = flag(100000, TRAIN, "optimizer steps; a higher number continues a finished run", minimum=1)
    num_warmup_steps: int = flag(10000, TRAIN, "steps during which the learning rate rises from 0", identity=True, minimum=0)
    max_eval_steps: int = flag(100, TEST, "maximum number of evaluation steps, which read the first rows of the records: this times --eval_batch_size times the number of towers, so compare runs with the same number of towers, or raise this until all rows are read", minimum=1)
    predict_file: str | None = flag(None, TEST, "text file to score, one sentence per line")
    # fmt: on

    warmup_flag = "num_warmup_steps"

    def steps_of(self, rows: int, batch: int) -> int:
        return self.num_train_steps

    def warmup_of(self, steps: int) -> int:
        return self.num_warmup_steps
