"""From files of text to files of records, in random order.

The text is cut into blocks. Each becomes a part (`parts.py`) in a folder beside the
first output, made by one of several processes; then the parts are merged. Random
numbers follow from the seed and a block's number alone, so that the records are the
same for any number of processes, and a run that was stopped goes on from its parts.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
import os
import pathlib
import shutil
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tqdm

from bert_mgpu.core import files
from bert_mgpu.core.errors import UserError
from bert_mgpu.data_prep import corpus, parts, processes, shuffle
from bert_mgpu.data_prep.corpus import Cut
from bert_mgpu.data_prep.shuffle import SortedRun
from bert_mgpu.data_prep.statistics import PreparationTotals
from bert_mgpu.data_prep.tokenized import Preparation, tools

_PLAIN_SECONDS = 10.0  # between two lines where there is no terminal


def say(text: str) -> None:
    """One line for the user, on standard error, above any bar."""
    tqdm.tqdm.write(text, file=sys.stderr)


class _Progress:
    """A bar of bytes where there is a terminal, else a line now and then."""

    def __init__(self, what: str, total: int) -> None:
        self._what, self._total, self._done = what, total, 0
        self._began = self._said = time.perf_counter()
        self._bar = tqdm.tqdm(
            total=total,
            desc=what,
            unit="B",
            unit_scale=True,
            leave=False,
            disable=not sys.stderr.isatty(),
        )

    def advance(self, count: int) -> None:
        self._bar.update(count)
        self._done += count
        now = time.perf_counter()
        if self._bar.disable and now - self._said >= _PLAIN_SECONDS:
            self._said = now
            speed = self._done / (now - self._began)
            left = max(0, self._total - self._done) / speed if speed else 0
            say(
                f"{self._what}: {self._done / 1e6:.1f} of {self._total / 1e6:.1f} MB,"
                f" {speed / 1e6:.2f} MB/s, {left / 60:.0f} minutes left"
            )

    def __enter__(self) -> _Progress:
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.close()


def prepare(
    job: Preparation,
    files: Sequence[str],
    outputs: Sequence[pathlib.Path],
    *,
    workers: int,
    settings: Mapping[str, Any],
) -> PreparationTotals:
    """Writes the records of the files to the outputs, to one after the other in turn.

    An output appears, or is replaced, when all is done. Beside it a hidden .NAME.json
    says how it was made: `settings`, the vocabulary's fingerprint and what was counted.

    Raises:
      UserError: what is wrong with a file, with its name and line; no row at all.
    """
    key = tools(job).tokenizer.fingerprint
    with _own(job.folder):
        totals, runs = _make_parts(job, files, workers)
        if fault := _fault(job, files, totals):
            shutil.rmtree(job.folder)  # no use to anyone
            raise UserError(fault)
        _write(
            job,
            runs,
            outputs,
            facts={"settings": settings, "vocabulary": key},
            totals=totals,
        )
        shutil.rmtree(job.folder)
    return totals


@contextlib.contextmanager
def _own(folder: pathlib.Path) -> Iterator[None]:
    """The folder of parts, for one run at a time; gone if there is nothing in it."""
    with files.locked(folder, str(folder), "--output_file") as lock:
        _clean(folder)  # after a run that was killed
        try:
            yield
        finally:
            if folder.is_dir():
                _clean(folder)
                if os.listdir(folder) == [lock.name]:
                    shutil.rmtree(folder)


def _clean(folder: pathlib.Path) -> None:
    """Removes what is not a part."""
    for suffix in ("text", "joined", "making"):
        for left in folder.glob(f"*.{suffix}"):
            left.unlink()


def _make_parts(
    job: Preparation, files: Sequence[str], workers: int
) -> tuple[PreparationTotals, list[SortedRun]]:
    total = sum(map(os.path.getsize, files))
    window = corpus.WINDOW if job.objective == "nsp" else 0
    blocks = corpus.blocks(files, job.folder, Cut(job.each_line, window))
    totals, runs = PreparationTotals(), list[SortedRun]()
    is_cut = False
    position = 0
    make = functools.partial(parts.make, job)
    tasks = itertools.chain.from_iterable(parts.shares(job, block) for block in blocks)
    with (
        _Progress("text", total) as progress,
        contextlib.closing(blocks),
        contextlib.closing(processes.in_order(make, tasks, workers)) as made,
    ):
        for share in made:
            part, block = parts.find(job, share), share.block
            if part is None:
                raise UserError(f"{job.folder}: a part of it is damaged: start again")
            totals.add(share, part)
            runs += part.runs
            read = (block.position - position) // (share.shares - share.number)
            progress.advance(read)
            position += read
            if share.is_last:
                block.text.unlink()
            if block.is_cut and window and not is_cut:
                is_cut = True
                say(
                    f"text: {block.documents} documents are {block.size >> 20} MB: a"
                    f" random next sentence comes from so many, not from {window}"
                )
    return totals, runs


def _fault(
    job: Preparation, files: Sequence[str], totals: PreparationTotals
) -> str | None:
    """What is wrong where there is no row."""
    counts = totals.counts
    if counts["rows"]:
        return None
    if not counts["documents"]:
        return f"{files[0]}: no text: --input_file names nothing but blanks"
    if counts["malformed"] == counts["documents"]:
        return (
            f"{totals.malformed}: fewer than 4 columns, as in every line: write flag,"
            " anything, phrase, ad, with tabs between"
        )
    return (
        f"{files[0]}: none of {counts['documents']} documents makes a row: is this text"
        f" for --objective={job.objective}?"
    )


def _write(
    job: Preparation,
    runs: Sequence[SortedRun],
    outputs: Sequence[pathlib.Path],
    *,
    facts: Mapping[str, Any],
    totals: PreparationTotals,
) -> None:
    """Merges into files beside the outputs, which then take their places."""
    made = [output.with_name(f".{output.name}.making") for output in outputs]
    sides = [output.with_name(f".{output.name}.json") for output in outputs]
    rng = np.random.default_rng(job.seed)
    try:
        with contextlib.ExitStack() as stack:
            opened = [stack.enter_context(open(path, "wb")) for path in made]
            size = sum(run.size for run in runs)
            progress = stack.enter_context(_Progress("shuffle", size))
            rows = shuffle.merge(runs, opened, rng, advance=progress.advance)
        # A killed run must not leave the facts of other records.
        for side, path, output in zip(sides, made, outputs, strict=True):
            side.unlink(missing_ok=True)
            path.replace(output)
    finally:
        for path in made:
            path.unlink(missing_ok=True)
    for side, output, count in zip(sides, outputs, rows, strict=True):
        text = json.dumps({"rows": count, **facts, "counts": totals.counts}, indent=1)
        files.write_text(side, text + "\n")
        say(f"wrote {output}: {count} rows, {output.stat().st_size / 1e6:.1f} MB")
