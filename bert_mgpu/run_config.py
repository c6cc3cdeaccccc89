"""The settings of a run: a table of flags, defaults and help for each script.

flags.py makes the command lines from them. `identity` marks what a run cannot
change when it resumes; everything else is free.
"""

from __future__ import annotations

import abc
import dataclasses
from typing import Any

GROUPS = INPUT, TASK, MODEL, TRAIN, TEST, SPEED, FILES = (
    "Task and data",
    "What to do",
    "Model and text",
    "Training",
    "Evaluation and prediction",
    "Devices and speed",
    "Files and logs",
)


def _flag(
    default: Any,
    group: str,
    text: str,
    *,
    identity: bool = False,
    choices: tuple[str, ...] = (),
    least: float | None = None,
    most: float | None = None,
) -> Any:
    metadata = {
        "group": group,
        "help": text,
        "identity": identity,
        "choices": choices,
        "least": least,
        "most": most,
    }
    return dataclasses.field(default=default, metadata=metadata)


@dataclasses.dataclass(frozen=True)
class Table:
    """A script's settings: fields made by `_flag`, whose names are flag names."""

    given: frozenset[str] = frozenset()  # the flags that the command line names


@dataclasses.dataclass(frozen=True)
class RunConfig(Table, abc.ABC):
    """What both training scripts have. None means not given."""

    sampled_by: int | None = None  # the seed of samples, if not --seed
    # What rows are shuffled, sampled and masked by: "counters" of our own, or "numpy",
    # by which runs began before there were these (see `starting.as_begun`).
    random_numbers: str = "counters"
    # fmt: off
    output_dir: str | None = _flag(None, TASK, "folder for everything the run leaves; the same command resumes from it")
    do_train: bool = _flag(False, TASK, "train; resumes by itself where output_dir holds a run")
    do_eval: bool = _flag(False, TASK, "measure the model on the dev set")
    do_predict: bool = _flag(False, TASK, "predict the test set, or --predict_file")

    plan: bool = _flag(False, TASK, "with do_train: print what the run would do, need and take, and what to change; train nothing")

    vocab_file: str | None = _flag(None, MODEL, "WordPiece vocabulary, one token a line")
    bert_config_file: str | None = _flag(None, MODEL, "model sizes, bert_config.json")
    init_checkpoint: str | None = _flag(None, MODEL, "weights to start from: a Google TF1 checkpoint (prefix or folder), a Hugging Face folder or .safetensors file, or a run of ours")
    do_lower_case: bool = _flag(True, MODEL, "fold case and accents, as uncased models want; false for cased models")
    max_seq_length: int = _flag(128, MODEL, "tokens of a row with [CLS] and [SEP], at most 512 and the model's positions; longer rows are truncated", identity=True, least=3)
    hidden_act: str | None = _flag(None, MODEL, "overrides the config's activation: Google's gelu is gelu_tanh, Hugging Face's and bert-ad's is gelu_erf", choices=("gelu_tanh", "gelu_erf", "relu", "tanh", "linear"))

    n_gpus: int = _flag(1, TRAIN, "towers: each takes train_batch_size rows of every step, on GPUs or on a CPU", least=1, most=4096)
    train_batch_size: int = _flag(32, TRAIN, "rows of a step per tower", least=1, most=2**20)
    gradient_accumulation_steps: int = _flag(1, TRAIN, "a tower's rows of a step are so many times train_batch_size, taken one batch after the other in the memory of one", least=1, most=2**20)
    learning_rate: float = _flag(5e-5, TRAIN, "peak of the learning rate", least=0)
    lr_scaling: str = _flag("none", TRAIN, "multiplies the learning rate by 1, sqrt(n_gpus) or n_gpus", choices=("none", "sqrt", "linear"))
    layer_lr_decay: float = _flag(1.0, TRAIN, "factor of the learning rate from each layer to the one below; the head has the full rate", identity=True, least=0.01, most=1)
    lr_decay_power: float = _flag(1.0, TRAIN, "the learning rate falls as (1 - step / steps) to this power; 1 is linear, LAMB is often run with 0.5", identity=True, least=0, most=10)
    optimizer: str = _flag("adamw_google", TRAIN, "google-research/bert's AdamWeightDecay, which has no bias correction, or another", identity=True, choices=("adamw_google", "adamw", "lamb", "adafactor", "lion"))
    weight_decay: float = _flag(0.01, TRAIN, "of all weights but biases and layer norms, times the learning rate in each step", identity=True, least=0, most=10)
    ema_decay: float = _flag(0.0, TRAIN, "keep a moving average of the weights with this decay (less in the first steps) and use it to evaluate, predict and export; 0 keeps none", identity=True, least=0, most=0.999999)
    freeze: str | None = _flag(None, TRAIN, "regular expression: parameters whose names match are not trained", identity=True)
    freeze_layers: str | None = _flag(None, TRAIN, "parts that are not trained: embeddings, pooler, layers from 0, e.g. embeddings,0-5", identity=True)
    seed: int = _flag(42, TRAIN, "of the first weights, the shuffling, dropout and masks", identity=True, least=0, most=2**63 - 1)

    deterministic: bool = _flag(False, TRAIN, "only operations that give the same bits in every run, on GPUs too; slower there")

    eval_batch_size: int = _flag(8, TEST, "rows of an evaluation step per tower; on GPUs 64 of them are worked out at once if the flag is not given", least=1, most=2**20)
    predict_batch_size: int | None = _flag(None, TEST, "rows of a prediction step per tower [eval_batch_size]", least=1, most=2**20)
    predict_file: str | None = _flag(None, TEST, "file to predict, in the format of the task's test file; several, separated by commas; or -, which is standard input, predicted to standard output as it comes")

    device: str = _flag("auto", SPEED, "auto takes the GPUs of CUDA_VISIBLE_DEVICES, else the CPU", choices=("auto", "cpu", "gpu"))
    cpu_devices: int = _flag(1, SPEED, "splits the CPU into so many logical devices, to try out towers", least=1, most=1024)
    padding: str = _flag("longest", SPEED, "how rows of unequal length share a batch: padded to max_seq_length, to the longest of the batch, that with batches of like length, or several packed into a row; evaluation and prediction pack where that saves tokens", identity=True, choices=("max_length", "longest", "bucket", "pack"))
    precision: str = _flag("float32", SPEED, "what the products of the encoder are computed in; weights, statistics, softmax and losses are float32 always; tf32 is float32 with products of 10 bits on NVIDIA cards from 2020 on", identity=True, choices=("float32", "tf32", "bfloat16", "float16"))
    slot_bits: str = _flag("32", SPEED, "bits of the optimizer's moments; 8 quantises those of adamw_google, adamw and lamb in blocks, embeddings excepted", identity=True, choices=("32", "8"))
    recompute: str = _flag("none", SPEED, "what a training step works out twice instead of keeping it in memory: nothing, attention (all of length x length), or whole layers", choices=("none", "attention", "block"))
    xla: str = _flag("auto", SPEED, "compile the step with XLA; auto is on, but for bfloat16 on a CPU, where it is slower", choices=("auto", "on", "off"))

    allreduce_dtype: str = _flag("float32", SPEED, "between processes (horovodrun): what gradients are sent in; float16 halves the bytes, bfloat16 is refused, since gloo has none", identity=True, choices=("float32", "float16", "bfloat16"))
    peer_timeout: float = _flag(600.0, SPEED, "between processes (horovodrun): seconds without a step of any of them after which the run ends", least=1, most=1e6)

    save_checkpoints_steps: int = _flag(1000, FILES, "steps between checkpoints", least=1)
    keep_checkpoint_max: int = _flag(5, FILES, "newest checkpoints to keep; 0 keeps all", least=0)
    cache_dir: str | None = _flag(None, FILES, "folder for tokenized rows and for indices of records [output_dir/cache]")
    export_hf: str | None = _flag(None, FILES, "write the model to this folder as Hugging Face's transformers reads it")
    log_steps: int = _flag(10, FILES, "steps between two records of loss, learning rate and speed", least=1)
    tf_log: bool = _flag(False, FILES, "show TensorFlow's own messages; else they go to output_dir/tensorflow.log")
    # fmt: on

    @property
    def prediction_batch(self) -> int:
        return self.predict_batch_size or self.eval_batch_size

    @property
    def eval_every(self) -> int:
        """Steps of a training between evaluations; 0: none."""
        return 0

    @abc.abstractmethod
    def steps_of(self, rows: int, batch: int) -> int:
        """Optimizer steps of a run over so many rows; `batch` is the effective one."""

    @abc.abstractmethod
    def warmup_of(self, steps: int) -> int:
        """How many of the steps the learning rate rises in."""


