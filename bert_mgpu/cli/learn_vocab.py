"""Learns a WordPiece vocabulary from raw text, for a model trained from scratch.

    python data_prep/learn_vocab.py --input_file='corpus/*.txt' \\
      --vocab_file=vocab.txt --vocab_size=30000

Words are cut as BERT's tokenizer cuts them. Each character that is frequent
enough becomes a token, and what room is left goes to the most frequent pieces
of words. The same text gives the same bytes, in whatever order its files are
named. A report says how the vocabulary cuts the text, and what to type next.
Needs the package tensorflow-text (extra `tf_text`).
"""

from __future__ import annotations

import fnmatch
import os
import pathlib
import sys
from collections.abc import Sequence

from bert_mgpu.cli import script
from bert_mgpu.cli.flag_checks import check_folder, check_needed, check_outputs
from bert_mgpu.config.learn_vocab import LearnVocabConfig
from bert_mgpu.core.errors import UserError
from bert_mgpu.data_prep import corpus, learn_vocab, word_pieces


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line; returns the exit code."""
    with script.redirect_native_stderr(pathlib.Path(os.devnull)):
        return script.run(
            sys.argv if argv is None else argv,
            str(__doc__),
            LearnVocabConfig,
            work=_learn,
            output=lambda config: (pathlib.Path(str(config.vocab_file)), "vocab_file"),
            memory_hint="pass less text",
            stopped="each file is written whole, or not at all",
        )


def _learn(config: LearnVocabConfig) -> None:
    _check(config)
    learn_vocab.learn(config)


def _check(config: LearnVocabConfig) -> None:
    """Raises UserError for invalid flags and files, before any counting."""
    check_needed(config, ["input_file", "vocab_file"])
    target = str(config.vocab_file)
    read = corpus.find_files(str(config.input_file), pipe=False)
    check_outputs([("vocab_file", target)], [("input_file", path) for path in read])
    # The next command reads the same names.
    here = os.path.abspath(target)
    for name in str(config.input_file).split(","):
        if fnmatch.fnmatch(here, os.path.abspath(name.strip())):
            raise UserError(
                f"--vocab_file={target}: --input_file={name.strip()} would read it as"
                " text the next time: pass another name"
            )
    # In all other scripts this flag names an input: the vocabulary of a model.
    if os.path.lexists(target):
        raise UserError(
            f"--vocab_file={target}: already exists: pass a new name, or remove the"
            " file"
        )
    check_folder("vocab_file", target)
    word_pieces.check_learner()


if __name__ == "__main__":
    sys.exit(main())
