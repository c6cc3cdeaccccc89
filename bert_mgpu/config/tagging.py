"""The flags that only tagging has."""

from __future__ import annotations

import dataclasses

from bert_mgpu.config.base import INPUT, MODEL, FlagTable, flag

# Notations of entities, in files and in the model's classes: tasks/tagging/bio.py.
FILE_SCHEMES = BIO, BIOES, IOB1 = "bio", "bioes", "iob1"
HEAD_SCHEMES = BIO, BIOES
REPAIRS = BEGIN, LEAVE_OUT = "begin", "outside"
UNITS = WORDS, PIECES = "words", "pieces"


@dataclasses.dataclass(frozen=True)
class TaggingFlags(FlagTable):
    """The flags of the task type tags."""

    # fmt: off
    file_scheme: str | None = flag(None, INPUT, "your own task of type tags: notation of its files; bioes also covers BILOU and BMES [bioes if a file has tags such as E- or S-, else bio]", choices=FILE_SCHEMES)
    token_pattern: str | None = flag(None, INPUT, "your own task of type tags: regular expression whose one group is the word, in the column of words")
    repair_bio: str | None = flag(None, INPUT, "type tags: for a tag such as I- that continues no entity: begin an entity there (begin) or tag the word O (outside); of overlapping spans both keep the longer one [refuse them]", identity=True, choices=REPAIRS)
    tag_units: str | None = flag(None, MODEL, "type tags: what gets a tag: words, or the pieces of a text [words where the files have words, else pieces]", choices=UNITS)
    tag_scheme: str = flag(BIO, MODEL, "type tags: notation of the model's classes", identity=True, remembered=True, choices=HEAD_SCHEMES)
    crf: bool = flag(False, MODEL, "type tags: learn which tags follow each other, with a conditional random field", identity=True, remembered=True)
    # fmt: on