@dataclasses.dataclass(frozen=True)
class FinetuneConfig(RunConfig):
    """The settings of run_classifier_mgpu.py."""

    # fmt: off
    task_name: str | None = _flag(None, INPUT, "a built-in task, or the name of your own: then data_dir holds a task.json", identity=True)
    data_dir: str | None = _flag(None, INPUT, "folder with the task's files, and with task.json")
    train_file: str | None = _flag(None, INPUT, "your own task: its file to train on; this and what follows may stand in task.json")
    dev_file: str | None = _flag(None, INPUT, "your own task: its file for --do_eval")
    test_file: str | None = _flag(None, INPUT, "your own task: its file for --do_predict [dev_file]")
    file_format: str | None = _flag(None, INPUT, "your own task: tsv, csv, jsonl or parquet [by the file's name, else tsv]")
    header: bool | None = _flag(None, INPUT, "your own task: the first line of a TSV or CSV file names its columns [true where a column is named]")
    encoding: str | None = _flag(None, INPUT, "your own task: encoding of its files: utf-8, gb18030, gbk, big5 and others [utf-8]")
    text_a_column: str | None = _flag(None, INPUT, "your own task: column of the text: its name, or its number from 0; -1 is the last")
    text_b_column: str | None = _flag(None, INPUT, "your own task: column of a second text")
    label_column: str | None = _flag(None, INPUT, "your own task: column of the label")
    id_column: str | None = _flag(None, INPUT, "your own task: column that names a row in predictions.jsonl")
    labels: str | None = _flag(None, INPUT, "your own task: its labels in the order of the classes, separated by commas [those of the training file, sorted]")
    task_type: str | None = _flag(None, INPUT, "your own task: single label, multi labels, or regression of a number [single]")
    label_separator: str | None = _flag(None, INPUT, "your own task of the type multi: what stands between the labels of a row [,]")
    truncation: str = _flag("head", MODEL, "which part of a long text is kept; pairs lose the end of the longer text", identity=True, choices=("head", "tail", "head_tail"))
    head_tokens: int = _flag(128, MODEL, "tokens kept from the head with --truncation=head_tail", identity=True, least=0)
    classifier_dropout: float | None = _flag(None, MODEL, "dropout before the classifier [the config's hidden_dropout_prob]", identity=True, least=0, most=0.99)
    num_train_epochs: float = _flag(3.0, TRAIN, "passes over the training set; more of them continue a finished run", least=0, most=1e6)
    seeds: int = _flag(1, TRAIN, "train so many times, with seed, seed + 1 and so on, each in a folder of output_dir, and tell mean and deviation of the scores", least=1, most=1000)
    warmup_proportion: float = _flag(0.1, TRAIN, "share of the steps in which the learning rate rises from 0", identity=True, least=0, most=1)
    class_weights: str | None = _flag(None, TRAIN, "what rows of each label count in the loss: balanced, for rare labels more, or a file of lines label TAB weight", identity=True)
    focal_gamma: float = _flag(0.0, TRAIN, "focal loss: each row's loss times (1 - probability of its label) to this power, so that hard rows count more; often 2", identity=True, least=0, most=10)
    max_train_examples: int | None = _flag(None, TRAIN, "train on a seeded sample of so many rows [all]", identity=True, least=1)
    eval_files: str | None = _flag(None, TEST, "other labelled files, in the format of the dev file, to evaluate beside it: NAME=FILE, separated by commas")
    eval_steps: int | None = _flag(None, TEST, "with do_train: steps between evaluations of the dev set and of eval_files; the last step has one too [none]", least=1)
    best_metric: str | None = _flag(None, TEST, "score of the dev set by which output_dir/best keeps the weights of the best evaluation: eval_accuracy, of several labels micro_f1, of a number eval_loss, or any other")
    use_best: bool = _flag(False, TEST, "evaluate, predict and export with the weights of output_dir/best instead of the last ones")
    early_stopping_patience: int | None = _flag(None, TEST, "the training ends after so many evaluations without a better best_metric [never]", least=1)
    report: bool = _flag(True, TEST, "write output_dir/report.html about the training and the evaluation, and its pictures to output_dir/report")
    threshold: str | None = _flag(None, TEST, "probability from which a row has a label: any label of a task of the type multi, where it else is a half; the second of two, where it else is the likelier one; a number, or a file of lines label TAB number")
    max_eval_examples: int | None = _flag(None, TEST, "evaluate on a seeded sample of so many rows [all]", least=1)
    max_predict_examples: int | None = _flag(None, TEST, "predict a seeded sample of so many rows [all]", least=1)
    export_saved_model: str | None = _flag(None, FILES, "write the model to this folder as a SavedModel that takes raw texts, for TensorFlow Serving")
    export_onnx: str | None = _flag(None, FILES, "write the model to this folder as an ONNX model that takes ids; needs the extra onnx")
    # fmt: on

    @property
    def eval_every(self) -> int:
        return self.eval_steps or 0

    def steps_of(self, rows: int, batch: int) -> int:
        """Rounded down as bert-ad does. Batches run on across the ends of epochs, so
        every row is seen; only the very last part of a batch is not.
        """
        return int(rows / batch * self.num_train_epochs)

    def warmup_of(self, steps: int) -> int:
        return int(steps * self.warmup_proportion)


