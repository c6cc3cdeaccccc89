"""Reports how well a vocabulary fits the texts of a domain, and extends it.

    python data_prep/domain_vocab.py --input_file='corpus/*.txt' \\
      --vocab_file=model/vocab.txt

reports which words become [UNK] and which are split into pieces. With

      --output_vocab_file=model/vocab_domain.txt --add=90

it also writes a vocabulary in which new words replace [unusedN] (with
--place=append they follow the last token), and reports how well that one fits.
"""

from __future__ import annotations

import pathlib
import sys
from collections.abc import Sequence

from bert_mgpu.cli import script
from bert_mgpu.cli.flag_checks import (
    check_casing,
    check_folder,
    check_needed,
    check_outputs,
)
from bert_mgpu.config.domain_vocab import DomainVocabConfig
from bert_mgpu.core import text_files
from bert_mgpu.core.errors import UserError
from bert_mgpu.data_prep import corpus, domain_vocab


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line; returns the exit code."""
    return script.run(
        sys.argv if argv is None else argv,
        str(__doc__),
        DomainVocabConfig,
        work=_report,
        output=lambda config: (
            pathlib.Path(str(config.output_vocab_file)),
            "output_vocab_file",
        ),
        memory_hint="pass --max_lines",
        stopped="each file is written whole, or not at all",
    )


def _report(config: DomainVocabConfig) -> None:
    _check(config)
    domain_vocab.report(config)


def _check(config: DomainVocabConfig) -> None:
    """Raises UserError for invalid flags and files, before any counting."""
    check_needed(config, ["input_file", "vocab_file"])
    if config.add:
        check_needed(config, ["output_vocab_file"], "--add needs it")
    if config.place == "append":
        names = ["output_vocab_file", "bert_config_file", "output_config_file"]
        check_needed(config, names, "--place=append needs it")
    for name in ("bert_config_file", "output_config_file"):
        if config.place != "append" and getattr(config, name):
            raise UserError(
                f"--{name}: --place={config.place} keeps the size of the model: leave"
                " the flag out, or pass --place=append"
            )
    read = [
        ("input_file", path)
        for path in corpus.find_files(str(config.input_file), pipe=False)
    ]
    for name in ("vocab_file", "bert_config_file"):
        if path := getattr(config, name):
            text_files.check_file(path)
            read.append((name, path))
    check_casing(config.given, config.do_lower_case, str(config.vocab_file))
    flags = ("output_vocab_file", "output_config_file")
    written = [(name, path) for name in flags if (path := getattr(config, name))]
    check_outputs(written, read)
    for name, path in written:
        check_folder(name, path)


if __name__ == "__main__":
    sys.exit(main())
