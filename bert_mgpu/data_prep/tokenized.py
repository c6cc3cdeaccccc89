"""The token ids and the counts of a block of text."""

from __future__ import annotations

import array
import collections
import dataclasses
import functools
import itertools
import pathlib
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from bert_mgpu.core import hashing
from bert_mgpu.core.errors import UserError
from bert_mgpu.core.rows import Ragged
from bert_mgpu.data_prep import corpus, duplicates
from bert_mgpu.data_prep.corpus import Block, Document
from bert_mgpu.data_prep.instances import Documents
from bert_mgpu.text import segmenter as segmenter_lib
from bert_mgpu.text import whole_words as whole_words_lib
from bert_mgpu.text.masking import Masking
from bert_mgpu.text.tokenization import Tokenizer

_VERSION = 3  # of records; increment it when they change: parts are named after it
_SENTENCES = 2000  # tokenized at once
_COLUMNS = 4  # in a line for "infill": flag, anything, phrase, ad
_FLAGS = {"0": 0, "1": 1}


@dataclasses.dataclass(frozen=True)
class Preparation:
    """All settings that the records of a text depend on, and the folder of parts."""

    folder: pathlib.Path
    vocab_file: str
    do_lower_case: bool
    objective: str  # one of instances.OBJECTIVES
    masking: str | None  # one of masking.STRATEGIES; None: no masks, only tokens
    whole_words: bool
    segmenter: str  # "none" (words are joined "##" pieces) or "jieba"
    user_dict: str | None
    max_seq_length: int
    max_predictions_per_seq: int
    masked_lm_prob: float
    short_seq_prob: float
    repeats: int
    seed: int

    @property
    def each_line(self) -> bool:
        """Whether every line is a document of its own."""
        return self.objective in ("mlm", "infill")


class Tools(NamedTuple):
    """The tokenizer, words and masking of a preparation."""

    tokenizer: Tokenizer
    chinese: whole_words_lib.ChineseWords | None
    continuing: np.ndarray | None  # bool [V], tokens that begin with "##"
    masking: Masking | None
    key: str  # a fingerprint: if it is equal, equal texts give equal records


@functools.lru_cache(maxsize=1)
def tools(preparation: Preparation) -> Tools:
    """The tools of a preparation, made once in a process.

    Raises:
      UserError: for a fault of the vocabulary or user dictionary; if rjieba is missing.
    """
    tokenizer = Tokenizer(preparation.vocab_file, preparation.do_lower_case)
    chinese = continuing = masking = None
    user_words: list[segmenter_lib.UserWord] = []
    if preparation.segmenter == "jieba":
        user_words = (
            segmenter_lib.read_user_dict(preparation.user_dict)
            if preparation.user_dict
            else []
        )
        chinese = whole_words_lib.ChineseWords(tokenizer, user_words)
    elif preparation.whole_words:
        continuing = whole_words_lib.continuing(tokenizer.tokens)
    if preparation.masking:
        masking = Masking(
            preparation.masking,
            tokenizer.mask_id,
            len(tokenizer.tokens),
            probability=preparation.masked_lm_prob,
            most=preparation.max_predictions_per_seq,
            unk_id=tokenizer.unk_id,
        )
    settings = dataclasses.asdict(preparation)
    for name in ("folder", "vocab_file", "user_dict"):
        del settings[name]
    settings |= {"vocabulary": tokenizer.fingerprint, "user_words": user_words}
    key = hashing.fingerprint({"version": _VERSION, **settings})
    return Tools(tokenizer, chinese, continuing, masking=masking, key=key)


