"""The settings of data_prep/create_pretraining_data.py, and what a run of it says."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import time
from collections.abc import Sequence

from bert_mgpu import command
from bert_mgpu.data import readers
from bert_mgpu.errors import RunError, UserError
from bert_mgpu.preparing import corpus, making
from bert_mgpu.preparing.making import say
from bert_mgpu.preparing.tokenized import Job
from bert_mgpu.run_config import INPUT, MODEL, SPEED, TASK, Table, _flag, fields
from bert_mgpu.text import instances

# Have no effect where masks are drawn while training.
_OF_MASKS = ("dupe_factor", "masking", "masked_lm_prob", "max_predictions_per_seq")


@dataclasses.dataclass(frozen=True)
class PreparationConfig(Table):
    """Google's names, defaults and meanings, bert-ad's, and ours."""

    input_file: str | None = _flag(
        None,
        INPUT,
        "text, one sentence a line, blank lines between documents: names and globs,"
        " comma-separated; .gz and .xz are unpacked",
    )
    output_file: str | None = _flag(
        None,
        INPUT,
        "TFRecord files to write, comma-separated: rows go to one after the other",
    )
    root_data_path: str | None = _flag(
        None,
        INPUT,
        "folder for input files that are not found as they stand; outputs become"
        " ROOT/SLICE_OUTPUT",
    )
    slice_name: str = _flag("slice_1", INPUT, "the SLICE of root_data_path")

    objective: str = _flag(
        "nsp",
        TASK,
        "rows: pairs of texts, of which half belong together; single sentences;"
        " consecutive sentences of a document; or pairs of a phrase and an ad from"
        " lines of flag, anything, phrase, ad with tabs between",
        choices=("nsp", "mlm", "documents", "infill"),
    )
    masking: str = _flag(
        "token",
        TASK,
        "what is masked: single tokens or words, or spans of them; infill masks a span"
        " of the ad as long as the phrase",
        choices=("token", "span"),
    )
    do_whole_word_mask: bool = _flag(
        False, TASK, "mask all ## pieces of a word or none"
    )
    segmenter: str = _flag(
        "none",
        TASK,
        "what finds words of several Chinese characters, for whole words; jieba needs"
        " the package rjieba",
        choices=("none", "jieba"),
    )
    user_dict: str | None = _flag(
        None, TASK, "words that jieba is to know: word [frequency] [tag] a line"
    )
    dynamic_masking: bool = _flag(
        False,
        TASK,
        "write tokens alone: run_pretraining_mgpu.py --dynamic_masking=true draws other"
        " masks in every epoch",
    )
    dupe_factor: int = _flag(
        10,
        TASK,
        "times that the text is made into rows, each with other masks",
        least=1,
        most=2**20,
    )
    masked_lm_prob: float = _flag(
        0.15, TASK, "share of the tokens to mask", least=0.001, most=1
    )
    short_seq_prob: float = _flag(
        0.1, TASK, "share of documents with shorter rows", least=0, most=1
    )
    random_seed: int = _flag(
        12345, TASK, "of all random numbers", least=0, most=2**63 - 1
    )

    vocab_file: str | None = _flag(None, MODEL, "WordPiece vocabulary, a token a line")
    do_lower_case: bool = _flag(
        True, MODEL, "fold case and accents, as uncased models want; false for cased"
    )
    max_seq_length: int = _flag(
        128, MODEL, "tokens of a row, [CLS] and [SEP] included", least=3, most=4096
    )
    max_predictions_per_seq: int = _flag(
        20, MODEL, "masked tokens of a row at most", least=1, most=4096
    )

    workers: int = _flag(
        0, SPEED, "processes; 0 takes as many as there are cores", least=0, most=1024
    )

    @property
    def outputs(self) -> list[pathlib.Path]:
        names = filter(None, map(str.strip, str(self.output_file).split(",")))
        if not self.root_data_path:
            return list(map(pathlib.Path, names))
        root = pathlib.Path(self.root_data_path)
        return [root / f"{self.slice_name}_{name}" for name in names]

    @property
    def processes(self) -> int:
        """How many at a time; not every system says which cores are ours."""
        cores = getattr(os, "sched_getaffinity", lambda _: range(os.cpu_count() or 1))
        return self.workers or len(cores(0))


def main(argv: Sequence[str], usage: str) -> int:
    """Runs the command line `argv`; returns the exit code."""

    def explained(run: PreparationConfig, error: Exception) -> RunError | None:
        fewer = "pass a smaller --workers"
        return command.explain(error, run.outputs[0], "output_file", fewer)

    stopped = "the same command goes on from its parts"
    return command.run(argv, usage, PreparationConfig, _prepare, explained, stopped)


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
    totals = making.prepare(job, files, run.outputs, run.processes, settings)
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
    readers.check_file(str(run.vocab_file))


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
