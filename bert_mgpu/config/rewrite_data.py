"""The settings of data_prep/make_rewrite_data.py."""

from __future__ import annotations

import dataclasses

from bert_mgpu.config.base import INPUT, TASK, WorkerFlags, flag


@dataclasses.dataclass(frozen=True)
class RewriteDataConfig(WorkerFlags):
    """The settings of data_prep/make_rewrite_data.py."""

    # fmt: off
    input_file: str | None = flag(None, INPUT, "ads, one per row: names and globs of files, comma-separated; text, TSV, CSV, JSON Lines or Parquet, by the extension; .gz and .xz are unpacked")
    ad_column: str = flag("-1", INPUT, "column of the ad, by name or by number from 0; -1 is the last, -2 the last but one; by name, TSV and CSV files need a first line with the names")
    main_column: str | None = flag(None, INPUT, "column of the main part of the ad, beside which phrases are collected")
    hint_column: str | None = flag(None, INPUT, "column of what the ad is about, such as a product's title, for rewrite/")
    encoding: str = flag("utf-8", INPUT, "encoding of the files: utf-8, gb18030 (GBK), big5, shift_jis, euc-jp, euc-kr, latin-1, windows-1252", choices=("utf-8", "gb18030", "gbk", "gb2312", "big5", "shift_jis", "euc-jp", "euc-kr", "latin-1", "windows-1252"))
    output_dir: str | None = flag(None, INPUT, "folder for the files that are written")

    delimiters: str = flag("。！!？，：", TASK, "characters at which an ad is cut into segments")
    min_segment: int = flag(1, TASK, "leave out segments of fewer characters", minimum=1, maximum=10_000)
    max_segment: int | None = flag(None, TASK, "leave out segments of more characters [none]", minimum=1, maximum=10_000)
    dev_share: float = flag(0.1, TASK, "share of the ads for eval_0620.txt and rewrite/dev.tsv", minimum=0, maximum=0.9)
    negatives: str = flag("random:1", TASK, "N phrases of other ads for each segment, as KIND:N. random: any; length: within 2 characters of its length; near: of such a length, with the most similar pairs of characters")
    candidates: int | None = flag(None, TASK, "write only candidates.txt: for each segment of new ads N phrases of --bank", minimum=1, maximum=10_000)
    bank: str | None = flag(None, TASK, "with --candidates: the bank.tsv or matches.txt of an earlier run")
    random_seed: int = flag(12345, TASK, "seed of the split and of the negatives", minimum=0, maximum=2**63 - 1)
    # fmt: on
