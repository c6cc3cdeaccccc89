"""The tokenizer of an exported model with tensorflow-text's kernel for WordPiece.

Texts are split into words as in `GraphTokenizer`: `tensorflow_text.BertTokenizer` folds
by NFKC, which Google's code does not. The kernel takes any vocabulary; that of
`FastWordpieceTokenizer` rejects one with a duplicate line.
"""

from __future__ import annotations

import importlib.util

import tensorflow as tf

from bert_mgpu.core import extras
from bert_mgpu.core.errors import UserError
from bert_mgpu.export.graph_tokenizer import GraphTokenizer
from bert_mgpu.text.tokenization import MAX_WORD, Tokenizer

_MOST_BYTES = 4  # of a character in UTF-8
_UNKNOWN = " "  # never a token: the lines of a vocabulary are stripped


class KernelTokenizer(GraphTokenizer):
    """A `GraphTokenizer` that loads only where tensorflow_text was imported."""

    needs = "tensorflow_text"

    def __init__(self, tokenizer: Tokenizer):
        import tensorflow_text

        super().__init__(tokenizer)
        self._kernel = tensorflow_text.WordpieceTokenizer(
            self._vocab,
            max_bytes_per_word=_MOST_BYTES * MAX_WORD,
            max_chars_per_token=self._longest,
            token_out_type=tf.int32,
        )

    def _pieces(self, words: tf.Tensor) -> tf.RaggedTensor:
        """WordPiece. The kernel limits a word's bytes, Google's code its characters."""
        whole = tf.strings.length(words, "UTF8_CHAR") <= MAX_WORD
        return self._kernel.tokenize(tf.where(whole, words, _UNKNOWN))


# Value of --export_tokenizer -> class.
IN_GRAPH: dict[str, type[GraphTokenizer]] = {
    "tf": GraphTokenizer,
    "tf_text": KernelTokenizer,
}


def check(name: str) -> None:
    """Raises UserError where the package that a tokenizer needs is missing."""
    needs = IN_GRAPH[name].needs
    if needs and importlib.util.find_spec(needs) is None:
        raise UserError(
            f"--export_tokenizer={name} needs {needs}: {extras.advice(name)}"
        )
