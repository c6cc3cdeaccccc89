"""Writes a model as another program reads it: python -m bert_mgpu.convert FLAGS

  python -m bert_mgpu.convert --init_checkpoint=model/bert_model.ckpt \\
    --export_hf=model_hf --input_file=texts.txt
  python -m bert_mgpu.convert --init_checkpoint=model_hf --export_google=model_tf1

--init_checkpoint is a checkpoint of google-research/bert or of bert_mgpu, or a folder
of Hugging Face. What was written is read again and compared, on lines of --input_file.
Exit codes: 0 done; 1 what was written differs; 2 wrong flags, or no model.
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
import sys
from collections.abc import Sequence

from bert_mgpu import command
from bert_mgpu.config import ACTIVATIONS
from bert_mgpu.errors import RunError, UserError
from bert_mgpu.run_config import INPUT, MODEL, TASK, Table, _flag


@dataclasses.dataclass(frozen=True)
class ConvertConfig(Table):
    """The settings of python -m bert_mgpu.convert."""

    init_checkpoint: str | None = _flag(
        None,
        MODEL,
        "the model: a checkpoint's name without .index, an output_dir, or a folder of"
        " Hugging Face",
    )
    bert_config_file: str | None = _flag(None, MODEL, "[beside the model]")
    vocab_file: str | None = _flag(None, MODEL, "[beside the model]")
    do_lower_case: bool = _flag(
        True, MODEL, "fold case and accents, as uncased models want; false for cased"
    )
    hidden_act: str | None = _flag(
        None, MODEL, "activation instead of the config's", choices=ACTIVATIONS
    )
    export_hf: str | None = _flag(
        None, TASK, "write to this folder as Hugging Face's transformers reads it"
    )
    export_google: str | None = _flag(
        None,
        TASK,
        "write to this folder as google-research/bert reads it, and bert_mgpu",
    )
    input_file: str | None = _flag(
        None,
        INPUT,
        "text whose first 64 lines are compared; without it: rows of tokens drawn at"
        " random",
    )


def main(argv: Sequence[str]) -> int:
    """The command line -> the exit code."""
    with command.apart(pathlib.Path(os.devnull)):
        return command.run(
            *(argv, str(__doc__), ConvertConfig),
            *(_convert, _explained, "what is not yet written is not there"),
        )


def _explained(run: ConvertConfig, error: Exception) -> RunError | None:
    flag = "export_hf" if run.export_hf else "export_google"
    output = pathlib.Path(getattr(run, flag) or "")
    return command.explain(error, output, flag, "use a larger machine")


def _convert(run: ConvertConfig) -> None:
    """TensorFlow is loaded when the flags are known to be right."""
    if run.init_checkpoint is None:
        raise UserError("--init_checkpoint is missing (--help lists all flags)")
    if not (run.export_hf or run.export_google):
        raise UserError("nothing to do: pass --export_hf or --export_google")
    from bert_mgpu import converting

    converting.convert(run)


if __name__ == "__main__":
    sys.exit(main(sys.argv))
