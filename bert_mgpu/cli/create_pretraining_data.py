"""Makes records for run_pretraining_mgpu.py from raw text.

The text has one sentence per line and blank lines between documents. To make
masked pairs of texts, as google-research/bert does:

  python data_prep/create_pretraining_data.py --input_file='corpus/*.txt.xz' \\
    --output_file=data/train.tfrecord --vocab_file=model/vocab.txt \\
    --max_seq_length=128 --max_predictions_per_seq=20 --dupe_factor=5

To make rows of whole documents for masks that are drawn anew in every epoch
and cover whole Chinese words:

  python data_prep/create_pretraining_data.py --input_file=corpus.txt \\
    --output_file=data/train.tfrecord --vocab_file=model/vocab.txt \\
    --objective=documents --dynamic_masking=true --segmenter=jieba

After a stop, the same command resumes. Exit codes: 0 done, 1 a bug in
bert_mgpu, 2 bad usage or data, 4 out of memory, 75 stopped by SIGTERM,
130 Ctrl-C.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence

from bert_mgpu.cli import script
from bert_mgpu.cli.flag_checks import check_casing, check_needed, check_outputs
from bert_mgpu.config.base import fields
from bert_mgpu.config.preparation import PreparationConfig
from bert_mgpu.core import text_files
from bert_mgpu.core.errors import UserError
from bert_mgpu.core.log import say
from bert_mgpu.data_prep import corpus, instances, prepare
from bert_mgpu.data_prep.tokenized import Preparation

# These flags have no effect if masks are drawn during training.
_MASK_FLAGS = ("dupe_factor", "masking", "masked_lm_prob", "max_predictions_per_seq")


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line; returns the exit code."""
    return script.run(
        sys.argv if argv is None else argv,
        str(__doc__),
        PreparationConfig,
        work=_prepare,
        output=lambda config: (config.outputs[0], "output_file"),
        memory_hint="pass a smaller --workers",
        stopped="run the same command again to resume from the finished parts",
    )


def _prepare(config: PreparationConfig) -> None:
    _check_flags(config)
    files = corpus.find_files(str(config.input_file), config.root_data_path, pipe=True)
    _check_outputs(config, files)
    if config.dynamic_masking:
        for line in _remarks(config.given, config.objective):
            say(line)
    preparation = _preparation(config)
    settings = {
        field.name: getattr(config, field.name)
        for field in fields(PreparationConfig)
        if field.name not in ("output_file", "workers")
    }
    settings["vocab_file"] = os.path.abspath(str(config.vocab_file))
    began = time.perf_counter()
    totals = prepare.prepare(
        preparation, files, config.outputs, workers=config.processes, settings=settings
    )
    for line in totals.report(preparation, time.perf_counter() - began):
        say(line)


def _check_flags(config: PreparationConfig) -> None:
    check_needed(config, ["input_file", "output_file", "vocab_file"])
    least = instances.SHORTEST[config.objective]
    if config.max_seq_length < least:
        raise UserError(
            f"--max_seq_length={config.max_seq_length}: --objective={config.objective}"
            f" needs at least {least}"
        )
    if "slice_name" in config.given and not config.root_data_path:
        raise UserError("--slice_name does nothing without --root_data_path: pass both")
    if config.root_data_path and not config.slice_name:
        raise UserError("--slice_name is empty: pass a name, or leave the flag out")
    if "short_seq_prob" in config.given and config.objective in ("mlm", "infill"):
        raise UserError(
            f"--short_seq_prob: --objective={config.objective} makes each line a row:"
            " leave the flag out"
        )
    if config.user_dict and config.segmenter != "jieba":
        raise UserError("--user_dict is for jieba: pass --segmenter=jieba as well")
    for name in ("masking", "masked_lm_prob"):
        if config.objective == "infill" and name in config.given:
            raise UserError(
                f"--{name}: --objective=infill masks a span of the ad as long as the"
                " phrase: leave the flag out"
            )
    text_files.check_file(str(config.vocab_file))
    check_casing(config.given, config.do_lower_case, str(config.vocab_file))


def _check_outputs(config: PreparationConfig, files: Sequence[str]) -> None:
    outputs = config.outputs
    inputs = [("input_file", file) for file in files]
    for flag in ("vocab_file", "user_dict"):
        inputs += [(flag, path)] if (path := getattr(config, flag)) else []
    check_outputs([("output_file", str(output)) for output in outputs], inputs)
    for output in outputs:
        try:
            output.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(
                f"--output_file: cannot write {output}: {error.strerror}: pass another"
                " name"
            ) from None
    if not outputs:
        raise UserError("--output_file names no file: pass one")


def _remarks(given: frozenset[str], objective: str) -> list[str]:
    """Notes on surprising effects of --dynamic_masking, one line each."""
    lines = ["--dynamic_masking: the text is made into rows once, without masks"]
    if names := [name for name in _MASK_FLAGS if name in given]:
        listed = ", ".join(f"--{name}" for name in names)
        lines.append(f"{listed}: without effect here: masks are drawn while training")
    if objective == "infill":
        lines.append("to train on them: run_pretraining_mgpu.py --masking=infill")
    return lines


def _preparation(config: PreparationConfig) -> Preparation:
    masking = "infill" if config.objective == "infill" else config.masking
    first = config.outputs[0]
    return Preparation(
        folder=first.with_name(f"{first.name}.parts"),
        vocab_file=str(config.vocab_file),
        do_lower_case=config.do_lower_case,
        objective=config.objective,
        masking=None if config.dynamic_masking else masking,
        whole_words=config.do_whole_word_mask or config.segmenter == "jieba",
        segmenter=config.segmenter,
        user_dict=config.user_dict,
        max_seq_length=config.max_seq_length,
        max_predictions_per_seq=config.max_predictions_per_seq,
        masked_lm_prob=config.masked_lm_prob,
        short_seq_prob=config.short_seq_prob,
        repeats=1 if config.dynamic_masking else config.dupe_factor,
        seed=config.random_seed,
    )


if __name__ == "__main__":
    sys.exit(main())