class Text:
    """A block's text as token ids.

    Attributes:
      documents: the documents from which rows are made.
      counts: of documents, sentences, tokens, unknown tokens and, for "infill",
        malformed lines; those of the block's context are not counted.
      longest: characters of the longest sentence.
      malformed: file:line of the first malformed line.
      line_hashes, document_hashes: a uint64 of each, as bytes.

    Raises:
      UserError: for a fault of the text, with file:line.
    """

    def __init__(self, preparation: Preparation, block: Block) -> None:
        self.counts: collections.Counter[str] = collections.Counter()
        self.longest = 0
        self.malformed: str | None = None
        self.line_hashes, self.document_hashes = bytearray(), bytearray()
        self._preparation, self._tools = preparation, tools(preparation)
        # Space for one token per byte, which takes memory only when it is used.
        fits = len(self._tools.tokenizer.tokens) <= 1 << 16
        dtype = np.uint16 if fits else np.int32
        self._ids = np.empty(block.text.stat().st_size, dtype)
        self._starts = np.empty(len(self._ids) if preparation.whole_words else 0, bool)
        self._sentences, self._documents = array.array("q", [0]), array.array("q", [0])
        self._labels = array.array("i")
        documents = corpus.documents(block, preparation.each_line)
        context = itertools.islice(documents, block.context)
        self._tokenize(document.sentences for document in context)
        first, before = len(self._documents) - 1, self._sentences[-1]
        self._tokenize(map(self._texts, documents))
        self.documents = Documents(
            self._ids[: self._sentences[-1]],
            self._starts[: self._sentences[-1]] if preparation.whole_words else None,
            self._sentences,
            documents=self._documents,
            labels=np.array(self._labels, np.int32),
            context=first,
        )
        ids = self.documents.ids[before:]
        self.counts["tokens"] = len(ids)
        self.counts["unknown"] = int((ids == self._tools.tokenizer.unk_id).sum())

    def clear_counts(self) -> None:
        """Clears what another part of the block counts, so that it is counted once."""
        self.counts.clear()
        self.longest, self.malformed = 0, None
        self.line_hashes, self.document_hashes = bytearray(), bytearray()

    def _texts(self, document: Document) -> list[str]:
        """The texts of a document to tokenize; also counts the document."""
        sentences = document.sentences
        self.counts["documents"] += 1
        self.counts["sentences"] += len(sentences)
        self.longest = max(self.longest, *map(len, sentences))
        self.line_hashes += duplicates.hashes(sentences)
        if not self._preparation.each_line:
            self.document_hashes += duplicates.hashes(["\n".join(sentences)])
        if self._preparation.objective == "infill":
            return self._pair(sentences[0], f"{document.path}:{document.lines[0]}")
        return sentences

    def _pair(self, line: str, location: str) -> list[str]:
        """The phrase and the ad of a line; a malformed line is counted and has none."""
        columns = line.split("\t", _COLUMNS - 1)
        if len(columns) < _COLUMNS:
            self.counts["malformed"] += 1
            self.malformed = self.malformed or location
            return []
        flag = columns[0].strip()
        if flag not in _FLAGS:
            raise UserError(
                f"{location}: the flag {flag!r} in the first column: write 0 or 1 (the"
                " columns are flag, anything, phrase, ad)"
            )
        self._labels.append(_FLAGS[flag])
        return columns[2:]

    def _tokenize(self, documents: Iterable[list[str]]) -> None:
        """Adds the ids of documents, some thousand sentences at a time."""
        group: list[tuple[list[str], bool]] = []
        size = 0
        for texts in documents:
            for start in range(0, max(1, len(texts)), _SENTENCES):
                part = texts[start : start + _SENTENCES]
                group.append((part, start + _SENTENCES >= len(texts)))
                size += len(part)
                if size >= _SENTENCES:
                    self._add(group)
                    group, size = [], 0
        self._add(group)

    def _add(self, group: list[tuple[list[str], bool]]) -> None:
        """Adds the ids of lists of texts, each with whether its document ends there.

        Texts without tokens do not count as sentences, except the two of a pair.
        """
        is_pair = self._preparation.objective == "infill"
        ids, starts = self._split([text for texts, _ in group for text in texts])
        sizes = iter(ids.lengths.tolist())
        end = self._sentences[-1]
        here = slice(end, end + len(ids.values))
        if here.stop > len(self._ids):  # NFD may give more characters than bytes
            self._ids = np.resize(self._ids, 2 * here.stop)
            self._starts = np.resize(self._starts, 2 * here.stop)
        self._ids[here] = ids.values
        if starts is not None:
            self._starts[here] = starts
        for texts, ends in group:
            for size in itertools.islice(sizes, len(texts)):
                if size or is_pair:
                    end += size
                    self._sentences.append(end)
            if ends and len(self._sentences) - 1 > self._documents[-1]:
                self._documents.append(len(self._sentences) - 1)

    def _split(self, texts: list[str]) -> tuple[Ragged, np.ndarray | None]:
        """The ids of texts, and where words begin, bool; None: words are not used."""
        if self._tools.chinese:
            return self._tools.chinese.batch_ids_and_starts(texts)
        ids = self._tools.tokenizer.batch_ids(texts)
        if self._tools.continuing is None:
            return ids, None
        return ids, ~self._tools.continuing[ids.values]
