"""WordPiece ids of texts, equal to those of google-research/bert's FullTokenizer.

    tokenizer = Tokenizer("vocab.txt")
    tokenizer.tokenize("unaffable")          # ["una", "##ffa", "##ble"]
    tokenizer.batch_ids(["one", "two"])      # Ragged int32, no [CLS], no [SEP]

Words recur, so a word is cut into pieces once and remembered. The cutting is plain
Python on purpose. A TensorFlow call here would start the devices before the run has
configured them, in every worker process too; and with tensorflow-text's kernel for
the new words of a batch, a first pass over texts was between a third slower (Chinese
headlines) and a fifth faster (short English ones).
"""

from __future__ import annotations

import array
import functools
import hashlib
import json
import pathlib
import unicodedata
from collections.abc import Sequence

import numpy as np

from bert_mgpu.core.errors import UserError, short_repr
from bert_mgpu.core.rows import Ragged
from bert_mgpu.text.normalization import Normalizer, Word

_VERSION = 1  # raise it when the ids of any text change: caches depend on it
_MOST_BYTES = 64 << 20  # of a vocabulary; those in use have less than 5 MB
MAX_WORD = 200  # characters; Google makes longer words [UNK]
_MEMO_WORDS = 1 << 18  # remembered words, about 40 MB
_ID_BYTES = 4  # int32


class Tokenizer:
    """Google's tokenizer over one vocabulary.

    Any `str` is accepted, even with lone surrogates (they are in no vocabulary, so
    their word is [UNK]). Objects can be pickled, for worker processes.
    """

    def __init__(
        self, vocab_file: str | pathlib.Path, do_lower_case: bool = True
    ) -> None:
        """Reads the vocabulary, one token a line. Raises UserError for a bad one."""
        self._vocab_file = vocab_file
        self.do_lower_case = do_lower_case
        self.tokens: list[str] = _read_vocab(pathlib.Path(vocab_file))
        # Of equal lines the last one counts, as in Google's load_vocab.
        self.vocab = {token: index for index, token in enumerate(self.tokens)}
        self.cls_id = self._special_id("[CLS]")
        self.sep_id = self._special_id("[SEP]")
        self.unk_id = self._special_id("[UNK]")
        self.pad_id = self.vocab.get("[PAD]", 0)  # Google pads with zeros
        self._normalizer = Normalizer(do_lower_case)
        self._pieces = Pieces(self.vocab, self.unk_id)

    @property
    def mask_id(self) -> int:
        """The id of [MASK]. Raises UserError where the vocabulary lacks it."""
        return self._special_id("[MASK]")

    @functools.cached_property
    def fingerprint(self) -> str:
        """A hash for cache keys: tokenizers with the same hash give the same ids."""
        facts = [
            self.tokens,
            self.do_lower_case,
            unicodedata.unidata_version,
            _VERSION,
        ]
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()

    @functools.cached_property
    def words_hash(self) -> str:
        """A hash of the tokens and the casing, by which ids are read."""
        facts = [self.tokens, self.do_lower_case]
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()

    def batch_ids(self, texts: Sequence[str]) -> Ragged:
        """The ids of each text, without [CLS] and [SEP]; the values are read-only."""
        words, pieces = self._normalizer.words, self._pieces.__getitem__
        rows = [b"".join(map(pieces, words(text))) for text in texts]
        offsets = np.zeros(len(rows) + 1, np.int64)
        np.cumsum([len(row) // _ID_BYTES for row in rows], out=offsets[1:])
        return Ragged(np.frombuffer(b"".join(rows), np.int32), offsets)

    def ids(self, text: str) -> list[int]:
        return self.batch_ids([text]).values.tolist()

    def tokenize(self, text: str) -> list[str]:
        return [self.tokens[index] for index in self.ids(text)]

    def ids_with_offsets(self, text: str) -> list[tuple[int, int, int]]:
        """(id, start, end) of each piece, which stands at text[start:end].

        [UNK] has the span of its word, and all pieces of a character (Hangul is
        decomposed) have the span of that. Dropped accents belong to no span.
        """
        located = []
        for word, sources in self._normalizer.sourced_words(text):
            start = 0
            for index in memoryview(self._pieces[word]).cast("i"):
                size = len(self.tokens[index].removeprefix("##" if start else ""))
                end = len(word) if index == self.unk_id else start + size
                # The text may have the word's marks in another order.
                span = sources[start:end]
                located.append((index, min(span), max(span) + 1))
                start = end
        return located

    def words(self, text: str) -> list[Word]:
        """The words that are cut into pieces, with their places in the text."""
        return self._normalizer.sourced_words(text)

    def _special_id(self, token: str) -> int:
        if token not in self.vocab:
            raise UserError(
                f"{self._vocab_file}: none of its {len(self.tokens)} lines is"
                f" {token}: pass the model's own vocab.txt as --vocab_file"
            )
        return self.vocab[token]


class Pieces(dict[str, bytes]):
    """Word -> ids of its pieces, int32 as bytes, which are joined to rows."""

    def __init__(self, vocab: dict[str, int], unk_id: int) -> None:
        super().__init__()
        self._vocab = vocab
        self._unknown = array.array("i", [unk_id]).tobytes()
        self._longest = max(map(len, vocab))

    def __missing__(self, word: str) -> bytes:
        if len(word) > MAX_WORD:  # not remembered: a sentence in Thai
            return self._unknown
        if len(self) >= _MEMO_WORDS:
            self.clear()
        self[word] = pieces = self._cut(word)
        return pieces

    def _cut(self, word: str) -> bytes:
        """The pieces, the longest match first (WordPiece); [UNK] where none matches."""
        ids = array.array("i")
        start = 0
        while start < len(word):
            prefix = "##" if start else ""
            for end in range(min(len(word), start + self._longest), start, -1):
                index = self._vocab.get(prefix + word[start:end])
                if index is not None:
                    break
            else:
                return self._unknown
            ids.append(index)
            start = end
        return ids.tobytes()


def _read_vocab(path: pathlib.Path) -> list[str]:
    """The lines, stripped, as TensorFlow's reader gives them to Google's code.

    Only \\n ends a line (U+2028 may stand in a token), and every \\r is dropped.
    """
    try:
        with path.open("rb") as file:
            content = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise UserError(
            f"{path}: cannot read the vocabulary: {error.strerror}"
        ) from None
    if len(content) > _MOST_BYTES:
        raise UserError(
            f"{path}: more than {_MOST_BYTES >> 20} MB: pass a vocabulary, a token a"
            " line"
        )
    tokens = []
    for number, line in enumerate(content.replace(b"\r", b"").splitlines(), start=1):
        try:
            tokens.append(line.decode().strip())
        except UnicodeDecodeError as error:
            raise UserError(
                f"{path}:{number}: {short_repr(line)} is not UTF-8 ({error.reason}):"
                " pass a vocabulary saved as UTF-8"
            ) from None
    if not any(tokens):
        raise UserError(f"{path}: empty: pass the model's own vocab.txt")
    return tokens
