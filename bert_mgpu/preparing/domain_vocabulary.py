"""How well a vocabulary fits a corpus, and a larger one that fits it better."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
from collections.abc import Iterable, Sequence
from typing import Any

from bert_mgpu import command, files, growth
from bert_mgpu.config import BertConfig
from bert_mgpu.data import readers
from bert_mgpu.errors import RunError, UserError, listed
from bert_mgpu.preparing import corpus, vocabulary
from bert_mgpu.run_config import INPUT, MODEL, TASK, Table, _flag
from bert_mgpu.text import display, domain, domain_report, words
from bert_mgpu.text.domain import Census, Found
from bert_mgpu.text.tokenization import Tokenizer

_SHOWN = 8
_SEE_HELP = "--help lists all flags"


@dataclasses.dataclass(frozen=True)
class DomainVocabConfig(Table):
    """The settings of data_prep/domain_vocab.py."""

    input_file: str | None = _flag(
        None,
        INPUT,
        "text to look at, one sentence a line: names and globs, comma-separated; .gz"
        " and .xz are unpacked",
    )
    max_lines: int | None = _flag(
        None, INPUT, "look at a seeded sample of so many lines [all]", least=1
    )
    random_seed: int = _flag(12345, INPUT, "of that sample", least=0, most=2**63 - 1)
    vocab_file: str | None = _flag(None, MODEL, "WordPiece vocabulary, a token a line")
    do_lower_case: bool = _flag(
        True, MODEL, "fold case and accents, as uncased models want; false for cased"
    )
    segmenter: str = _flag(
        "none",
        MODEL,
        "what finds words of several CJK characters, to report them; jieba needs the"
        " package rjieba",
        choices=("none", "jieba"),
    )
    output_vocab_file: str | None = _flag(
        None, TASK, "write a vocabulary with new tokens; without it: a report only"
    )
    add: int | None = _flag(
        None, TASK, "new tokens at most, those that save most pieces [all]", least=1
    )
    min_count: int = _flag(
        5, TASK, "how often a word must occur to become a token", least=1
    )
    place: str = _flag(
        "unused",
        TASK,
        "new tokens take the places of [unused1], [unused2] and so on, and the model"
        " keeps its size; or they are appended, and the model gets more rows",
        choices=("unused", "append"),
    )
    bert_config_file: str | None = _flag(
        None, TASK, "with --place=append: the model's bert_config.json"
    )
    output_config_file: str | None = _flag(
        None, TASK, "with --place=append: write it with the new vocab_size"
    )


def main(argv: Sequence[str], usage: str) -> int:
    """Runs the command line `argv`; returns the exit code."""

    def work(run: DomainVocabConfig) -> None:
        _check(run)
        report(run)

    def explained(run: DomainVocabConfig, error: Exception) -> RunError | None:
        output = pathlib.Path(str(run.output_vocab_file))
        return command.explain(error, output, "output_vocab_file", "pass --max_lines")

    stopped = "nothing is written"
    return command.run(argv, usage, DomainVocabConfig, work, explained, stopped)


def _check(run: DomainVocabConfig) -> None:
    """What can be refused before anything is counted."""
    needed = ["input_file", "vocab_file"]
    if run.add:
        needed += ["output_vocab_file"]
    if run.place == "append":
        needed += ["output_vocab_file", "bert_config_file", "output_config_file"]
    for name in needed:
        if getattr(run, name) is None:
            hint = f"--place={run.place} needs it" if name in needed[2:] else _SEE_HELP
            raise UserError(f"--{name} is missing ({hint})")
    for name in ("bert_config_file", "output_config_file"):
        if run.place != "append" and getattr(run, name):
            raise UserError(
                f"--{name}: --place={run.place} keeps the size of the model: leave the"
                " flag out, or pass --place=append"
            )
    read = [("input_file", path) for path in corpus.find_files(str(run.input_file))]
    for name in ("vocab_file", "bert_config_file"):
        if path := getattr(run, name):
            readers.check_file(path)
            read.append((name, path))
    written: list[tuple[str, str]] = []
    for name in ("output_vocab_file", "output_config_file"):
        if path := getattr(run, name):
            _check_output(name, path, [*read, *written])
            written.append((name, path))


def _check_output(name: str, path: str, others: Iterable[tuple[str, str]]) -> None:
    folder = pathlib.Path(path).absolute().parent
    if os.path.isdir(path):
        raise UserError(f"--{name}={path}: is a directory: pass the name of a file")
    if not os.access(folder, os.W_OK):
        what = "cannot write there" if folder.is_dir() else "there is no such folder"
        raise UserError(f"--{name}={path}: {folder}: {what}: pass another name")
    for other, file in others:
        same = os.path.abspath(file) == os.path.abspath(path)
        if same or (os.path.exists(path) and os.path.samefile(file, path)):
            raise UserError(
                f"--{name}={path}: is --{other} too, which must stay as it is: pass"
                " another name"
            )


def report(run: DomainVocabConfig) -> None:
    """Counts, prints, and writes what is asked for."""
    tokenizer = Tokenizer(str(run.vocab_file), run.do_lower_case)
    free = len(domain.free_rows(tokenizer.tokens))
    config = _read_config(run, tokenizer) if run.place == "append" else None
    if run.output_vocab_file and run.place == "unused" and not free:
        raise UserError(
            f"{run.vocab_file}: has no places [unused1], [unused2] and so on: pass"
            " --place=append, --bert_config_file and --output_config_file"
        )
    files = corpus.find_files(str(run.input_file))
    sample = None
    if run.max_lines:
        sample = vocabulary.sample(files, run.max_lines, run.random_seed)
    segment = words.cutter(()) if run.segmenter == "jieba" else None
    census = vocabulary.count(Census(tokenizer, segment), files, sample, "count")
    if not census.totals.rows:
        raise UserError(f"--input_file={run.input_file}: no text in {listed(files)}")
    _print_corpus(run, files, census, free)
    found = census.found()
    for line in domain_report.lists(census, found):
        print(line)
    chosen = domain.choose(found, run.min_count, run.add)
    if run.output_vocab_file is None:
        _print_lines(_proposal(run, chosen, free))
        return
    _extend(run, tokenizer, config, chosen)
    larger = Tokenizer(run.output_vocab_file, run.do_lower_case)
    after = vocabulary.count(Census(larger), files, sample, "count again")
    print("\nThe same text, cut with the old and with the new vocabulary:")
    print(domain_report.rates([("before", census.totals), ("after", after.totals)]))
    _print_lines(_harmed(found, larger))
    _print_lines(_next_steps(run))


def _read_config(run: DomainVocabConfig, tokenizer: Tokenizer) -> dict[str, Any]:
    """The file as it is; other keys than vocab_size are handed on."""
    path = pathlib.Path(str(run.bert_config_file))
    rows = BertConfig.from_json_file(path).vocab_size
    count = len(tokenizer.tokens)
    if not 0 <= rows - count <= growth.MAX_UNUSED_ROWS:
        raise UserError(
            f"{path}: vocab_size is {rows}, but {run.vocab_file} has {count} tokens:"
            " pass the --bert_config_file and --vocab_file of one model"
        )
    return files.read_json(path)


def _print_lines(lines: Iterable[str]) -> None:
    for line in lines:
        print(line)


def _print_corpus(
    run: DomainVocabConfig, files: Sequence[str], census: Census, free: int
) -> None:
    sampled = f" (a sample with seed {run.random_seed})" if run.max_lines else ""
    casing = "uncased" if run.do_lower_case else "cased"
    count = f"{len(files)} file{'s' * (len(files) > 1)}"
    print(f"text: {census.totals.rows:,} lines{sampled} of {count}:")
    for path in files[:_SHOWN]:
        print(f"  {display.fit_end(path, display.WIDTH - 2)}")
    if len(files) > _SHOWN:
        print(f"  and {len(files) - _SHOWN} more")
    print(
        f"vocabulary: {len(census.tokenizer.tokens):,} tokens, {casing}, {free} free"
        f" places [unusedN]:\n  {display.fit_end(str(run.vocab_file), 78)}\n"
    )
    print(domain_report.rates([("", census.totals)]) + "\n")


def _proposal(run: DomainVocabConfig, chosen: Sequence[Found], free: int) -> list[str]:
    if not chosen:
        text = f"No word that occurs {run.min_count} times or more lacks a token."
        return display.wrap(text)
    return display.wrap(
        f"{len(chosen):,} words occur {run.min_count} times or more and could become"
        f" tokens: {_named(chosen)}. --output_vocab_file=FILE writes a vocabulary with"
        f" {min(len(chosen), free)} of them in free places; --place=append takes them"
        " all, in a larger model."
    )


def _named(chosen: Sequence[Found]) -> str:
    return listed([one.word for one in chosen], _SHOWN)


def _extend(
    run: DomainVocabConfig,
    tokenizer: Tokenizer,
    config: dict[str, Any] | None,
    chosen: Sequence[Found],
) -> None:
    """Writes the files."""
    rows = domain.rows_of_new(tokenizer.tokens, len(chosen), run.place)
    added = {row: one.word for row, one in zip(rows, chosen, strict=False)}
    source, target = str(run.vocab_file), str(run.output_vocab_file)
    tokens = vocabulary.write_vocabulary(source, target, added)
    text = f"{target}: {len(rows):,} new tokens: {_named(chosen[: len(rows)])}"
    if left := len(chosen) - len(rows):
        text += (
            f"; {left:,} more found no free place: --place=append takes all, in a"
            " larger model"
        )
    _print_lines(display.wrap(text))
    if config is not None:
        size = max(config["vocab_size"], tokens)
        text = json.dumps({**config, "vocab_size": size}, indent=2) + "\n"
        files.write_text(pathlib.Path(str(run.output_config_file)), text)
        print(f"{run.output_config_file}: vocab_size {size:,}")


def _harmed(found: Sequence[Found], larger: Tokenizer) -> list[str]:
    """A new token is also the beginning of longer words, whose rest may fit worse."""
    pieces = [(one, larger.tokenize(one.word)) for one in found if one.pieces]
    worse = [
        f"{one.word} ({' '.join(now)})"
        for one, now in pieces
        if len(now) > len(one.pieces) or now == ["[UNK]"]
    ]
    text = f"words that are cut worse than before: {len(worse):,}"
    return display.wrap(text + (f", such as {listed(worse, 3)}" if worse else ""))


def _next_steps(run: DomainVocabConfig) -> list[str]:
    config = run.output_config_file
    flag = f" --bert_config_file={config}" if config else ""
    return [
        "",
        "Pass to data_prep/create_pretraining_data.py and to the training scripts:",
        f"  --vocab_file={run.output_vocab_file}{flag}",
        "With --init_checkpoint each new token starts from the mean of its pieces.",
    ]
