"""The names of parameters in Google's TF1 code, which are ours, and in transformers.

One table serves both directions. transformers' Linear weights are [out, in], Google's
kernels [in, out]: these are transposed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple


class Row(NamedTuple):
    """The two names of a parameter; `{}` stands for the number of a layer."""

    google: str
    hugging_face: str
    transposed: bool


class Difference(NamedTuple):
    """The names in which two sets of parameters differ, each list sorted."""

    missing: list[str]
    unexpected: list[str]
    mismatched: list[str]  # in both, with different shapes


# The suffixes that parameters add to the name of their module.
_TABLE = (Row("", ".weight", False),)
_DENSE = (Row("/kernel", ".weight", True), Row("/bias", ".bias", False))
_NORM = (Row("/gamma", ".weight", False), Row("/beta", ".bias", False))
_BIAS = (Row("output_bias", "bias", False),)
_HEAD = (Row("output_weights", "weight", False), *_BIAS)

_EMBEDDINGS = ("bert/embeddings/", "bert.embeddings.")
_LAYER = ("bert/encoder/layer_{}/", "bert.encoder.layer.{}.")
_TRANSFORM = ("cls/predictions/transform/", "cls.predictions.transform.")
_MODULES = (
    (_EMBEDDINGS, "word_embeddings", "word_embeddings", _TABLE),
    (_EMBEDDINGS, "token_type_embeddings", "token_type_embeddings", _TABLE),
    (_EMBEDDINGS, "position_embeddings", "position_embeddings", _TABLE),
    (_EMBEDDINGS, "LayerNorm", "LayerNorm", _NORM),
    (_LAYER, "attention/self/query", "attention.self.query", _DENSE),
    (_LAYER, "attention/self/key", "attention.self.key", _DENSE),
    (_LAYER, "attention/self/value", "attention.self.value", _DENSE),
    (_LAYER, "attention/output/dense", "attention.output.dense", _DENSE),
    (_LAYER, "attention/output/LayerNorm", "attention.output.LayerNorm", _NORM),
    (_LAYER, "intermediate/dense", "intermediate.dense", _DENSE),
    (_LAYER, "output/dense", "output.dense", _DENSE),
    (_LAYER, "output/LayerNorm", "output.LayerNorm", _NORM),
    (("bert/", "bert."), "pooler/dense", "pooler.dense", _DENSE),
    (_TRANSFORM, "dense", "dense", _DENSE),
    (_TRANSFORM, "LayerNorm", "LayerNorm", _NORM),
    (("cls/", "cls."), "predictions/", "predictions.", _BIAS),
    (("cls/", "cls."), "seq_relationship/", "seq_relationship.", _HEAD),
    (("cls/", ""), "squad/", "qa_outputs.", _HEAD),
    (("", ""), "", "classifier.", _HEAD),
)
ROWS = tuple(
    Row(
        f"{scope}{google}{end.google}",
        f"{prefix}{hugging_face}{end.hugging_face}",
        end.transposed,
    )
    for (scope, prefix), google, hugging_face, ends in _MODULES
    for end in ends
)

# The parameters of transformers' models, by prefixes of Google's names.
CLASSIFIER, TAGGER, PRETRAINING, MASKED_WORDS, SPANS, ENCODER = (
    "BertForSequenceClassification",
    "BertForTokenClassification",
    "BertForPreTraining",
    "BertForMaskedLM",
    "BertForQuestionAnswering",
    "BertModel",
)
CLASSIFIERS = (CLASSIFIER, TAGGER)  # those that have labels
# Prefixes of parameters that neither program has -> their name, how to train without.
ONLY_OURS = {
    "crf/": ("conditional random field", "without --crf"),
    "segments/": ("attention over segments", "with --segment_pooling=mean or max"),
    "cls/slot/": ("ranking by words", "with --ad_slot=unk or mask"),
}
_UNPOOLED = ("bert/embeddings/", "bert/encoder/")
_POOLER = "bert/pooler/dense/kernel"
_SCOPES = {
    CLASSIFIER: ("bert/", "output_"),
    TAGGER: (*_UNPOOLED, "output_"),
    PRETRAINING: ("bert/", "cls/predictions/", "cls/seq_relationship/"),
    MASKED_WORDS: (*_UNPOOLED, "cls/predictions/"),
    SPANS: (*_UNPOOLED, "cls/squad/"),
    ENCODER: ("bert/",),
}
WORDS_BIAS = "cls/predictions/output_bias"
# The first of these head parameters that is present tells which model it is.
_HEADS = {
    "output_weights": CLASSIFIER,
    "cls/seq_relationship/output_weights": PRETRAINING,
    WORDS_BIAS: MASKED_WORDS,
    "cls/squad/output_weights": SPANS,
}

# Older and shorter spellings in Hugging Face files -> the names of the table.
# The last is one bias that some versions save under its second name.
_SPELLINGS = (
    (re.compile(r"^(embeddings|encoder|pooler)\."), r"bert.\1."),
    (re.compile(r"\.LayerNorm\.gamma$"), ".LayerNorm.weight"),
    (re.compile(r"\.LayerNorm\.beta$"), ".LayerNorm.bias"),
    (re.compile(r"^cls\.predictions\.decoder\.bias$"), "cls.predictions.bias"),
)

_NUMBER = re.compile(r"(?<=layer[_.])(0|[1-9]\d*)(?=[/.])")
_BY_GOOGLE = {row.google: row for row in ROWS}
_BY_HUGGING_FACE = {row.hugging_face: row for row in ROWS}


def row_by_google(name: str) -> Row | None:
    """Both names of the parameter with this Google name; None if unknown."""
    return _lookup(_BY_GOOGLE, name)


def row_by_hugging_face(name: str) -> Row | None:
    """Both names of a Hugging Face parameter, in any of its spellings."""
    for pattern, replacement in _SPELLINGS:
        name = pattern.sub(replacement, name)
    return _lookup(_BY_HUGGING_FACE, name)


def _lookup(rows: Mapping[str, Row], name: str) -> Row | None:
    number = _NUMBER.search(name)
    row = rows.get(_NUMBER.sub("{}", name))
    if row is None or number is None:
        return row
    google, hugging_face, transposed = row
    return Row(
        google.replace("{}", number[0]),
        hugging_face.replace("{}", number[0]),
        transposed,
    )


def architecture_of(params: Iterable[str]) -> str:
    """The transformers class of a model with these parameters, in Google's naming."""
    names = set(params)
    found = next((_HEADS[name] for name in _HEADS if name in names), ENCODER)
    return TAGGER if found == CLASSIFIER and _POOLER not in names else found


def rows_of_architecture(architecture: str, num_hidden_layers: int) -> list[Row]:
    """Every parameter of a transformers class, by both names."""
    scope = "bert." if architecture == ENCODER else ""  # BertModel is that part itself
    return [
        Row(
            row.google.format(i),
            row.hugging_face.format(i).removeprefix(scope),
            row.transposed,
        )
        for row in ROWS
        if row.google.startswith(_SCOPES[architecture])
        for i in range(num_hidden_layers if "{}" in row.google else 1)
    ]


def describe_difference(
    wanted: Mapping[str, tuple[int, ...]], stored: Mapping[str, tuple[int, ...]]
) -> Difference:
    """The difference between the shapes of a model and those of stored weights."""
    return Difference(
        missing=sorted(wanted.keys() - stored.keys()),
        unexpected=sorted(stored.keys() - wanted.keys()),
        mismatched=sorted(
            name
            for name in wanted.keys() & stored.keys()
            if tuple(wanted[name]) != tuple(stored[name])
        ),
    )
