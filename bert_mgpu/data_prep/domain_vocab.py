"""How well a vocabulary fits a corpus, and a larger one that fits it better."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Iterable, Sequence
from typing import Any

from bert_mgpu.checkpoints import vocab_growth
from bert_mgpu.config.domain_vocab import DomainVocabConfig
from bert_mgpu.core import files, terminal
from bert_mgpu.core.errors import UserError, listed
from bert_mgpu.data_prep import corpus, vocab_report, vocabulary
from bert_mgpu.model.config import BertConfig
from bert_mgpu.text import segmenter, vocab_coverage
from bert_mgpu.text.tokenization import Tokenizer
from bert_mgpu.text.vocab_coverage import Census, Found

_SHOWN = 8


def report(run: DomainVocabConfig) -> None:
    """Counts, prints, and writes what is asked for."""
    tokenizer = Tokenizer(str(run.vocab_file), run.do_lower_case)
    free = len(vocab_coverage.free_rows(tokenizer.tokens))
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
    segment = segmenter.cutter(()) if run.segmenter == "jieba" else None
    census = vocabulary.count(Census(tokenizer, segment), files, sample, "count")
    if not census.totals.rows:
        raise UserError(f"--input_file={run.input_file}: no text in {listed(files)}")
    _print_corpus(run, files, census, free)
    found = census.found()
    for line in vocab_report.lists(census, found):
        print(line)
    chosen = vocab_coverage.choose(found, run.min_count, run.add)
    if run.output_vocab_file is None:
        _print_lines(_proposal(run, chosen, free))
        return
    _extend(run, tokenizer, config, chosen)
    larger = Tokenizer(run.output_vocab_file, run.do_lower_case)
    after = vocabulary.count(Census(larger), files, sample, "count again")
    print("\nThe same text, cut with the old and with the new vocabulary:")
    print(vocab_report.rates([("before", census.totals), ("after", after.totals)]))
    _print_lines(_harmed(found, larger))
    _print_lines(_next_steps(run))


def _read_config(run: DomainVocabConfig, tokenizer: Tokenizer) -> dict[str, Any]:
    """The file as it is; other keys than vocab_size are handed on."""
    path = pathlib.Path(str(run.bert_config_file))
    rows = BertConfig.from_json_file(path).vocab_size
    count = len(tokenizer.tokens)
    if not 0 <= rows - count <= vocab_growth.MAX_UNUSED_ROWS:
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
        print(f"  {terminal.fit_end(path, terminal.WIDTH - 2)}")
    if len(files) > _SHOWN:
        print(f"  and {len(files) - _SHOWN} more")
    print(
        f"vocabulary: {len(census.tokenizer.tokens):,} tokens, {casing}, {free} free"
        f" places [unusedN]:\n  {terminal.fit_end(str(run.vocab_file), 78)}\n"
    )
    print(vocab_report.rates([("", census.totals)]) + "\n")


def _proposal(run: DomainVocabConfig, chosen: Sequence[Found], free: int) -> list[str]:
    if not chosen:
        text = f"No word that occurs {run.min_count} times or more lacks a token."
        return terminal.wrap(text)
    return terminal.wrap(
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
    rows = vocab_coverage.rows_of_new(tokenizer.tokens, len(chosen), run.place)
    added = {row: one.word for row, one in zip(rows, chosen, strict=False)}
    source, target = str(run.vocab_file), str(run.output_vocab_file)
    tokens = vocabulary.write_vocabulary(source, target, added)
    text = f"{target}: {len(rows):,} new tokens: {_named(chosen[: len(rows)])}"
    if left := len(chosen) - len(rows):
        text += (
            f"; {left:,} more found no free place: --place=append takes all, in a"
            " larger model"
        )
    _print_lines(terminal.wrap(text))
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
    return terminal.wrap(text + (f", such as {listed(worse, 3)}" if worse else ""))


def _next_steps(run: DomainVocabConfig) -> list[str]:
    config = run.output_config_file
    flag = f" --bert_config_file={config}" if config else ""
    return [
        "",
        "Pass to data_prep/create_pretraining_data.py and to the training scripts:",
        f"  --vocab_file={run.output_vocab_file}{flag}",
        "With --init_checkpoint each new token starts from the mean of its pieces.",
    ]
