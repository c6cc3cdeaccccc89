"""Reports how well a vocabulary fits the texts of a domain, and extends it.

    python data_prep/domain_vocab.py --input_file='corpus/*.txt' \\
      --vocab_file=model/vocab.txt

reports which words become [UNK] and which are split into pieces. With

      --output_vocab_file=model/vocab_domain.txt --add=90

it also writes a vocabulary in which new words replace [unusedN] (with
--place=append they follow the last token), and reports how well that one fits.
"""

from __future__ import annotations

import os
import pathlib
import sys
from collections.abc import Iterable, Sequence

from bert_mgpu.cli import script
from bert_mgpu.config.domain_vocab import DomainVocabConfig
from bert_mgpu.core import text_files
from bert_mgpu.core.errors import RunError, UserError
from bert_mgpu.data_prep import corpus, domain_vocab

_SEE_HELP = "--help lists all flags"


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line; returns the exit code."""

    def work(config: DomainVocabConfig) -> None:
        _check(config)
        domain_vocab.report(config)

    def explained(config: DomainVocabConfig, error: Exception) -> RunError | None:
        output = pathlib.Path(str(config.output_vocab_file))
        return script.explain(
            error, output, "output_vocab_file", memory_hint="pass --max_lines"
        )

    stopped = "nothing is written"
    argv = sys.argv if argv is None else argv
    usage = str(__doc__)
    return script.run(
        argv, usage, DomainVocabConfig, work=work, explained=explained, stopped=stopped
    )


def _check(config: DomainVocabConfig) -> None:
    """Raises UserError for flags and files that are wrong, before any counting."""
    needed = ["input_file", "vocab_file"]
    if config.add:
        needed += ["output_vocab_file"]
    if config.place == "append":
        needed += ["output_vocab_file", "bert_config_file", "output_config_file"]
    for name in needed:
        if getattr(config, name) is None:
            by_place = f"--place={config.place} needs it"
            hint = by_place if name in needed[2:] else _SEE_HELP
            raise UserError(f"--{name} is missing ({hint})")
    for name in ("bert_config_file", "output_config_file"):
        if config.place != "append" and getattr(config, name):
            raise UserError(
                f"--{name}: --place={config.place} keeps the size of the model: leave"
                " the flag out, or pass --place=append"
            )
    read = [("input_file", path) for path in corpus.find_files(str(config.input_file))]
    for name in ("vocab_file", "bert_config_file"):
        if path := getattr(config, name):
            text_files.check_file(path)
            read.append((name, path))
    written: list[tuple[str, str]] = []
    for name in ("output_vocab_file", "output_config_file"):
        if path := getattr(config, name):
            _check_output(name, path, [*read, *written])
            written.append((name, path))


def _check_output(name: str, path: str, others: Iterable[tuple[str, str]]) -> None:
    folder = pathlib.Path(path).absolute().parent
    if os.path.isdir(path):
        raise UserError(f"--{name}={path}: is a directory: pass the name of a file")
    if not os.access(folder, os.W_OK):
        fault = "cannot write there" if folder.is_dir() else "there is no such folder"
        raise UserError(f"--{name}={path}: {folder}: {fault}: pass another name")
    for other, file in others:
        same = os.path.abspath(file) == os.path.abspath(path)
        if same or (os.path.exists(path) and os.path.samefile(file, path)):
            raise UserError(
                f"--{name}={path}: is --{other} too, which must stay as it is: pass"
                " another name"
            )


if __name__ == "__main__":
    sys.exit(main())
