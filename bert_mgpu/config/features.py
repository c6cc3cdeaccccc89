"""The settings of extract_features.py: Google's flags and defaults, and others."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from bert_mgpu.config.base import FILES, INPUT, MODEL, SPEED, TASK, ModelFlags, flag
from bert_mgpu.core.errors import UserError

TOKENS = "none"  # the pooling that keeps a vector for each token

POOLINGS = "mean", "cls", "max", "pooler"  # see model/pooling.py; the default first


@dataclasses.dataclass(frozen=True)
class FeaturesConfig(ModelFlags):
    """All settings of extract_features.py."""

    has_tpu_flags: ClassVar[bool] = True

    # fmt: off
    input_file: str | None = flag(None, INPUT, "text, one per line, or a pair with three vertical bars between its texts; .gz and .xz are unpacked; - for standard input")
    output_file: str | None = flag(None, INPUT, "file to write; its extension sets the format: .npz vectors of tokens, .npy vectors of lines, anything else JSON lines; - for standard output")

    layers: str = flag("-1,-2,-3,-4", TASK, "layers to output, comma-separated: 0 is the first, -1 the last; with --pooling a single one, -1 by default")
    pooling: str = flag(TOKENS, TASK, "one vector for each line: that of [CLS], the mean or the maximum over its tokens, or BERT's pooled output; none: a vector for each token", choices=(TOKENS, *POOLINGS))
    normalize: bool = flag(False, TASK, "with --pooling: scale vectors to length 1, so that their dot products are cosines")

    init_checkpoint: str | None = flag(None, MODEL, "the model: a Google TF1 checkpoint (prefix or folder), a Hugging Face folder or .safetensors file, or an output_dir of bert_mgpu")
    max_seq_length: int = flag(128, MODEL, "maximum number of tokens per line, [CLS] and [SEP] included; longer lines are truncated", minimum=3)

    batch_size: int = flag(32, SPEED, "lines per tower at a time", minimum=1, maximum=2**20)
    n_gpus: int = flag(1, SPEED, "number of towers (copies of the model), spread over the GPUs, or on the CPU", minimum=1, maximum=4096)
    device: str = flag("auto", SPEED, "auto: the GPUs in CUDA_VISIBLE_DEVICES, or the CPU if there are none", choices=("auto", "cpu", "gpu"))
    cpu_devices: int = flag(1, SPEED, "split the CPU into N logical devices, to try out towers", minimum=1, maximum=1024)
    precision: str = flag("float32", SPEED, "number format of the encoder's matrix products", choices=("float32", "tf32", "bfloat16", "float16"))

    output_dtype: str = flag("float32", FILES, "number format of the values in .npy and .npz", choices=("float32", "float16"))
    # fmt: on

    @property
    def layer_indices(self) -> tuple[int, ...]:
        """The values of --layers; with pooling, -1 by default. Raises UserError."""
        text = self.layers or ""  # None after --layers=
        if self.pooling != TOKENS and "layers" not in self.given:
            text = "-1"
        try:
            return tuple(int(part) for part in text.split(","))
        except ValueError:
            raise UserError(
                f"--layers={text}: pass whole numbers, comma-separated, such as -1,-2"
            ) from None
