"""The settings of a run: a table of flags, defaults and help for each script.

parsing.py parses command lines by these tables.
"""

from __future__ import annotations

import abc
import dataclasses
import os
from typing import Any, ClassVar

from bert_mgpu.core.activations import ACTIVATIONS
from bert_mgpu.core.files import STANDARD_INPUT

GROUPS = INPUT, TASK, MODEL, TRAIN, TEST, SPEED, FILES = (
    "Task and data",
    "What to do",
    "Model and text",
    "Training",
    "Evaluation and prediction",
    "Devices and speed",
    "Files and logs",
)


def flag(
    default: Any,
    group: str,
    text: str,
    *,
    identity: bool = False,
    remembered: bool = False,
    kept_with_task: bool = False,
    choices: tuple[str, ...] = (),
    minimum: float | None = None,
    maximum: float | None = None,
) -> Any:
    """A dataclass field that defines a flag; minimum and maximum bound its value.

    identity: a run cannot resume with another value; remembered: unless given, a later
    run of the trained model takes the value from run.json; kept_with_task: likewise,
    but only for predictions of the same task, see `Family.prediction_flags`.
    """
    metadata = {
        "group": group,
        "help": text,
        "identity": identity,
        "remembered": remembered,
        "kept_with_task": kept_with_task,
        "choices": choices,
        "minimum": minimum,
        "maximum": maximum,
    }
    return dataclasses.field(default=default, metadata=metadata)


@dataclasses.dataclass(frozen=True)
class FlagTable:
    """A script's settings: fields made by `flag`, whose names are flag names."""

    given: frozenset[str] = frozenset()  # the flags that the command line names
    # The flags that --help shows; if empty, it shows all.
    first: ClassVar[tuple[str, ...]] = ()
    # Whether Google's script of this name has TPU flags, which are then accepted.
    has_tpu_flags: ClassVar[bool] = False


@dataclasses.dataclass(frozen=True)
class WorkerFlags(FlagTable):
    """The flag of scripts that work in several processes."""

    workers: int = flag(
        0, SPEED, "number of processes; 0: one per core", minimum=0, maximum=1024
    )

    @property
    def processes(self) -> int:
        """The number of processes: by default one per core that this one may use."""
        # Not every system tells which cores those are.
        cores = getattr(os, "sched_getaffinity", lambda _: range(os.cpu_count() or 1))
        return self.workers or len(cores(0))


@dataclasses.dataclass(frozen=True)
class ModelFlags(FlagTable):
    """The flags that name a model: its weights, sizes, vocabulary and casing."""

    # fmt: off
    vocab_file: str | None = flag(None, MODEL, "WordPiece vocabulary, one token per line [beside the weights]")
    bert_config_file: str | None = flag(None, MODEL, "the model's bert_config.json [beside the weights]")
    init_checkpoint: str | None = flag(None, MODEL, "weights to start from: a Google TF1 checkpoint (prefix or folder), a Hugging Face folder or .safetensors file, or an output_dir of bert_mgpu")
    do_lower_case: bool = flag(True, MODEL, "lower-case and strip accents, as uncased models expect; false for cased models; not needed where a Hugging Face folder or an output_dir says which it is")
    hidden_act: str | None = flag(None, MODEL, "activation function, instead of the config's; gelu means gelu_tanh in Google's code, gelu_erf in Hugging Face's and bert-ad's", choices=ACTIVATIONS)
    # fmt: on


