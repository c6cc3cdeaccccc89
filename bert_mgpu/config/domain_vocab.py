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
        "text to look at, one sentence a line: names and globs, comma-separated; .gz"
        " and .xz are unpacked",
    )
    max_lines: int | None = flag(
        None, INPUT, "look at a seeded sample of this many lines [all]", minimum=1
    )
    random_seed: int = flag(
        12345, INPUT, "seed of that sample", minimum=0, maximum=2**63 - 1
    )
    vocab_file: str | None = flag(None, MODEL, "WordPiece vocabulary, a token a line")
    do_lower_case: bool = flag(
        True, MODEL, "fold case and accents, as uncased models want; false for cased"
    )
    segmenter: str = flag(
        "none",
        MODEL,
        "finds words of several CJK characters for the report; jieba needs the package"
        " rjieba",
        choices=("none", "jieba"),
    )
    output_vocab_file: str | None = flag(
        None, TASK, "write a vocabulary with new tokens; without it: a report only"
    )
    add: int | None = flag(
        None,
        TASK,
        "new tokens at most, those that save the most pieces [all]",
        minimum=1,
    )
    min_count: int = flag(
        5, TASK, "how often a word must occur to become a token", minimum=1
    )
    place: str = flag(
        "unused",
        TASK,
        "new tokens take the places of [unused1], [unused2] and so on, and the model"
        " keeps its size; or they are appended, and its embeddings get more rows",
        choices=("unused", "append"),
    )
    bert_config_file: str | None = flag(
        None, TASK, "with --place=append: the model's bert_config.json"
    )
    output_config_file: str | None = flag(
        None, TASK, "with --place=append: write it with the new vocab_size"
    )
