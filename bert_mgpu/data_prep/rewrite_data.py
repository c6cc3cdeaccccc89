"""The files for rewriting ads: phrases, and rows for ranking, infill and rewriting.

The ads are read once, into blocks; then each block's phrases are counted and merged
into a bank and an index on disk; then each block's rows are made. Several processes
work on blocks, and the files are the same for any number of processes.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import json
import pathlib
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import BinaryIO, NamedTuple

from bert_mgpu.core import files
from bert_mgpu.core.encodings import UTF_8
from bert_mgpu.core.errors import UserError
from bert_mgpu.data_prep import (
    ad_files,
    phrase_mining,
    phrase_neighbours,
    processes,
    rewrite_pairs,
)
from bert_mgpu.data_prep.ad_files import AdBlock, AdColumns
from bert_mgpu.data_prep.phrase_index import IndexWriter
from bert_mgpu.data_prep.phrase_mining import Cutting, Phrase
from bert_mgpu.data_prep.phrase_neighbours import Neighbours
from bert_mgpu.data_prep.rewrite_pairs import Negatives, PhraseSource, RowMaker

WORK = ".rewrite_data.making"  # in output_dir, while the files are made
BANK, MATCHES = "bank.tsv", "matches.txt"
TASK = "rewrite/task.json"
# The name of each kind of row -> the file of these rows.
ROWS = {
    "train": "train_0620.txt",
    "eval": "eval_0620.txt",
    "infill": "infill.txt",
    "rewrite": "rewrite/train.tsv",
    "dev": "rewrite/dev.tsv",
}
OUTPUTS = (BANK, MATCHES, *ROWS.values(), TASK)
_REWRITING = ("rewrite", "dev")  # files with a header line of column names


class AdSource(NamedTuple):
    """The files of ads and how to read them."""

    files: Sequence[str]
    columns: AdColumns
    encoding: str


class RewriteCounts(NamedTuple):
    """What was read and written."""

    ads: int
    distinct: int
    phrases: int  # of the bank
    rows: collections.Counter[str]  # rows of each output, and ads that were left out


def make(
    source: AdSource,
    output_dir: pathlib.Path,
    cutting: Cutting,
    *,
    negatives: Negatives,
    workers: int,
) -> RewriteCounts:
    """Writes all OUTPUTS, which appear when all is done.

    Raises:
      UserError: for a fault of a file, with file:line; if there are no rows.
    """
    with work_folder(output_dir) as work:
        store, blocks = ad_files.read(*source, folder=work)
        count = functools.partial(phrase_mining.count_block, store, cutting)
        phrases = _mine(count, blocks, work, workers=workers)
        made = work / "made"
        (made / "rewrite").mkdir(parents=True)
        with_main = source.columns.main is not None
        n_phrases = phrase_mining.write_bank(
            phrase_mining.most_frequent_first(phrase_mining.read_run(phrases), work),
            made / BANK,
            made / MATCHES,
            is_match=lambda phrase: bool(phrase.beside) or not with_main,
        )
        sides = _index(phrases, work, near=negatives.kind == "near")
        if with_main and not (made / MATCHES).stat().st_size:
            raise UserError(
                f"--main_column={source.columns.main}: no ad holds its main part and"
                " more: pass the column of a part of --ad_column"
            )
        has_hint = source.columns.hint is not None
        maker = RowMaker(
            store,
            cutting,
            negatives,
            train=sides[0],
            dev=sides[1],
            has_hint=has_hint,
        )
        rows = _write_rows(maker, blocks, made, workers=workers)
        check_rows(source, store.distinct, rows)
        text = _task(has_hint, has_dev=bool(rows["ads_dev"]))
        (made / TASK).write_text(text, encoding=UTF_8)
        publish(made, output_dir, OUTPUTS)
    rows["empty"] = store.empty
    return RewriteCounts(store.total, store.distinct, n_phrases, rows=rows)


@contextlib.contextmanager
def work_folder(output_dir: pathlib.Path) -> Iterator[pathlib.Path]:
    """A temporary folder beside the outputs, locked for one run; removed at the end."""
    work, is_new = output_dir / WORK, not output_dir.exists()
    with files.locked(work, str(output_dir), "--output_dir") as lock:
        try:
            for left in work.iterdir():  # of a run that was killed
                if left != lock:
                    shutil.rmtree(left) if left.is_dir() else left.unlink()
            yield work
        finally:
            shutil.rmtree(work, ignore_errors=True)
            if is_new:
                with contextlib.suppress(OSError):  # not if it has files now
                    output_dir.rmdir()


def _mine(
    count_block: Callable[[AdBlock], None],
    blocks: Sequence[AdBlock],
    work: pathlib.Path,
    *,
    workers: int,
) -> pathlib.Path:
    """Counts the phrases of all blocks; returns the path of the merged run."""
    done = processes.in_order(count_block, blocks, workers)
    with contextlib.closing(done):
        runs = [phrase_mining.run_path(block) for block in done]
    target = work / "phrases"
    phrase_mining.merge_runs(runs, target)
    return target


def _index(
    phrases: pathlib.Path, work: pathlib.Path, *, near: bool
) -> tuple[PhraseSource, PhraseSource]:
    """The phrases in slots of the train ads, and those of the dev ads."""
    return (
        index_of(
            work / "train_index",
            (p for p in phrase_mining.read_run(phrases) if p.train_ads),
            near=near,
        ),
        index_of(
            work / "dev_index",
            (p for p in phrase_mining.read_run(phrases) if p.dev_ads),
            near=near,
        ),
    )


def index_of(
    folder: pathlib.Path, phrases: Iterable[Phrase], *, near: bool
) -> PhraseSource:
    writer = IndexWriter(folder)
    for phrase in phrases:
        writer.add(phrase.text)
    index = writer.close()
    if not near:
        return PhraseSource(index, None)
    phrase_neighbours.build(index)
    return PhraseSource(index, Neighbours(index))


def _write_rows(
    maker: RowMaker, blocks: Sequence[AdBlock], made: pathlib.Path, *, workers: int
) -> collections.Counter[str]:
    names = ["source", *(["context"] if maker.has_hint else []), "target"]
    paths = {output: made / name for output, name in ROWS.items()}
    for output in _REWRITING:
        paths[output].write_text("\t".join(names) + "\n", encoding=UTF_8)
    return write_rows(maker, blocks, paths, workers=workers)


def write_rows(
    make_block: Callable[[AdBlock], None],
    blocks: Sequence[AdBlock],
    paths: Mapping[str, pathlib.Path],
    *,
    workers: int,
) -> collections.Counter[str]:
    """Appends the rows of all blocks to files, in order; returns the counts.

    paths: the file of each output.
    """
    counts: collections.Counter[str] = collections.Counter()
    with contextlib.ExitStack() as stack:
        opened = {
            output: stack.enter_context(open(path, "ab"))
            for output, path in paths.items()
        }
        done = processes.in_order(make_block, blocks, workers)
        for block in stack.enter_context(contextlib.closing(done)):
            counts.update(dict(rewrite_pairs.read_counts(block)))
            for output, file in opened.items():
                _append(rewrite_pairs.rows_path(block, output), file)
    return counts


def check_rows(source: AdSource, ads: int, counts: collections.Counter[str]) -> None:
    """Raises UserError if there are no rows, or none to train on."""
    if not counts["ads_train"] + counts["ads_dev"]:
        reasons = [
            f"{counts[key]} with {why}"
            for key, why in phrase_mining.LEFT_OUT.items()
            if counts[key]
        ]
        raise UserError(
            f"{source.files[0]}: no ad gives a row: {', '.join(reasons)}: check"
            " --ad_column and --delimiters"
        )
    if not counts["ads_train"]:
        raise UserError(
            f"{source.files[0]}: all ads that give rows are of the dev set, "
            f"{counts['ads_dev']} of {ads}: pass more ads or --dev_share=0"
        )


def _append(path: pathlib.Path, target: BinaryIO) -> None:
    """Moves the content of a file, if it exists, to the end of another one."""
    with contextlib.suppress(FileNotFoundError), open(path, "rb") as rows:
        shutil.copyfileobj(rows, target)
        path.unlink()


def _task(has_hint: bool, *, has_dev: bool) -> str:
    task = {
        "type": "rewrite",
        "train": "train.tsv",
        **({"dev": "dev.tsv"} if has_dev else {}),
        "header": True,
        "text_a": "source",
        **({"text_b": "context"} if has_hint else {}),
        "target": "target",
    }
    return json.dumps(task, indent=1) + "\n"


def publish(made: pathlib.Path, output_dir: pathlib.Path, names: Sequence[str]) -> None:
    """Moves finished files to the output directory."""
    for name in names:
        target = output_dir / name
        target.parent.mkdir(exist_ok=True)
        (made / name).replace(target)