@dataclasses.dataclass(frozen=True)
class RunConfig(ModelFlags, abc.ABC):
    """The flags that both training scripts have. None means not given."""

    sampled_by: int | None = None  # the seed of samples, unless it is --seed
    # The generator of shuffles, samples and masks: "counters" (this project's own), or
    # "numpy" to resume a run that began with it: see
    # `identity.with_original_random_numbers`.
    random_numbers: str = "counters"
    has_tpu_flags: ClassVar[bool] = True
    # fmt: off
    output_dir: str | None = flag(None, TASK, "folder for everything the run writes; the same command resumes from it")
    do_train: bool = flag(False, TASK, "train; resumes the run in output_dir, if there is one")
    do_eval: bool = flag(False, TASK, "evaluate the model on the dev set")
    do_predict: bool = flag(False, TASK, "predict the test set, or --predict_file")

    plan: bool = flag(False, TASK, "with do_train: print what the run would do, the memory and time it would need, and what to change; do not train")

    max_seq_length: int = flag(128, MODEL, "tokens per row, [CLS] and [SEP] included; at most 512 and the model's max_position_embeddings; longer texts are truncated, or cut into windows", identity=True, remembered=True, minimum=3)

    n_gpus: int = flag(1, TRAIN, "number of towers (copies of the model), spread over the GPUs, or on the CPU; each adds its own examples to the batch", minimum=1, maximum=4096)
    train_batch_size: int = flag(32, TRAIN, "examples per tower and step; with accumulation, per tower and micro-batch", minimum=1, maximum=2**20)
    gradient_accumulation_steps: int = flag(1, TRAIN, "micro-batches of train_batch_size examples whose gradients each tower sums in a step; only one is in memory at a time", minimum=1, maximum=2**20)
    learning_rate: float = flag(5e-5, TRAIN, "peak learning rate", minimum=0)
    lr_scaling: str = flag("none", TRAIN, "multiply the learning rate by 1, sqrt(n_gpus) or n_gpus", choices=("none", "sqrt", "linear"))
    on_divergence: str = flag("stop", TRAIN, "when a loss or gradient is not finite: stop with exit code 3, or roll back to the newest checkpoint and go on with half the learning rate, three times at most", choices=("stop", "rollback"))
    layer_lr_decay: float = flag(1.0, TRAIN, "factor on the learning rate from each layer to the one below it; the head has the full rate", identity=True, minimum=0.01, maximum=1)
    head_lr_factor: float = flag(1.0, TRAIN, "factor on the learning rate of the weights outside BERT: the head and crf's scores", identity=True, minimum=0, maximum=1e5)
    lr_decay_power: float = flag(1.0, TRAIN, "the learning rate falls as (1 - step / steps) to this power; 1 is linear; 0.5 is common with LAMB", identity=True, minimum=0, maximum=10)
    optimizer: str = flag("adamw_google", TRAIN, "adamw_google is google-research/bert's AdamWeightDecay, without bias correction", identity=True, choices=("adamw_google", "adamw", "lamb", "adafactor", "lion"))
    weight_decay: float = flag(0.01, TRAIN, "decoupled weight decay, multiplied by the learning rate; not on biases and layer norms", identity=True, minimum=0, maximum=10)
    ema_decay: float = flag(0.0, TRAIN, "decay of a moving average of the weights (smaller in the first steps), which is then used to evaluate, predict and export; 0: no average", identity=True, minimum=0, maximum=0.999999)
    freeze: str | None = flag(None, TRAIN, "regular expression; parameters whose names match are not trained", identity=True)
    freeze_layers: str | None = flag(None, TRAIN, "parts that are not trained: embeddings, pooler, layers numbered from 0; e.g. embeddings,0-5", identity=True)
    seed: int = flag(42, TRAIN, "seed of the initial weights, shuffling, dropout and masks", identity=True, minimum=0, maximum=2**63 - 1)

    deterministic: bool = flag(False, TRAIN, "use only operations that give the same bits in every run, also on GPUs, where they are slower")

    eval_batch_size: int = flag(8, TEST, "examples per tower and evaluation step; unless given, at least 64 on GPUs", minimum=1, maximum=2**20)
    predict_batch_size: int | None = flag(None, TEST, "examples per tower and prediction step [eval_batch_size]", minimum=1, maximum=2**20)
    predict_file: str | None = flag(None, TEST, "file to predict, in the format of the task's test file; several, comma-separated; or - for standard input, predicted line by line to standard output")

    device: str = flag("auto", SPEED, "auto: the GPUs in CUDA_VISIBLE_DEVICES, or the CPU if there are none", choices=("auto", "cpu", "gpu"))
    cpu_devices: int = flag(1, SPEED, "split the CPU into N logical devices, to try out towers", minimum=1, maximum=1024)
    padding: str = flag("longest", SPEED, "max_length: pad to max_seq_length; longest: to the longest row of the batch; bucket: the same, in batches of similar length; pack: put several examples in a row; evaluation and prediction pack where that saves tokens", identity=True, choices=("max_length", "longest", "bucket", "pack"))
    precision: str = flag("float32", SPEED, "number format of the encoder's matrix products; weights, statistics, softmax and losses are always float32; tf32 rounds the inputs of products to 10 bits of mantissa and needs an NVIDIA card from 2020 or later", identity=True, choices=("float32", "tf32", "bfloat16", "float16"))
    slot_bits: str = flag("32", SPEED, "bits of the optimizer's moments; 8 quantises them in blocks, except for embeddings, with adamw_google, adamw and lamb", identity=True, choices=("32", "8"))
    recompute: str = flag("none", SPEED, "what to recompute in the backward pass instead of keeping it in memory: nothing, attention (its tensors of length x length), or whole layers", choices=("none", "attention", "block"))
    xla: str = flag("auto", SPEED, "compile the step with XLA; auto: on, except for bfloat16 on a CPU, where XLA is slower", choices=("auto", "on", "off"))

    allreduce_dtype: str = flag("float32", SPEED, "under horovodrun: number format in which gradients are sent; float16 halves the traffic; bfloat16 is refused, since gloo lacks it", identity=True, choices=("float32", "float16", "bfloat16"))
    peer_timeout: float = flag(600.0, SPEED, "under horovodrun: end the run if no process completes a step for this many seconds", minimum=1, maximum=1e6)

    save_checkpoints_steps: int = flag(1000, FILES, "steps between checkpoints", minimum=1)
    keep_checkpoint_max: int = flag(5, FILES, "keep the N newest checkpoints; 0 keeps all", minimum=0)
    cache_dir: str | None = flag(None, FILES, "folder for tokenized examples and indices of records [output_dir/cache]")
    export_hf: str | None = flag(None, FILES, "write the model to this folder in the format of Hugging Face's transformers")
    log_steps: int = flag(10, FILES, "record loss, learning rate and speed every N steps; the screen shows them every 10 seconds at most", minimum=1)
    mlflow: str | None = flag(None, FILES, "with do_train: log settings, curves, scores and the report in MLflow; the address of a server, such as http://localhost:5000, or a folder; needs the pip extra mlflow")
    tf_log: bool = flag(False, FILES, "show TensorFlow's own messages; otherwise they go to output_dir/tensorflow.log")
    # fmt: on

    @property
    def row_length(self) -> int:
        """The maximum number of tokens in a row."""
        return self.max_seq_length

    @property
    def longest_text(self) -> int:
        """Tokens of the longest text that is not truncated, with [CLS] and [SEP]."""
        return self.max_seq_length

    @property
    def length_in_words(self) -> str:
        """The maximum length in tokens, as messages show it."""
        return str(self.max_seq_length)

    @property
    def prediction_batch(self) -> int:
        """The rows per tower in a prediction step."""
        return self.predict_batch_size or self.eval_batch_size

    @property
    def predict_prints(self) -> str | None:
        """The given flag, if any, that prints its predictions, a few at a time."""
        return "predict_file=-" if self.predict_file == STANDARD_INPUT else None

    # The flag that makes the warm-up shorter.
    warmup_flag: ClassVar[str]

    @property
    def eval_every(self) -> int:
        """Training steps between evaluations; 0: no evaluation while training."""
        return 0

    @abc.abstractmethod
    def steps_of(self, rows: int, batch: int) -> int:
        """The number of optimizer steps of a run; batch: the effective batch size.

        Raises UserError if there are none.
        """

    @abc.abstractmethod
    def warmup_of(self, steps: int) -> int:
        """The number of the `steps` during which the learning rate rises."""


def fields(table: type[FlagTable]) -> list[dataclasses.Field[Any]]:
    """The fields that are flags, sorted by group."""
    flags = [field for field in dataclasses.fields(table) if field.metadata]
    return sorted(flags, key=lambda field: GROUPS.index(field.metadata["group"]))
