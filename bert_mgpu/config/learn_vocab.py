"""The settings of data_prep/learn_vocab.py."""

from __future__ import annotations

import dataclasses

from bert_mgpu.config.base import INPUT, MODEL, TASK, FlagTable, flag


@dataclasses.dataclass(frozen=True)
class LearnVocabConfig(FlagTable):
    """The settings of data_prep/learn_vocab.py, with defaults as in Google's models."""

    input_file: str | None = flag(
        None,
        INPUT,
        "text to learn from, one sentence per line: names and globs, comma-separated;"
        " .gz and .xz are unpacked",
    )
    vocab_file: str | None = flag(
        None, TASK, "the vocabulary to write, a file that does not exist yet"
    )
    vocab_size: int = flag(
        30_000,
        TASK,
        "maximum number of tokens, special and free ones included",
        minimum=1,
        maximum=2**20,
    )
    min_count: int = flag(
        5,
        TASK,
        "how often a character or a piece must occur to become a token; a word with a"
        " rarer character becomes [UNK] as a whole",
        minimum=1,
    )
    unused: int = flag(
        99,
        TASK,
        "free rows [unused1], [unused2] and so on, for words that domain_vocab.py adds"
        " later; with 99 of them [UNK] is 100 and [MASK] 103, as in Google's files",
        minimum=0,
        maximum=10_000,
    )
    do_lower_case: bool = flag(
        True,
        MODEL,
        "lower-case and strip accents, for an uncased model; false for a cased model",
    )
