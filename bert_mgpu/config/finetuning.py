"""The settings of run_classifier_mgpu.py: those of every family, and each family's."""

from __future__ import annotations

import dataclasses

from bert_mgpu.config.base import FILES, INPUT, MODEL, TEST, TRAIN, RunConfig, flag
from bert_mgpu.config.classification import ClassificationFlags
from bert_mgpu.core.errors import UserError


@dataclasses.dataclass(frozen=True)
class FinetuneFlags(RunConfig):
    """The flags that every family of tasks has."""

    # fmt: off
    task_name: str | None = flag(None, INPUT, "a built-in task, or the name of your own: then data_dir holds a task.json", identity=True)
    data_dir: str | None = flag(None, INPUT, "folder with the task's files, and with task.json")
    train_file: str | None = flag(None, INPUT, "your own task: its training file; task.json may name this and the following settings instead")
    dev_file: str | None = flag(None, INPUT, "your own task: its file for --do_eval")
    test_file: str | None = flag(None, INPUT, "your own task: its file for --do_predict [dev_file]")
    file_format: str | None = flag(None, INPUT, "your own task: tsv, csv, jsonl or parquet [by the file's name, else tsv]")
    header: bool | None = flag(None, INPUT, "your own task: the first line of a TSV or CSV file names its columns [true if any column is given by its name]")
    encoding: str | None = flag(None, INPUT, "your own task: encoding of its files: utf-8, gb18030, gbk, big5 and others [utf-8]")
    text_a_column: str | None = flag(None, INPUT, "your own task: column of the text: its name, or its number from 0; -1 is the last")
    text_b_column: str | None = flag(None, INPUT, "your own task: column of a second text")
    label_column: str | None = flag(None, INPUT, "your own task: column of the label")
    id_column: str | None = flag(None, INPUT, "your own task: column that names a row in predictions.jsonl")
    labels: str | None = flag(None, INPUT, "your own task: its labels in the order of the classes, separated by commas [those of the training file, sorted]")
    task_type: str | None = flag(None, INPUT, "your own task: single (one label a row), multi (several) or regression (a number) [single]", remembered=True)
    truncation: str = flag("head", MODEL, "which part of a long text is kept; pairs lose the end of the longer text", identity=True, remembered=True, choices=("head", "tail", "head_tail"))
    head_tokens: int = flag(128, MODEL, "tokens kept from the head with --truncation=head_tail", identity=True, remembered=True, minimum=0)
    num_train_epochs: float = flag(3.0, TRAIN, "passes over the training set; more of them continue a finished run", minimum=0, maximum=1e6)
    seeds: int = flag(1, TRAIN, "train this many times, with seed, seed + 1 and so on, each in a folder of output_dir, and report mean and deviation of the scores", minimum=1, maximum=1000)
    warmup_proportion: float = flag(0.1, TRAIN, "share of the steps in which the learning rate rises from 0", identity=True, minimum=0, maximum=1)
    max_train_examples: int | None = flag(None, TRAIN, "train on a seeded sample of this many rows [all]", identity=True, minimum=1)
    eval_files: str | None = flag(None, TEST, "other labelled files, in the format of the dev file, to evaluate beside it: NAME=FILE, separated by commas")
    eval_steps: int | None = flag(None, TEST, "with do_train: steps between evaluations of the dev set and of eval_files; there is also one after the last step [none]", minimum=1)
    best_metric: str | None = flag(None, TEST, "score of the dev set that chooses the weights in output_dir/best; unless given, eval_accuracy, for several labels micro_f1, for regression eval_loss")
    use_best: bool = flag(False, TEST, "evaluate, predict and export with the weights of output_dir/best instead of the last ones")
    early_stopping_patience: int | None = flag(None, TEST, "stop after this many evaluations without a better best_metric [never]", minimum=1)
    report: bool = flag(True, TEST, "write output_dir/report.html about the training and the evaluation, and its pictures to output_dir/report")
    max_eval_examples: int | None = flag(None, TEST, "evaluate on a seeded sample of this many rows [all]", minimum=1)
    max_predict_examples: int | None = flag(None, TEST, "predict a seeded sample of this many rows [all]", minimum=1)
    export_saved_model: str | None = flag(None, FILES, "write the model to this folder as a SavedModel that takes raw texts, for TensorFlow Serving")
    export_onnx: str | None = flag(None, FILES, "write the model to this folder as an ONNX model that takes ids; needs the extra onnx")
    # fmt: on

    warmup_flag = "warmup_proportion"

    @property
    def eval_every(self) -> int:
        return self.eval_steps or 0

    def steps_of(self, rows: int, batch: int) -> int:
        """Rounded down as bert-ad does. Batches run on across the ends of epochs, so
        every row is seen; only the very last part of a batch is not.
        """
        steps = int(rows / batch * self.num_train_epochs)
        if steps < 1:
            raise UserError(
                f"{rows} rows x {self.num_train_epochs:g} epochs are less than one batch"
                f" of {batch}: lower --train_batch_size or --n_gpus, or raise"
                " --num_train_epochs"
            )
        return steps

    def warmup_of(self, steps: int) -> int:
        return int(steps * self.warmup_proportion)


@dataclasses.dataclass(frozen=True)
class FinetuneConfig(ClassificationFlags, FinetuneFlags):
    """All settings of run_classifier_mgpu.py. A new family adds its table as a base."""
