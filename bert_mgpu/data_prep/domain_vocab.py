"""A report on how well a vocabulary fits a corpus, and a larger vocabulary."""

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
from bert_mgpu.text.vocab_coverage import CandidateWord, Census

_SHOWN = 8


def report(config: DomainVocabConfig) -> None:
    """Counts the words of the corpus, prints the report, and writes the new files."""
    tokenizer = Tokenizer(str(config.vocab_file), config.do_lower_case)
    n_free = len(vocab_coverage.free_rows(tokenizer.tokens))
    bert_config = None
    if config.place == "append":
        bert_config = _read_config(
            str(config.bert_config_file), str(config.vocab_file), tokenizer
        )
    if config.output_vocab_file and config.place == "unused" and not n_free:
        raise UserError(
            f"{config.vocab_file}: has no places [unused1], [unused2] and so on: pass"
            " --place=append, --bert_config_file and --output_config_file"
        )
    files = corpus.find_files(str(config.input_file), pipe=False)
    sample = None
    if config.max_lines:
        sample = vocabulary.sample(files, config.max_lines, config.random_seed)
    segment = segmenter.cutter(()) if config.segmenter == "jieba" else None
    census = vocabulary.count(Census(tokenizer, segment), files, sample, title="count")
    if not census.totals.rows:
        raise UserError(f"--input_file={config.input_file}: no text in {listed(files)}")
    _print_corpus(config, files, census, n_free=n_free)
    candidates = census.candidates()
    _print_lines(vocab_report.lists(census, candidates))
    chosen = vocab_coverage.choose(candidates, config.min_count, config.add)
    if config.output_vocab_file is None:
        _print_lines(_proposal(chosen, config.min_count, n_free))
        return
    _extend(config, tokenizer, bert_config, chosen=chosen)
    larger = Tokenizer(config.output_vocab_file, config.do_lower_case)
    after = vocabulary.count(Census(larger), files, sample, title="count again")
    print("\nThe same text, cut with the old and with the new vocabulary:")
    print(vocab_report.rates([("before", census.totals), ("after", after.totals)]))
    _print_lines(_worse_words(candidates, larger))
    _print_lines(_next_steps(config))


def _read_config(
    bert_config_file: str, vocab_file: str, tokenizer: Tokenizer
) -> dict[str, Any]:
    """All keys of --bert_config_file; all but vocab_size are written unchanged."""
    path = pathlib.Path(bert_config_file)
    rows = BertConfig.from_json_file(path).vocab_size
    count = len(tokenizer.tokens)
    if not 0 <= rows - count <= vocab_growth.MAX_UNUSED_ROWS:
        raise UserError(
            f"{path}: vocab_size is {rows}, but {vocab_file} has {count} tokens:"
            " pass the --bert_config_file and --vocab_file of one model"
        )
    return files.read_json(path)


def _print_lines(lines: Iterable[str]) -> None:
    for line in lines:
        print(line)


def _print_corpus(
    config: DomainVocabConfig, files: Sequence[str], census: Census, *, n_free: int
) -> None:
    sampled = f" (a sample with seed {config.random_seed})" if config.max_lines else ""
    casing = "uncased" if config.do_lower_case else "cased"
    _print_lines(vocab_report.corpus_lines(census.totals.rows, files, sampled))
    print(
        f"vocabulary: {len(census.tokenizer.tokens):,} tokens, {casing}, {n_free} free"
        f" places [unusedN]:\n  {terminal.cut_front(str(config.vocab_file), 78)}\n"
    )
    print(vocab_report.rates([("", census.totals)]) + "\n")


def _proposal(
    chosen: Sequence[CandidateWord], min_count: int, n_free: int
) -> list[str]:
    """Lines about the words that --output_vocab_file would add."""
    if not chosen:
        text = f"No word that occurs {min_count} times or more lacks a token."
        return terminal.wrap(text)
    return terminal.wrap(
        f"{len(chosen):,} words occur {min_count} times or more and could become"
        f" tokens: {_named(chosen)}. --output_vocab_file=FILE writes a vocabulary with"
        f" {min(len(chosen), n_free)} of them in free places; --place=append takes them"
        " all, in a larger model."
    )


def _named(chosen: Sequence[CandidateWord]) -> str:
    return listed([candidate.word for candidate in chosen], _SHOWN)


def _extend(
    config: DomainVocabConfig,
    tokenizer: Tokenizer,
    bert_config: dict[str, Any] | None,
    *,
    chosen: Sequence[CandidateWord],
) -> None:
    """Writes the new vocabulary and, for a larger model, its config."""
    rows = vocab_coverage.new_rows(tokenizer.tokens, len(chosen), config.place)
    added = {row: new.word for row, new in zip(rows, chosen, strict=False)}
    source, target = str(config.vocab_file), str(config.output_vocab_file)
    tokens = vocabulary.write_vocabulary(source, target, added)
    text = f"{target}: {len(rows):,} new tokens: {_named(chosen[: len(rows)])}"
    if left := len(chosen) - len(rows):
        text += (
            f"; {left:,} more found no free place: --place=append takes all, in a"
            " larger model"
        )
    _print_lines(terminal.wrap(text))
    if bert_config is not None:
        size = max(bert_config["vocab_size"], tokens)
        text = json.dumps({**bert_config, "vocab_size": size}, indent=2) + "\n"
        files.write_text(pathlib.Path(str(config.output_config_file)), text)
        print(f"{config.output_config_file}: vocab_size {size:,}")


def _worse_words(candidates: Sequence[CandidateWord], larger: Tokenizer) -> list[str]:
    """Lines about the words that have more pieces than before.

    A new token also matches the start of longer words, whose rest may then fit worse.
    """
    cut = [(old, larger.tokenize(old.word)) for old in candidates if old.pieces]
    worse = [
        f"{old.word} ({' '.join(pieces)})"
        for old, pieces in cut
        if len(pieces) > len(old.pieces) or pieces == ["[UNK]"]
    ]
    text = f"words that are cut worse than before: {len(worse):,}"
    return terminal.wrap(text + (f", such as {listed(worse, 3)}" if worse else ""))


def _next_steps(config: DomainVocabConfig) -> list[str]:
    flag = "" if config.do_lower_case else " --do_lower_case=false"
    if config.output_config_file:
        flag += f" --bert_config_file={config.output_config_file}"
    return [
        "",
        "Pass to data_prep/create_pretraining_data.py and to the training scripts:",
        f"  --vocab_file={config.output_vocab_file}{flag}",
        "With --init_checkpoint each new token starts from the mean of its pieces.",
    ]
