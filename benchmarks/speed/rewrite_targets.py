"""The figures for rewriting texts."""

from __future__ import annotations

from benchmarks.speed.figure import Figure, Maker
from benchmarks.speed.ratios import (
    Claim,
    at_least,
    at_most,
    memory_with,
    per_pass,
    rate,
    speed,
)
from benchmarks.speed.workloads import Shape

OURS, CACHED, UNCACHED = "bert_mgpu", "bert2bert, cached", "UniLM, uncached"
PASS, REWRITING, CLASSIFIER = "one pass", "rewriting", "classifier"
UTTERANCES = Shape(12, 384, 12, batch=32, length=80)
SMALL = Shape(4, 256, 4, batch=32, length=80)
SENTENCES = Shape(6, 384, 12, batch=32, length=128)


def _made(maker: str, data: str, shape: Shape, **options: bool) -> Maker:
    return maker, {"data": data, "shape": shape, **options}


def _peers(data: str, shape: Shape, **options: bool) -> dict[str, Maker]:
    return {
        OURS: _made("ours_rewrites", data, shape, **options),
        CACHED: _made("bert2bert_rewrites", data, shape, **options),
        UNCACHED: _made("unilm_rewrites", data, shape, **options),
    }


def _one_by_one(data: str, shape: Shape, target: float) -> Figure:
    return Figure(
        f"{data} rewritten one by one, {shape.layers} x {shape.hidden}, float32",
        _peers(data, shape, one_by_one=True),
        {
            "speed / bert2bert of transformers, with its cache": [
                at_least(target, speed(OURS, CACHED))
            ],
            "speed / the encoder from left to right, without a cache": [
                Claim(speed(OURS, UNCACHED))
            ],
        },
    )


def _batches(data: str, shape: Shape, target: float | None) -> Figure:
    """target: texts per second that must be reached; None: only reported."""
    absolute = rate(OURS)
    return Figure(
        f"{data} rewritten, {shape.layers} x {shape.hidden}, batch 32, float32",
        {**_peers(data, shape), PASS: _made("ours_passes", data, shape)},
        {
            "speed / the encoder from left to right, without a cache": [
                at_least(3, speed(OURS, UNCACHED))
            ],
            "speed / bert2bert of transformers, with its cache": [
                Claim(speed(OURS, CACHED))
            ],
            "texts a second": [
                Claim(absolute) if target is None else at_least(target, absolute)
            ],
            "speed of a pass within it / of a pass alone": [
                at_least(0.8, per_pass(OURS, PASS))
            ],
            "peak above the start / a classifier's and the logits of words": [
                at_most(1.1, memory_with(REWRITING, CLASSIFIER, "word_logits_mb"))
            ],
        },
        {
            REWRITING: _made("ours_rewrites", data, shape),
            CLASSIFIER: _made("ours_passes", data, shape, classifies=True),
        },
    )


FIGURES = {
    "utterances_1": _one_by_one("utterances", UTTERANCES, 1.5),
    "sentences_1": _one_by_one("sentences", SENTENCES, 3),
    "utterances": _batches("utterances", UTTERANCES, 40),
    "utterances_small": _batches("utterances", SMALL, 250),
    "sentences": _batches("sentences", SENTENCES, None),
}
