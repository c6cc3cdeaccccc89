"""The settings of run_classifier_mgpu.py: shared by all families, and of each one."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

from bert_mgpu.config.base import (
    FILES,
    INPUT,
    MODEL,
    TEST,
    TRAIN,
    RunConfig,
    fields,
    flag,
)
from bert_mgpu.config.classification import (
    BEST_METRICS,
    TASK_TYPES,
    ClassificationFlags,
)
from bert_mgpu.config.rewriting import RewritingFlags
from bert_mgpu.config.span_qa import SpanQaFlags
from bert_mgpu.config.tagging import TaggingFlags
from bert_mgpu.core.errors import UserError

# What happens to a text that is longer than a row.
LONG_TEXT_FLAGS = ("max_segments", "segment_pooling", "truncation", "head_tokens")
PREDICT_FORMATS = ("text", "tsv", "csv", "jsonl", "parquet", "conll", "squad")


@dataclasses.dataclass(frozen=True)
class FinetuneFlags(RunConfig):
    """The flags that every family of tasks has."""

    trained_task: Any = None  # a run_folder.TrainedTask, if a model is only used
    # fmt: off
    task_name: str | None = flag(None, INPUT, "a built-in task, or your own, described by a task.json in data_dir", identity=True)
    data_dir: str | None = flag(None, INPUT, "folder with the task's files and, for your own task, its task.json")
    train_file: str | None = flag(None, INPUT, "your own task: training file; task.json may hold this and the following settings instead")
    dev_file: str | None = flag(None, INPUT, "your own task: file for --do_eval")
    test_file: str | None = flag(None, INPUT, "your own task: file for --do_predict [dev_file]")
    file_format: str | None = flag(None, INPUT, "your own task: tsv, csv, jsonl, parquet, conll (type tags) or squad (type qa) [from the file's name, else tsv; tags: conll; qa: squad]")
    header: bool | None = flag(None, INPUT, "your own task: whether the first line of TSV and CSV files names the columns [true if any column is given by name]")
    encoding: str | None = flag(None, INPUT, "your own task: encoding of its files, such as utf-8, gb18030, gbk or big5 [utf-8]")
    text_a_column: str | None = flag(None, INPUT, "your own task: column of the text, by name or by number from 0; -1 is the last")
    text_b_column: str | None = flag(None, INPUT, "your own task: column of a second text")
    label_column: str | None = flag(None, INPUT, "your own task: column of the label or labels")
    id_column: str | None = flag(None, INPUT, "your own task: column with the ids for predictions.jsonl")
    labels: str | None = flag(None, INPUT, "your own task: labels in the order of the classes, comma-separated [those of the training file, sorted]")
    task_type: str | None = flag(None, INPUT, f"your own task: {TASK_TYPES} [single]", remembered=True)
    truncation: str = flag("head", MODEL, "which part of a long text to keep; of a pair, the longer text loses its end", identity=True, remembered=True, choices=("head", "tail", "head_tail"))
    head_tokens: int = flag(128, MODEL, "tokens kept from the beginning with --truncation=head_tail; half of a row that has no room for more", identity=True, remembered=True, minimum=0)
    doc_stride: int | None = flag(None, MODEL, "types tags and qa, and max_segments: tokens from the start of a window, or segment, to the start of the next one, where a text is longer than max_seq_length [tags: half a row; qa: as in run_squad.py, at most half a row; segments: no overlap]", identity=True, remembered=True, minimum=1)
    max_segments: int = flag(1, MODEL, "classification and regression of single texts: read a text longer than max_seq_length as up to N segments of that length", identity=True, remembered=True, minimum=1, maximum=1000)
    segment_pooling: str = flag("mean", MODEL, "how the first token's vectors of the segments become one: mean, max, or attention, a weighted mean whose weights are learnt", identity=True, remembered=True, choices=("mean", "max", "attention"))
    classifier_dropout: float | None = flag(None, MODEL, "dropout before the classifier [the config's hidden_dropout_prob]", identity=True, minimum=0, maximum=0.99)
    num_train_epochs: float = flag(3.0, TRAIN, "passes over the training set; a higher number continues a finished run", minimum=0, maximum=1e6)
    dev_share: float | None = flag(None, INPUT, "your own task without a dev file: share of the training file to evaluate on, such as 0.1; about the same share of each label, of which at least one text stays in training; no text, or pair of texts, is in both parts", identity=True, remembered=True, minimum=0.001, maximum=0.5)
    max_train_steps: int | None = flag(None, TRAIN, "steps of the training, instead of num_train_epochs; where both are given, whichever ends first; 0 keeps the weights that a training would begin with", minimum=0)
    seeds: int = flag(1, TRAIN, "train N times, with seed, seed + 1 and so on, each in a folder of output_dir, and report mean and deviation of the scores", minimum=1, maximum=1000)
    warmup_proportion: float = flag(0.1, TRAIN, "share of the steps during which the learning rate rises from 0", identity=True, minimum=0, maximum=1)
    max_train_examples: int | None = flag(None, TRAIN, "train on a random sample of N examples [all]", identity=True, minimum=1)
    eval_files: str | None = flag(None, TEST, "more labelled files to evaluate, in the format of the dev file: NAME=FILE, comma-separated")
    eval_steps: int | None = flag(None, TEST, "with do_train: evaluate the dev set and eval_files every N steps and after the last one [never]", minimum=1)
    best_metric: str | None = flag(None, TEST, f"score of the dev set that chooses the weights in output_dir/best, by default {BEST_METRICS}")
    use_best: bool = flag(False, TEST, "evaluate, predict and export with the weights in output_dir/best, not the last ones")
    early_stopping_patience: int | None = flag(None, TEST, "stop after N evaluations in a row without a better best_metric [never]", minimum=1)
    report: bool = flag(True, TEST, "write output_dir/report.html on training and evaluation, and its pictures to output_dir/report")
    predict_format: str | None = flag(None, TEST, "format of predict_file: text (one text per line; of a pair, two with a tab between them), tsv, csv, jsonl, parquet, conll (a word on each line) or squad (all questions in one JSON value) [from the file's name; for .txt, standard input and the type tags, from the first lines]", choices=PREDICT_FORMATS)
    predict_text: str | None = flag(None, TEST, "a text to predict; the answer is printed")
    predict_text_b: str | None = flag(None, TEST, "the second text of --predict_text, where the task has pairs")
    strict: bool = flag(False, TEST, "with --predict_file=-: stop at the first row that cannot be read, instead of answering it with an error and going on")
    max_eval_examples: int | None = flag(None, TEST, "evaluate on a random sample of N examples [all]", minimum=1)
    max_predict_examples: int | None = flag(None, TEST, "predict a random sample of N examples [all]", minimum=1)
    export_saved_model: str | None = flag(None, FILES, "write the model to this folder as a SavedModel that takes raw texts, for TensorFlow Serving")
    export_tokenizer: str = flag("tf", FILES, "with export_saved_model: what cuts words into pieces, tf (TensorFlow's own operations) or tf_text (tensorflow-text's, which are faster; needs the pip extra tf_text, also where the model is loaded)", choices=("tf", "tf_text"))
    export_onnx: str | None = flag(None, FILES, "write the model to this folder as ONNX, with token ids as inputs; needs the pip extra onnx")
    # fmt: on

    warmup_flag = "warmup_proportion"
    first: ClassVar[tuple[str, ...]] = (
        *("task_name", "data_dir", "output_dir", "init_checkpoint"),
        *("do_train", "do_eval", "do_predict", "plan", "predict_file", "predict_text"),
        *("max_seq_length", "do_lower_case", "n_gpus", "train_batch_size"),
        *("learning_rate", "num_train_epochs", "seed", "eval_steps", "use_best"),
    )

    @property
    def row_length(self) -> int:
        return self.max_seq_length * self.max_segments

    @property
    def longest_text(self) -> int:
        stride = self.doc_stride or self.max_seq_length - 2
        return self.max_seq_length + (self.max_segments - 1) * stride

    @property
    def length_in_words(self) -> str:
        if self.max_segments == 1:
            return str(self.max_seq_length)
        segments = f"{self.max_segments} x {self.max_seq_length}"
        every = f", one every {self.doc_stride}" if self.doc_stride else ""
        return f"{self.longest_text} ({segments}{every})"

    @property
    def eval_every(self) -> int:
        return self.eval_steps or 0

    @property
    def predict_prints(self) -> str | None:
        """The given flag, if any, that prints its predictions, a few at a time."""
        return super().predict_prints if self.predict_text is None else "predict_text"

    def steps_of(self, rows: int, batch: int) -> int:
        """The number of optimizer steps of a run, rounded down as bert-ad does.

        Batches continue across the ends of epochs, so every row is seen; only an
        incomplete last batch is left out.
        """
        most = self.max_train_steps
        if most == 0 or (most is not None and "num_train_epochs" not in self.given):
            return most
        steps = int(rows / batch * self.num_train_epochs)
        if steps < 1:
            raise UserError(
                f"{rows} rows x {self.num_train_epochs:g} epochs are less than one batch"
                f" of {batch}: lower --train_batch_size or --n_gpus, or raise"
                " --num_train_epochs"
            )
        return steps if most is None else min(steps, most)

    def warmup_of(self, steps: int) -> int:
        return int(steps * self.warmup_proportion)


@dataclasses.dataclass(frozen=True)
class FinetuneConfig(
    RewritingFlags, SpanQaFlags, TaggingFlags, ClassificationFlags, FinetuneFlags
):
    """All settings of run_classifier_mgpu.py. A new family adds its table as a base."""


# Flags of one task type that a prediction may set anew: see `flag(kept_with_task=...)`.
CHOICES = tuple(
    field.name for field in fields(FinetuneConfig) if field.metadata["kept_with_task"]
)