@dataclasses.dataclass(frozen=True)
class PretrainConfig(RunConfig):
    """The settings of run_pretraining_mgpu.py."""

    # fmt: off
    input_file: str | None = _flag(None, INPUT, "records to train on, as data_prep/create_pretraining_data.py makes them: names, globs and folders (all their *.tfrecord), comma-separated")
    eval_input_file: str | None = _flag(None, INPUT, "other records to evaluate on [input_file]")
    skip_bad_records: bool = _flag(False, INPUT, "leave damaged records out, counted, instead of ending with an error", identity=True)
    max_predictions_per_seq: int = _flag(20, INPUT, "masked tokens of a row at most; as the records were made", identity=True, least=1, most=4096)
    dynamic_masking: bool = _flag(False, INPUT, "records hold no masks (--dynamic_masking of create_pretraining_data.py): draw others in every epoch", identity=True)
    masking: str = _flag("token", INPUT, "what dynamic masking masks: tokens (whole words where the records say which), geometric spans of them, or a span of the second text as long as the first", identity=True, choices=("token", "span", "infill"))
    masked_lm_prob: float = _flag(0.15, INPUT, "share of the tokens that dynamic masking masks", identity=True, least=0.001, most=0.9)

    do_eval: bool = _flag(False, TASK, "measure the model on the records of eval_input_file")
    do_predict: bool = _flag(False, TASK, "score the lines of --predict_file by pseudo-perplexity")
    max_seq_length: int = _flag(128, MODEL, "tokens of a row, [CLS] and [SEP] included; as the records were made", identity=True, least=3)

    num_train_steps: int = _flag(100000, TRAIN, "optimizer steps; more of them continue a finished run", least=1)
    num_warmup_steps: int = _flag(10000, TRAIN, "steps in which the learning rate rises from 0", identity=True, least=0)
    max_eval_steps: int = _flag(100, TEST, "evaluation steps at most: the first rows of the records", least=1)
    predict_file: str | None = _flag(None, TEST, "text file to score, one sentence a line")
    # fmt: on

    def steps_of(self, rows: int, batch: int) -> int:
        return self.num_train_steps

    def warmup_of(self, steps: int) -> int:
        return self.num_warmup_steps


def fields(table: type[Table]) -> list[dataclasses.Field]:
    """The fields that are flags, those of a group together."""
    flags = [field for field in dataclasses.fields(table) if field.metadata]
    return sorted(flags, key=lambda field: GROUPS.index(field.metadata["group"]))
