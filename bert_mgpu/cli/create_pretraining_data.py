"""Makes records for run_pretraining_mgpu.py from raw text.

The text has one sentence a line and blank lines between documents. Pairs of
texts with masks, as google-research/bert makes them:

  python data_prep/create_pretraining_data.py --input_file='corpus/*.txt.xz' \\
    --output_file=data/train.tfrecord --vocab_file=model/vocab.txt \\
    --max_seq_length=128 --max_predictions_per_seq=20 --dupe_factor=5

Documents for masks that are drawn anew in every epoch, whole Chinese words:

  python data_prep/create_pretraining_data.py --input_file=corpus.txt \\
    --output_file=data/train.tfrecord --vocab_file=model/vocab.txt \\
    --objective=documents --dynamic_masking=true --segmenter=jieba

The same command goes on where a stopped one was. Exit codes: 0 done, 1 our
fault, 2 bad usage or data, 4 out of memory, 75 stopped by SIGTERM, 130 Ctrl-C.
"""

from __future__ import annotations

import os
import pathlib
import sys
import time
from collections.abc import Sequence

from bert_mgpu.cli import process
from bert_mgpu.config.base import fields
from bert_mgpu.config.preparation import PreparationConfig
from bert_mgpu.core import text_files
from bert_mgpu.core.errors import RunError, UserError
from bert_mgpu.data_prep import corpus, instances, prepare
from bert_mgpu.data_prep.prepare import say
from bert_mgpu.data_prep.tokenized import Job

# Have no effect where masks are drawn while training.
_OF_MASKS = ("dupe_factor", "masking", "masked_lm_prob", "max_predictions_per_seq")


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line; returns the exit code."""

    def explained(run: PreparationConfig, error: Exception) -> RunError | None:
        fewer = "pass a smaller --workers"
        return process.explain(error, run.outputs[0], "output_file", fewer)

    stopped = "the same command goes on from its parts"
    argv = sys.argv if argv is None else argv
    usage = str(__doc__)
    return process.run(argv, usage, PreparationConfig, _prepare, explained, stopped)


def _prepare(run: PreparationConfig) -> None:
    _check_flags(run)
    files = corpus.find_files(str(run.input_file), run.root_data_path)
    _check_outputs(run.outputs, files)
    for line in _remarks(run):
        say(line)
    job = _job(run)
    settings = {
        field.name: getattr(run, field.name)
        for field in fields(PreparationConfig)
        if field.name not in ("output_file", "workers")
    }
    settings["vocab_file"] = os.path.abspath(str(run.vocab_file))
    began = time.perf_counter()
    totals = prepare.prepare(job, files, run.outputs, run.processes, settings)
    for line in totals.report(job, time.perf_counter() - began):
        say(line)


def _check_flags(run: PreparationConfig) -> None:
    for name in ("input_file", "output_file", "vocab_file"):
        if getattr(run, name) is None:
            raise UserError(f"--{name} is missing (--help lists all flags)")
    least = instances.SHORTEST[run.objective]
    if run.max_seq_length < least:
        raise UserError(
            f"--max_seq_length={run.max_seq_length}: --objective={run.objective} needs"
            f" at least {least}"
        )
    if "slice_name" in run.given and not run.root_data_path:
        raise UserError("--slice_name is of --root_data_path: pass both")
    if "short_seq_prob" in run.given and run.objective in ("mlm", "infill"):
        raise UserError(
            f"--short_seq_prob: --objective={run.objective} makes each line a row:"
            " leave the flag out"
        )
    if run.user_dict and run.segmenter != "jieba":
        raise UserError("--user_dict is for jieba: pass --segmenter=jieba as well")
    if run.objective == "infill" and "masking" in run.given:
        raise UserError(
            "--masking: --objective=infill masks a span of the ad as long as the"
            " phrase: leave the flag out"
        )
    text_files.check_file(str(run.vocab_file))


def _check_outputs(outputs: Sequence[pathlib.Path], files: Sequence[str]) -> None:
    inputs = {os.path.realpath(file) for file in files}
    seen = set()
    for output in outputs:
        place = os.path.realpath(output)
        if output.is_dir():
            raise UserError(f"--output_file: {output} is a directory: pass a file")
        if place in inputs:
            raise UserError(
                f"--output_file: {output} is an input too, and would be lost: pass"
                " another name"
            )
        if place in seen:
            raise UserError(f"--output_file: {output} stands there twice")
        seen.add(place)
        try:
            output.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(
                f"--output_file: cannot write {output}: {error.strerror}: pass another"
                " name"
            ) from None
    if not outputs:
        raise UserError("--output_file names no file: pass one")


def _remarks(run: PreparationConfig) -> list[str]:
    """What a setting does that no one might expect."""
    if not run.dynamic_masking:
        return []
    lines = ["--dynamic_masking: the text is made into rows once, without masks"]
    if names := [name for name in _OF_MASKS if name in run.given]:
        listed = ", ".join(f"--{name}" for name in names)
        lines.append(f"{listed}: without effect here: masks are drawn while training")
    if run.objective == "infill":
        lines.append("to train on them: run_pretraining_mgpu.py --masking=infill")
    return lines


def _job(run: PreparationConfig) -> Job:
    masking = "infill" if run.objective == "infill" else run.masking
    first = run.outputs[0]
    return Job(
        folder=first.with_name(f"{first.name}.parts"),
        vocab_file=str(run.vocab_file),
        do_lower_case=run.do_lower_case,
        objective=run.objective,
        masking=None if run.dynamic_masking else masking,
        whole_words=run.do_whole_word_mask or run.segmenter == "jieba",
        segmenter=run.segmenter,
        user_dict=run.user_dict,
        max_seq_length=run.max_seq_length,
        max_predictions_per_seq=run.max_predictions_per_seq,
        masked_lm_prob=run.masked_lm_prob,
        short_seq_prob=run.short_seq_prob,
        repeats=1 if run.dynamic_masking else run.dupe_factor,
        seed=run.random_seed,
    )


if __name__ == "__main__":
    sys.exit(main())
