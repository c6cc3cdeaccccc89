"""`bert_mgpu.load_encoder`: a model without a head, which encodes texts."""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from bert_mgpu.api import loading
from bert_mgpu.api.loading import LoadedParts, own_devices, silent_load
from bert_mgpu.api.texts import Text, texts_of
from bert_mgpu.config import parsing
from bert_mgpu.config.features import POOLINGS, FeaturesConfig
from bert_mgpu.core import log
from bert_mgpu.core.errors import NotFinite, UserError, short_repr

if TYPE_CHECKING:  # it imports TensorFlow
    from bert_mgpu.runs.vectors import TextVectors


class Encoder(LoadedParts["TextVectors"]):
    """A pretrained encoder, made by `load_encoder`; threads may share it.

    Use it in a `with` block, or call `close`, to free its memory.
    """

    def __init__(self, vectors: TextVectors, path: str):
        super().__init__(vectors, path)
        self.path = path

    def __repr__(self) -> str:
        return f"<Encoder of {self.path}>"

    def encode(
        self,
        texts: str | Iterable[Text],
        pooling: str = "mean",
        normalize: bool = False,
    ) -> np.ndarray:
        """The vectors of texts: see `bert_mgpu.Model.encode`."""
        return encode(
            texts,
            pooling,
            normalize,
            lock=self._lock,
            vectors_of_model=self._open_parts,
        )


def encode(
    texts: Any,
    pooling: str,
    normalize: bool,
    *,
    lock: threading.Lock,
    vectors_of_model: Callable[[], TextVectors],
) -> np.ndarray:
    """The vectors of texts: see `bert_mgpu.Model.encode`.

    lock: held while a block of texts is encoded.
    """
    if pooling not in POOLINGS:
        raise UserError(
            f"pooling={short_repr(pooling)}: pass one of {', '.join(POOLINGS)}"
        )
    if not isinstance(normalize, bool):
        raise UserError(f"normalize={short_repr(normalize)}: pass True or False")
    if not loading.are_texts(texts):
        raise UserError(f"{short_repr(texts)}: {loading.NO_TEXTS}")
    one = isinstance(texts, (str, Mapping))
    pairs: Iterator[Any] = (
        texts_of(text, number) for number, text in enumerate([texts] if one else texts)
    )
    parts: list[np.ndarray] = []
    while (block := [*itertools.islice(pairs, loading.BLOCK)]) or not parts:
        with lock, log.quiet():
            try:
                encoded = vectors_of_model().encode(block, pooling, normalize)
            except NotFinite as error:
                before = sum(map(len, parts))
                raise error.of(f"texts[{before + error.row}]") from None
        parts.append(encoded.vectors)
    found = np.concatenate(parts)
    return found[0] if one else found


def load_encoder(
    path: str | os.PathLike[str],
    *,
    vocab_file: str | os.PathLike[str] | None = None,
    bert_config_file: str | os.PathLike[str] | None = None,
    do_lower_case: bool | None = None,
    max_seq_length: int = 128,
    batch_size: int = 32,
    n_gpus: int = 1,
    device: str = "auto",
    precision: str = "float32",
) -> Encoder:
    """Loads an encoder from anything --init_checkpoint takes; no head is needed.

    That is a Google TF1 checkpoint, a Hugging Face folder or an output_dir. The other
    arguments are flags of extract_features.py. Texts longer than max_seq_length are
    truncated without a message. Nothing is printed or written.

    Raises:
      UserError: there is no model, or its files do not match each other.
      OutOfMemory: its weights do not fit into memory.
    """
    values = {
        "init_checkpoint": path,
        "vocab_file": vocab_file,
        "bert_config_file": bert_config_file,
        "do_lower_case": do_lower_case,
        "max_seq_length": max_seq_length,
        "batch_size": batch_size,
        "n_gpus": n_gpus,
        "device": device,
        "precision": precision,
    }
    config, _ = parsing.parse(["", *parsing.arguments(values)], "", FeaturesConfig)
    with silent_load(loading.path_of(path)):
        devices = own_devices(config.device, config.precision)
        from bert_mgpu.runs import extract_features

        return Encoder(extract_features.load_vectors(config, devices), str(path))
