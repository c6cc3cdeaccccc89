"""The settings of data_prep/create_pretraining_data.py."""

from __future__ import annotations

import dataclasses
import pathlib

from bert_mgpu.config.base import INPUT, MODEL, TASK, WorkerFlags, flag


@dataclasses.dataclass(frozen=True)
class PreparationConfig(WorkerFlags):
    """Google's and bert-ad's flags, with their names and defaults, and further ones."""

    input_file: str | None = flag(
        None,
        INPUT,
        "text, one sentence per line, blank lines between documents: names and globs,"
        " comma-separated; .gz and .xz are unpacked",
    )
    output_file: str | None = flag(
        None,
        INPUT,
        "TFRecord files to write, comma-separated; rows are distributed round-robin",
    )
    root_data_path: str | None = flag(
        None,
        INPUT,
        "folder for input files that are not found as given; output files become"
        " ROOT/SLICE_OUTPUT",
    )
    slice_name: str = flag(
        "slice_1", INPUT, "SLICE in the names of output files under root_data_path"
    )

    objective: str = flag(
        "nsp",
        TASK,
        "nsp: pairs of texts, half of them consecutive; mlm: single sentences;"
        " documents: consecutive sentences of a document; infill: pairs of a phrase"
        " and an ad, from lines of the form flag TAB anything TAB phrase TAB ad",
        choices=("nsp", "mlm", "documents", "infill"),
    )
    masking: str = flag(
        "token",
        TASK,
        "what to mask: single tokens (or words), or spans of them; the objective"
        " infill masks a span of the ad as long as the phrase",
        choices=("token", "span"),
    )
    do_whole_word_mask: bool = flag(
        False, TASK, "mask all WordPieces of a word, or none of them"
    )
    segmenter: str = flag(
        "none",
        TASK,
        "jieba finds words of several Chinese characters, which are then masked"
        " whole, and needs the package rjieba",
        choices=("none", "jieba"),
    )
    user_dict: str | None = flag(
        None, TASK, "user dictionary of jieba: word [frequency] [tag] on each line"
    )
    dynamic_masking: bool = flag(
        False,
        TASK,
        "write rows without masks: run_pretraining_mgpu.py --dynamic_masking=true"
        " draws new ones in every epoch",
    )
    dupe_factor: int = flag(
        10,
        TASK,
        "how many times the text is made into rows, each time with different masks",
        minimum=1,
        maximum=2**20,
    )
    masked_lm_prob: float = flag(
        0.15, TASK, "share of the tokens to mask", minimum=0.001, maximum=1
    )
    short_seq_prob: float = flag(
        0.1,
        TASK,
        "share of documents that are made into shorter rows",
        minimum=0,
        maximum=1,
    )
    random_seed: int = flag(
        12345, TASK, "seed of all random numbers", minimum=0, maximum=2**63 - 1
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
    max_seq_length: int = flag(
        128,
        MODEL,
        "maximum number of tokens per row, [CLS] and [SEP] included",
        minimum=3,
        maximum=4096,
    )
    max_predictions_per_seq: int = flag(
        20, MODEL, "maximum number of masked tokens per row", minimum=1, maximum=4096
    )

    @property
    def outputs(self) -> list[pathlib.Path]:
        names = filter(None, map(str.strip, str(self.output_file).split(",")))
        if not self.root_data_path:
            return list(map(pathlib.Path, names))
        root = pathlib.Path(self.root_data_path)
        return [root / f"{self.slice_name}_{name}" for name in names]
