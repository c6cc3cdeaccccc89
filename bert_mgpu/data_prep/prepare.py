"""The preparation of pretraining records from text files, in random order.

The text is cut into blocks. Several processes turn each block into parts (`parts.py`)
in a folder beside the first output; then the parts are merged. Random numbers depend
on the seed and the block's number alone, so that the records are the same for any
number of processes, and a stopped run resumes from its parts.
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
from bert_mgpu.core.log import say
from bert_mgpu.core.units import duration_text, size_text
from bert_mgpu.data_prep import corpus, parts, processes, shuffle
from bert_mgpu.data_prep.corpus import Cut
from bert_mgpu.data_prep.shuffle import ShuffledRun
from bert_mgpu.data_prep.statistics import PreparationTotals
from bert_mgpu.data_prep.tokenized import Preparation, tools

_PLAIN_SECONDS = 10.0  # between two lines of progress without a terminal
_UNFINISHED = (".text", ".joined", ".making")
_SUFFIXES = (*_UNFINISHED, ".rows", ".npz")  # of the files of the folder of parts


class _Progress:
    """A progress bar of bytes on a terminal, elsewhere an occasional line."""

    def __init__(self, title: str, total: int) -> None:
        self._title, self._total, self._done = title, total, 0
        self._began = self._logged = time.perf_counter()
        self._bar = tqdm.tqdm(
            total=total,
            desc=title,
            unit="B",
            unit_scale=True,
            leave=False,
            disable=not sys.stderr.isatty(),
        )

    def advance(self, count: int) -> None:
        self._bar.update(count)
        self._done += count
        now = time.perf_counter()
        if self._bar.disable and now - self._logged >= _PLAIN_SECONDS:
            self._logged = now
            speed = self._done / (now - self._began)
            left = max(0, self._total - self._done) / speed if speed else 0
            say(
                f"{self._title}: {size_text(self._done)} of {size_text(self._total)},"
                f" {size_text(speed)}/s, {duration_text(left)} left"
            )

    def __enter__(self) -> _Progress:
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.close()


def prepare(
    preparation: Preparation,
    files: Sequence[str],
    outputs: Sequence[pathlib.Path],
    *,
    workers: int,
    settings: Mapping[str, Any],
) -> PreparationTotals:
    """Writes the records of the files to the outputs in turn; returns the counts.

    Outputs appear, or are replaced, when all is done. A hidden .NAME.json beside each
    says how it was made: `settings`, a hash of the vocabulary and the counts.

    Raises:
      UserError: for a fault of a file, with file:line; if there are no rows at all.
    """
    key = tools(preparation).tokenizer.words_hash
    with _locked(preparation.folder):
        totals, runs = _make_parts(preparation, files, workers)
        if fault := _fault(preparation.objective, files, totals):
            shutil.rmtree(preparation.folder)  # there is nothing to resume from
            raise UserError(fault)
        facts = {"settings": settings, "vocabulary": key, "counts": totals.counts}
        _write(runs, outputs, preparation.seed, facts=facts)
        shutil.rmtree(preparation.folder)
    return totals


@contextlib.contextmanager
def _locked(folder: pathlib.Path) -> Iterator[None]:
    """Locks the folder of parts for one run; afterwards removes it if it is empty."""
    with files.locked(folder, str(folder), "--output_file") as lock:
        for path in sorted(folder.iterdir()):  # all of it will be removed
            if path.name != lock.name and path.suffix not in _SUFFIXES:
                raise UserError(
                    f"{path}: {folder} is for unfinished records alone: move it away,"
                    " or pass another --output_file"
                )
        _clean(folder)  # left by a run that was killed
        try:
            yield
        finally:
            if folder.is_dir():
                _clean(folder)
                if os.listdir(folder) == [lock.name]:
                    shutil.rmtree(folder)


def _clean(folder: pathlib.Path) -> None:
    """Removes unfinished files from the folder of parts."""
    for suffix in _UNFINISHED:
        for left in folder.glob(f"*{suffix}"):
            left.unlink()


def _make_parts(
    preparation: Preparation, files: Sequence[str], workers: int
) -> tuple[PreparationTotals, list[ShuffledRun]]:
    """Makes all parts, in order; returns their total counts and their runs."""
    total = sum(map(os.path.getsize, files))
    window = corpus.WINDOW if preparation.objective == "nsp" else 0
    blocks = corpus.blocks(
        files, preparation.folder, Cut(preparation.each_line, window)
    )
    totals, runs = PreparationTotals(), list[ShuffledRun]()
    is_short = False
    position = 0
    make = functools.partial(parts.make, preparation)
    shares = itertools.chain.from_iterable(
        parts.split(block, preparation.repeats) for block in blocks
    )
    with (
        _Progress("text", total) as progress,
        contextlib.closing(blocks),
        contextlib.closing(processes.in_order(make, shares, workers)) as made,
    ):
        for share in made:
            part, block = parts.find(preparation, share), share.block
            if part is None:
                raise UserError(
                    f"{preparation.folder}: a part in it is damaged: run the same"
                    " command again"
                )
            totals.add(share, part)
            runs += part.runs
            read = (block.position - position) // (share.shares - share.number)
            progress.advance(read)
            position += read
            if share.is_last:
                block.text.unlink()
            if block.is_short and window and not is_short:
                is_short = True
                is_one = block.documents == 1
                say(
                    "text: a random next sentence comes from only"
                    f" {block.documents} document{'s' * (not is_one)}"
                    f" ({size_text(block.size)}), not from {window}"
                    + ": put blank lines between documents"
                    * is_one
                )
    return totals, runs


def _fault(
    objective: str, files: Sequence[str], totals: PreparationTotals
) -> str | None:
    """The reason why there are no rows, or None if there are rows."""
    counts = totals.counts
    if counts["rows"]:
        return None
    if not counts["documents"]:
        return f"{files[0]}: no text: the files of --input_file are blank"
    if counts["malformed"] == counts["documents"]:
        return (
            f"{totals.malformed}: every line has fewer than 4 columns: write flag,"
            " anything, phrase, ad, separated by tabs"
        )
    return (
        f"{files[0]}: {counts['documents']} documents, but none can be made into a row:"
        f" is this text for --objective={objective}?"
    )


def _write(
    runs: Sequence[ShuffledRun],
    outputs: Sequence[pathlib.Path],
    seed: int,
    *,
    facts: Mapping[str, Any],
) -> None:
    """Merges the runs into files beside the outputs, then renames them."""
    temporary = [output.with_name(f".{output.name}.making") for output in outputs]
    fact_files = [output.with_name(f".{output.name}.json") for output in outputs]
    rng = np.random.default_rng(seed)
    try:
        with contextlib.ExitStack() as stack:
            opened = [stack.enter_context(open(path, "wb")) for path in temporary]
            size = sum(run.size for run in runs)
            progress = stack.enter_context(_Progress("shuffle", size))
            rows = shuffle.merge(runs, opened, rng, advance=progress.advance)
        # A killed run must not leave the facts of earlier records.
        for fact_file, path, output in zip(fact_files, temporary, outputs, strict=True):
            fact_file.unlink(missing_ok=True)
            path.replace(output)
    finally:
        for path in temporary:
            path.unlink(missing_ok=True)
    for fact_file, output, count in zip(fact_files, outputs, rows, strict=True):
        text = json.dumps({"rows": count, **facts}, indent=1)
        files.write_text(fact_file, text + "\n")
        say(f"wrote {output}: {count} rows, {size_text(output.stat().st_size)}")
