"""Vectors of texts by a model: google-research/bert's extract_features.py.

The vector of each token in the last four layers, as in its README:

  python extract_features.py --input_file=input.txt --output_file=output.jsonl \\
    --vocab_file=model/vocab.txt --bert_config_file=model/bert_config.json \\
    --init_checkpoint=model/bert_model.ckpt --layers=-1,-2,-3,-4 \\
    --max_seq_length=128 --batch_size=8

One vector for each line, on two GPUs (or on a CPU), as a numpy array:

  python extract_features.py --input_file=input.txt --output_file=vectors.npy \\
    --init_checkpoint=model --pooling=mean --normalize --n_gpus=2

A line is a text, or a pair as `a ||| b`. Exit codes: 0 done, 1 a bug in
bert_mgpu, 2 bad usage or data, 3 values that are no numbers, 4 out of memory,
75 stopped by SIGTERM, 130 Ctrl-C.
"""

from __future__ import annotations

import os
import pathlib
import sys
from collections.abc import Sequence

from bert_mgpu.cli import script
from bert_mgpu.cli.flag_checks import check_needed, check_outputs
from bert_mgpu.config.features import TOKENS, FeaturesConfig
from bert_mgpu.core import files, text_files
from bert_mgpu.core.errors import UserError, memory_advice
from bert_mgpu.core.files import STANDARD_INPUT, STANDARD_OUTPUT
from bert_mgpu.core.log import fact

# The flags of files that are read.
_READ = ("input_file", "vocab_file", "bert_config_file", "init_checkpoint")


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line; returns the exit code."""
    with script.redirect_native_stderr(pathlib.Path(os.devnull)):
        return script.run(
            sys.argv if argv is None else argv,
            str(__doc__),
            FeaturesConfig,
            work=_extract,
            output=lambda config: (
                pathlib.Path(str(config.output_file)),
                "output_file",
            ),
            memory_hint=memory_advice(False, ""),
            stopped="an unfinished output is not kept",
        )


def _extract(config: FeaturesConfig) -> None:
    check(config)
    import tensorflow as tf

    from bert_mgpu.distributed import devices
    from bert_mgpu.runs import extract_features

    tf.get_logger().setLevel("ERROR")
    names = devices.configure(
        config.device,
        config.cpu_devices,
        config.n_gpus,
        tf32=config.precision == "tf32",
    )
    warning = devices.missing_gpus(config.device, has_log=False)
    towers = devices.assign_towers(config.n_gpus, len(names))
    for remark in (
        *([warning] if warning else []),
        *devices.remarks(names, config.precision),
        devices.describe_placement(towers, names),
    ):
        fact("devices", remark)
    extractor = extract_features.load(config, names)
    extract_features.extract(config, extractor)


def check(config: FeaturesConfig) -> None:
    """Raises UserError for missing or contradictory flags and unusable files."""
    check_needed(config, ["input_file", "output_file", "init_checkpoint"])
    layers, output = config.layer_indices, str(config.output_file)
    pools = config.pooling != TOKENS
    if pools and len(layers) > 1:
        raise UserError(
            f"--layers={config.layers}: --pooling={config.pooling} takes one layer:"
            " leave the flag out for the last"
        )
    if config.normalize and not pools:
        raise UserError("--normalize does nothing without a --pooling: pass both")
    suffix = pathlib.Path(output).suffix.lower()
    if suffix in text_files.UNPACK:
        raise UserError(
            f"--output_file={output}: files are written unpacked: leave {suffix} out"
        )
    if suffix == ".npy" and not pools:
        raise UserError(
            f"--output_file={output}: .npy holds one vector for each line: pass a"
            " --pooling, such as mean, or a name that ends in .npz"
        )
    if suffix == ".npz" and pools:
        raise UserError(
            f"--output_file={output}: .npz holds vectors of tokens: pass"
            " --pooling=none, or a name that ends in .npy"
        )
    if "output_dtype" in config.given and suffix not in (".npy", ".npz"):
        raise UserError(
            f"--output_dtype={config.output_dtype}: JSON has no such types: pass an"
            " --output_file that ends in .npy or .npz"
        )
    if config.input_file != STANDARD_INPUT:
        text_files.check_file(str(config.input_file))
    if output != STANDARD_OUTPUT:
        named = {name: getattr(config, name) for name in _READ}
        inputs = [(name, str(file)) for name, file in named.items() if file]
        check_outputs([("output_file", output)], inputs)
        files.check_writable(pathlib.Path(output), "output_file")


if __name__ == "__main__":
    sys.exit(main())
