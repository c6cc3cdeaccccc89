"""The settings of data_prep/domain_vocab.py."""

from __future__ import annotations

import dataclasses

from bert_mgpu.config.base import INPUT, MODEL, TASK, FlagTable, flag


@dataclasses.dataclass(frozen=True)
class DomainVocabConfig(FlagTable):
    """The settings of data_prep/domain_vocab.py."""

    input_file: str | None = flag(
        None,
        INPUT,
        "text to analyse, one sentence per line: names and globs, comma-separated;"
        " .gz and .xz are unpacked",
    )
    max_lines: int | None = flag(
        None, INPUT, "analyse a random sample of N lines [all]", minimum=1
    )
    random_seed: int = flag(
        12345, INPUT, "seed of that sample", minimum=0, maximum=2**63 - 1
    )
    vocab_file: str | None = flag(
        None, MODEL, "WordPiece vocabulary, one token per line"
    )
    do_lower_case: bool = flag(
        True,
        MODEL,
        "lower-case and strip accents, as uncased models expect; false for cased"
        " models",
    )
    segmenter: str = flag(
        "none",
        MODEL,
        "jieba finds words of several Chinese characters for the report, and needs"
        " the package rjieba",
        choices=("none", "jieba"),
    )
    output_vocab_file: str | None = flag(
        None,
        TASK,
        "write the vocabulary with new tokens to this file; without it, only the"
        " report is printed",
    )
    add: int | None = flag(
        None,
        TASK,
        "add at most N new tokens, those first that save the most pieces [all]",
        minimum=1,
    )
    min_count: int = flag(
        5, TASK, "how often a word must occur to become a token", minimum=1
    )
    place: str = flag(
        "unused",
        TASK,
        "unused: new tokens replace [unused1], [unused2] and so on, and the model"
        " keeps its size; append: they follow the last token, and the word embeddings"
        " grow",
        choices=("unused", "append"),
    )
    bert_config_file: str | None = flag(
        None, TASK, "with --place=append: the model's bert_config.json"
    )
    output_config_file: str | None = flag(
        None,
        TASK,
        "with --place=append: write that config with the new vocab_size to this file",
    )
