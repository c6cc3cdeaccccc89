"""Makes data for rewriting from ads: phrases, and rows to rank, fill and rewrite.

    python data_prep/make_rewrite_data.py --input_file='ads/*.txt.gz' \\
      --output_dir=data/rewriting

cuts each ad into segments and writes, into the output_dir:

  bank.tsv, matches.txt           the segments as phrases, the commonest first
  train_0620.txt, eval_0620.txt   for run_classifier_mgpu.py --task_name=ad
  infill.txt                      for create_pretraining_data.py --objective=infill
  rewrite/                        ads with [SLOT] in the place of a segment

For each segment of new ads, this finds phrases in the bank, which a model can order:

    python data_prep/make_rewrite_data.py --input_file=new.txt \\
      --output_dir=data/new --candidates=50 --bank=data/rewriting/bank.tsv
"""

from __future__ import annotations

import pathlib
import re
import sys
import time
from collections.abc import Iterator, Sequence

from bert_mgpu.cli import script
from bert_mgpu.cli.flag_checks import check_needed, check_outputs, check_used
from bert_mgpu.config.rewrite_data import RewriteDataConfig
from bert_mgpu.core import text_files
from bert_mgpu.core.errors import UserError
from bert_mgpu.core.log import say
from bert_mgpu.core.units import counted, duration_text
from bert_mgpu.data import columns
from bert_mgpu.data_prep import candidates, corpus, phrase_mining, rewrite_data
from bert_mgpu.data_prep.ad_files import AdColumns
from bert_mgpu.data_prep.phrase_mining import Cutting
from bert_mgpu.data_prep.rewrite_data import AdSource, RewriteCounts
from bert_mgpu.data_prep.rewrite_pairs import KINDS, Negatives
from bert_mgpu.text.ad_segments import DELIMITERS

_MOST_NEGATIVES = 1000


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line; returns the exit code."""
    return script.run(
        sys.argv if argv is None else argv,
        str(__doc__),
        RewriteDataConfig,
        work=_make,
        output=lambda config: (pathlib.Path(str(config.output_dir)), "output_dir"),
        memory_hint="pass a smaller --workers",
        stopped="nothing is written",
    )


def _make(config: RewriteDataConfig) -> None:
    negatives = _check(config)
    output_dir = pathlib.Path(str(config.output_dir))
    files = corpus.find_files(str(config.input_file), pipe=False)
    for_new = config.candidates is not None
    names = [candidates.OUTPUT] if for_new else rewrite_data.OUTPUTS
    check_outputs(
        [("output_dir", str(output_dir / name)) for name in names],
        [("input_file", file) for file in files]
        + ([("bank", config.bank)] if config.bank else []),
    )
    optional = (config.main_column, config.hint_column)
    main, hint = (None if name is None else columns.parsed(name) for name in optional)
    source = AdSource(
        files,
        AdColumns(columns.parsed(config.ad_column), main, hint),
        config.encoding,
    )
    cutting = Cutting(
        config.delimiters,
        config.min_segment,
        config.max_segment,
        dev_share=config.dev_share,
        seed=config.random_seed,
    )
    began = time.perf_counter()
    if config.candidates is not None:
        counts = candidates.make(
            source,
            output_dir,
            cutting,
            bank=str(config.bank),
            count=config.candidates,
            workers=config.processes,
        )
    else:
        counts = rewrite_data.make(
            source, output_dir, cutting, negatives=negatives, workers=config.processes
        )
    for line in _report(counts, output_dir, time.perf_counter() - began):
        say(line)
    if others := "".join(sorted({*config.delimiters} - {*DELIMITERS})):
        say(
            f"--task_name=ad finds slots only between {DELIMITERS} and not at {others}:"
            " it cannot rank the phrases of such slots"
        )


def _check(config: RewriteDataConfig) -> Negatives:
    """Checks the flags, before any reading; returns --negatives. Raises UserError."""
    check_needed(config, ["input_file", "output_dir"])
    if not config.ad_column:
        raise UserError("--ad_column is empty: pass a name or a number")
    if not (config.delimiters or "").strip():
        raise UserError("--delimiters is empty: pass the characters that end a segment")
    if "\t" in config.delimiters or "\n" in config.delimiters:
        raise UserError("--delimiters: a tab or line end: pass other characters")
    if config.max_segment is not None and config.max_segment < config.min_segment:
        raise UserError(
            f"--max_segment={config.max_segment}: --min_segment={config.min_segment}"
            " is more: pass a higher one"
        )
    negatives = config.negatives or ""
    match = re.fullmatch(rf"({'|'.join(KINDS)}):([1-9][0-9]{{0,3}})", negatives)
    if not match or int(match[2]) > _MOST_NEGATIVES:
        raise UserError(
            f"--negatives={negatives}: pass {':N, '.join(KINDS)}:N with N from"
            f" 1 to {_MOST_NEGATIVES}"
        )
    if config.candidates is not None:
        check_needed(config, ["bank"], "--candidates needs it")
        text_files.check_file(str(config.bank))
        for name in ("main_column", "hint_column", "dev_share", "negatives"):
            if name in config.given:
                raise UserError(
                    f"--{name}: --candidates does not use it: leave the flag out"
                )
    else:
        check_used(config.given, ["bank"], "--candidates")
    return Negatives(match[1], int(match[2]))


def _report(
    counts: RewriteCounts, output_dir: pathlib.Path, seconds: float
) -> Iterator[str]:
    """What was read and written, one line each."""
    rows = counts.rows
    repeated = counts.ads - counts.distinct
    yield f"ads: {counts.ads}" + f", repeated and left out: {repeated}" * bool(repeated)
    if rows["empty"]:
        yield f"rows without an ad in --ad_column, left out: {rows['empty']}"
    for key, why in phrase_mining.LEFT_OUT.items():
        if rows[key]:
            yield f"ads that give no rows: {rows[key]} with {why}"
    yield f"phrases: {counts.phrases}"
    if rows["candidates"]:
        count = counted(rows["candidates"], "row")
        yield f"wrote {output_dir / candidates.OUTPUT}: {count}"
    else:
        train = counted(rows["ads_train"], "ad")
        yield f"train: {train}, dev: {rows['ads_dev']}, no ad in both"
        for output, name in rewrite_data.ROWS.items():
            yield f"wrote {output_dir / name}: {counted(rows[output], 'row')}"
        if rows["copied"]:
            count = counted(rows["copied"], "segment")
            yield f"not in infill.txt: {count}, found elsewhere in the same ad too"
    yield f"time: {duration_text(seconds)}"


if __name__ == "__main__":
    sys.exit(main())
