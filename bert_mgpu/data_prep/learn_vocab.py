"""A vocabulary learnt from raw text, and a report on how it splits that text."""

from __future__ import annotations

import pathlib
import shlex
import sys

from bert_mgpu.config.learn_vocab import LearnVocabConfig
from bert_mgpu.core import files, terminal, units
from bert_mgpu.core.errors import UserError, listed
from bert_mgpu.data_prep import corpus, vocab_report, vocabulary, word_pieces
from bert_mgpu.text import learnt_vocab
from bert_mgpu.text.learnt_vocab import Alphabet, WordCounts
from bert_mgpu.text.tokenization import Tokenizer
from bert_mgpu.text.vocab_coverage import Census


def learn(config: LearnVocabConfig) -> None:
    """Counts words and characters, writes the vocabulary and prints the report."""
    # If there are too many words to count, the order of the text decides which to drop.
    paths = sorted(corpus.find_files(str(config.input_file), pipe=False))
    counts = WordCounts(config.do_lower_case)
    vocabulary.count(counts, paths, None, title="count")
    if not counts.rows:
        raise UserError(f"--input_file={config.input_file}: no text in {listed(paths)}")
    alphabet = learnt_vocab.alphabet(counts.characters, config.min_count)
    first = [*learnt_vocab.special_tokens(config.unused), *alphabet.tokens()]
    _check_size(config, len(first), alphabet)
    pieces = word_pieces.learn(
        counts.words.counts,
        alphabet.letters,
        most=config.vocab_size - len(first),
        min_count=config.min_count,
    )
    target, tokens = str(config.vocab_file), [*first, *pieces]
    files.write_bytes(pathlib.Path(target), (f"{t}\n".encode() for t in tokens))
    tokenizer = Tokenizer(target, config.do_lower_case)
    census = vocabulary.count(Census(tokenizer), paths, None, title="count again")
    lines = [
        *vocab_report.corpus_lines(counts.rows, paths),
        *_made(config, alphabet, len(pieces), size=len(tokens)),
        *_forgotten(counts),
        "",
        vocab_report.rates([("", census.totals)]),
        *_next_steps(config, len(tokens)),
    ]
    print("\n".join(lines))


def _check_size(config: LearnVocabConfig, needed: int, alphabet: Alphabet) -> None:
    if not alphabet.characters:
        raise UserError(
            f"--min_count={config.min_count}: no character of the text occurs so often:"
            " pass a smaller number, or more text"
        )
    if needed > config.vocab_size:
        raise UserError(
            f"--vocab_size={config.vocab_size}: {len(alphabet.characters):,} characters"
            f" occur {units.counted(config.min_count, 'time')} or more; with ## and the"
            f" special tokens they need {needed}: pass at least that many, or a larger"
            " --min_count"
        )


def _made(
    config: LearnVocabConfig, alphabet: Alphabet, pieces: int, *, size: int
) -> list[str]:
    """Lines about what the vocabulary consists of; size: its number of tokens."""
    casing = "uncased" if config.do_lower_case else "cased"
    columns = terminal.narrow(sys.stdout)
    lines = terminal.wrap(
        f"vocabulary: {size:,} tokens, {casing}: {config.unused} free places [unusedN],"
        f" {len(alphabet.characters):,} characters, {len(alphabet.letters):,} of them"
        f" also with ##, {pieces:,} longer pieces:",
        columns,
    )
    lines.append(f"  {terminal.cut_front(str(config.vocab_file), columns - 2)}")
    if size < config.vocab_size:
        lines += terminal.wrap(
            f"The words, at most the {word_pieces.MOST_WORDS:,} most frequent ones,"
            " have no more pieces that occur"
            f" {units.counted(config.min_count, 'time')} or more: more text, or a"
            " smaller --min_count, may give more.",
            columns,
        )
    return lines


def _forgotten(counts: WordCounts) -> list[str]:
    if not counts.words.missed:
        return []
    return terminal.wrap(
        "There were too many different words to count all of them at once: those that"
        f" occur at most {counts.words.missed} times may be missing. The counts of"
        " characters are exact.",
        terminal.narrow(sys.stdout),
    )


def _next_steps(config: LearnVocabConfig, size: int) -> list[str]:
    casing = "" if config.do_lower_case else " --do_lower_case=false"
    texts, vocab = (shlex.quote(str(n)) for n in (config.input_file, config.vocab_file))
    return [
        "",
        *terminal.wrap(
            "To train a model from scratch, write a bert_config.json with its sizes and"
            f' "vocab_size": {size}, and type',
            terminal.narrow(sys.stdout),
        ),
        f"  python data_prep/create_pretraining_data.py{casing} \\",
        f"    --input_file={texts} \\",
        f"    --vocab_file={vocab} --output_file=corpus.tfrecord",
        f"  python run_pretraining_mgpu.py{casing} --do_train=true \\",
        f"    --bert_config_file=bert_config.json --vocab_file={vocab} \\",
        "    --input_file=corpus.tfrecord --output_dir=pretrained",
    ]
