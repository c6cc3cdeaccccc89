"""What both training scripts refuse of their flags, before anything is loaded."""

from __future__ import annotations

from collections.abc import Sequence

from bert_mgpu.config.base import RunConfig
from bert_mgpu.core.errors import UserError

EXPORTS = "export_hf", "export_saved_model", "export_onnx"


def check_asked(config: RunConfig, needed: Sequence[str]) -> None:
    for name in (*needed, "output_dir"):
        if getattr(config, name) is None:
            raise UserError(f"--{name} is missing (--help lists all flags)")
    asked = "do_train", "do_eval", "do_predict", *EXPORTS
    if not any(getattr(config, name, None) for name in asked):
        raise UserError(
            "nothing to do: pass --do_train=true, --do_eval=true or --do_predict=true"
        )
    if config.allreduce_dtype == "bfloat16":
        raise UserError(
            "--allreduce_dtype=bfloat16: gloo, which carries what processes say to each"
            " other, has no such type: pass float16"
        )
    if config.plan and not config.do_train:
        raise UserError("--plan is of a training: pass --do_train=true as well")
    if config.predict_file and not config.do_predict:
        raise UserError("--predict_file is given: pass --do_predict=true as well")


def check_used(config: RunConfig, names: Sequence[str], needed: str) -> None:
    """A flag that would do nothing is a mistake. needed: what gives it a meaning."""
    for name in names:
        if name in config.given:
            raise UserError(f"--{name} does nothing without {needed}: pass both")
