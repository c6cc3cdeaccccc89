"""Vectors of lines by transformers and torch alone."""

import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import transformers

from bert_mgpu.model.config import BertConfig
from tests.reference import transformers_model


def save(folder: pathlib.Path, config: BertConfig, vocab: Sequence[str]) -> Any:
    """Writes a model of transformers' own random weights, and returns it."""
    torch.manual_seed(5)
    model = transformers_model.build(config, 2, "BertModel")
    model.save_pretrained(folder)
    (folder / "vocab.txt").write_text("".join(f"{word}\n" for word in vocab))
    return model.eval()


def mean(
    model: Any,
    folder: pathlib.Path,
    texts: Sequence[str],
    *,
    normalize: bool,
    length: int = 16,
) -> np.ndarray:
    """sentence-transformers' mean pooling (its README, with transformers alone)."""
    tokenizer = transformers.BertTokenizerFast.from_pretrained(folder)
    found = []
    for start in range(0, len(texts), 16):
        encoded = tokenizer(
            texts[start : start + 16],
            padding=True,
            truncation=True,
            max_length=length,
            return_tensors="pt",
        )
        with torch.no_grad():
            output = model(**encoded)
        mask = encoded["attention_mask"].unsqueeze(-1).float()
        sums = (output.last_hidden_state * mask).sum(1)
        vectors = sums / mask.sum(1).clamp(min=1e-9)
        if normalize:
            vectors = torch.nn.functional.normalize(vectors, p=2, dim=1)
        found.append(vectors.numpy())
    return np.concatenate(found)


def pooler(model: Any, ids: Sequence[int]) -> np.ndarray:
    """float32 [1, H]"""
    with torch.no_grad():
        return model(input_ids=torch.tensor([ids])).pooler_output.numpy()
