"""The figures: their contestants, what is compared, and what must be reached."""

from __future__ import annotations

from typing import Any

from benchmarks.speed import rewrite_targets
from benchmarks.speed.figure import Figure, Maker
from benchmarks.speed.ratios import (
    Claim,
    at_least,
    at_most,
    duration,
    growth,
    memory,
    near_one,
    planned,
    reported,
    seconds,
    share_of_matmul,
    speed,
    whole_memory,
)
from benchmarks.speed.workloads import Shape

# -- contestants ----------------------------------------------------------------

SMALL = Shape(4, 256, 4, batch=32, length=128, steps=6)
BASE = Shape(12, 768, 12, batch=8, length=128, steps=3)
DEEP = Shape(12, 384, 12, batch=8, length=512, steps=2)
LONG = Shape(4, 256, 4, batch=64, length=512, steps=2)
HALF = LONG._replace(batch=32)
TAGS = Shape(12, 384, 12, batch=32, length=64)
QUESTIONS = Shape(12, 384, 12, batch=8, length=384)
PREDICTED = SMALL._replace(batch=64)

OURS, GOOGLE, TORCH = "bert_mgpu", "google-research/bert", "transformers"
BF16, TORCH_BF16 = "bert_mgpu bf16", "transformers bf16"
COMPILED, COMPILED_BF16 = "transformers, compiled", "transformers bf16, compiled"


def ours(shape: Shape, **options: Any) -> Maker:
    return "ours", {"shape": shape, **options}


def google(shape: Shape, **options: Any) -> Maker:
    return "google", {"shape": shape, **options}


def torch(shape: Shape, **options: Any) -> Maker:
    return "transformers", {"shape": shape, **options}


def tags(whose: str, shape: Shape, **options: Any) -> Maker:
    return f"{whose}_tags", {"shape": shape, **options}


def answers(whose: str, **options: Any) -> Maker:
    return f"{whose}_answers", {"shape": QUESTIONS, **options}


def pretrains(whose: str, **options: Any) -> Maker:
    return f"{whose}_pretrains", {"shape": SMALL, **options}


# Contestants whose activations take more than 1 GB.
PLANNED = {
    "4 x 256, 32 rows of 512": ours(HALF._replace(steps=1)),
    "12 x 384, 8 rows of 512": ours(DEEP._replace(steps=1)),
    "the same, 32 rows, --recompute=block": ours(
        DEEP._replace(batch=32, steps=1), recompute="block"
    ),
    "BERT-base, 32 rows of 128, bfloat16": ours(
        BASE._replace(batch=32, steps=1), precision="bfloat16"
    ),
}


def bf16(shape: Shape) -> dict[str, Maker]:
    return {
        BF16: ours(shape, precision="bfloat16"),
        TORCH_BF16: torch(shape, precision="bfloat16"),
        COMPILED_BF16: torch(shape, precision="bfloat16", compiled=True),
    }


def float32(shape: Shape) -> dict[str, Maker]:
    return {
        OURS: ours(shape),
        GOOGLE: google(shape),
        TORCH: torch(shape),
        COMPILED: torch(shape, compiled=True),
        "matmul": ("matmul", {}),
    }


def towers_of_a_gpu(precision: str, batch: int, length: int) -> Figure:
    """A batch divided among 1, 2 and 4 towers of one GPU."""
    shape = BASE._replace(batch=batch, length=length, steps=20)
    contestants = {
        f"{count} x {batch // count}": ours(shape, precision=precision, n_gpus=count)
        for count in (1, 2, 4)
    }
    one, *more = contestants
    return Figure(
        f"BERT-base, {batch} rows of {length} tokens on one GPU, {precision}",
        {**contestants, "matmul": ("matmul", {"precision": precision})},
        {
            "1 tower: share of the speed of one product (MFU)": [
                Claim(share_of_matmul(one))
            ],
            **{f"{many}: speed / {one}": [Claim(speed(many, one))] for many in more},
        },
    )


# -- the table ------------------------------------------------------------------

FIGURES = {
    "small": Figure(
        "4 x 256, batch 32, length 128, float32",
        float32(SMALL),
        {
            "speed / google-research/bert": [at_least(1.25, speed(OURS, GOOGLE))],
            "speed / transformers": [at_least(1.8, speed(OURS, TORCH))],
            "speed / transformers, compiled": [Claim(speed(OURS, COMPILED))],
            "share of the speed of one product": [Claim(share_of_matmul(OURS))],
        },
    ),
    "base": Figure(
        "BERT-base, batch 8, length 128, float32",
        float32(BASE),
        {
            "speed / google-research/bert; or share of the speed of one product": [
                at_least(1.04, speed(OURS, GOOGLE)),
                at_least(0.95, share_of_matmul(OURS)),
            ],
            "speed / transformers": [at_least(1.8, speed(OURS, TORCH))],
            "speed / transformers, compiled": [Claim(speed(OURS, COMPILED))],
        },
    ),
    "small_bf16": Figure(
        "4 x 256, batch 32, length 128, bfloat16",
        bf16(SMALL),
        {
            "speed / transformers bf16": [at_least(1.15, speed(BF16, TORCH_BF16))],
            "speed / transformers bf16, compiled": [Claim(speed(BF16, COMPILED_BF16))],
        },
    ),
    "base_bf16": Figure(
        "BERT-base, batch 8, length 128, bfloat16",
        bf16(BASE) | {GOOGLE: google(BASE)},
        {
            "speed / google-research/bert in float32": [
                at_least(1.3, speed(BF16, GOOGLE))
            ],
            "speed / transformers bf16": [at_least(1.15, speed(BF16, TORCH_BF16))],
            "speed / transformers bf16, compiled": [Claim(speed(BF16, COMPILED_BF16))],
        },
    ),
    "headlines": Figure(
        "4 x 256, 32 headlines a step, max_seq_length 128",
        {
            **{p: ours(SMALL, padding=p) for p in ("longest", "bucket", "pack")},
            GOOGLE: google(SMALL, padding="max_length"),
            "trainer": ("trainer", {"shape": SMALL}),
            "trainer, compiled": ("trainer", {"shape": SMALL, "compiled": True}),
        },
        {
            "longest: speed / google-research/bert": [
                at_least(6, speed("longest", GOOGLE))
            ],
            "bucket: speed / google-research/bert": [Claim(speed("bucket", GOOGLE))],
            "pack: speed / google-research/bert": [at_least(6, speed("pack", GOOGLE))],
            "pack: speed / transformers, padding and grouping as its Trainer": [
                at_least(2, speed("pack", "trainer"))
            ],
            "pack: speed / the same, compiled": [
                Claim(speed("pack", "trainer, compiled"))
            ],
        },
    ),
    "tags": Figure(
        "entities of cluener, 12 x 384, batch 32, length 64, float32",
        {
            **{p: tags("ours", TAGS, padding=p) for p in ("bucket", "pack")},
            "bucket, --crf": tags("ours", TAGS, padding="bucket", crf=True),
            TORCH: tags("transformers", TAGS),
            COMPILED: tags("transformers", TAGS, compiled=True),
        },
        {
            "equal batches: speed / transformers": [
                at_least(1.15, speed("bucket", TORCH))
            ],
            "equal batches: speed / transformers, compiled": [
                Claim(speed("bucket", COMPILED))
            ],
            "pack: speed / transformers, batches of similar lengths": [
                at_least(1.1, speed("pack", TORCH))
            ],
            "--crf: speed / without": [at_least(0.9, speed("bucket, --crf", "bucket"))],
        },
    ),
    "tags_bf16": Figure(
        "entities of cluener, 12 x 384, batch 32, length 64, bfloat16",
        {
            BF16: tags("ours", TAGS, padding="bucket", precision="bfloat16"),
            TORCH_BF16: tags("transformers", TAGS, precision="bfloat16"),
        },
        {
            "equal batches: speed / transformers bf16": [
                at_least(1.2, speed(BF16, TORCH_BF16))
            ],
        },
    ),
    "tags_predict": Figure(
        "entities of 1,343 texts predicted, 12 x 384, batch 64, length 64, float32",
        {
            OURS: ("ours_tags_predicts", {"shape": TAGS._replace(batch=64)}),
            f"{OURS} --crf": (
                "ours_tags_predicts",
                {"shape": TAGS._replace(batch=64), "crf": True},
            ),
            TORCH: ("transformers_tags_predicts", {"shape": TAGS._replace(batch=64)}),
        },
        {
            "speed / transformers without a decoder": [Claim(speed(OURS, TORCH))],
            "--crf: speed / without": [Claim(speed(f"{OURS} --crf", OURS))],
        },
    ),
    "tags_decode": Figure(
        "the best tags of 100,000 sentences of 40 units, 21 tags, and probabilities",
        {OURS: ("ours_decodes", {"sentences": 100_000, "units": 40})},
        {"seconds": [at_most(5, seconds(OURS))]},
    ),
    "answers": Figure(
        "answers of cmrc2018, 12 x 384, batch 8, length 384, float32",
        {OURS: answers("ours"), TORCH: answers("transformers")},
        {"equal batches: speed / transformers": [at_least(1.05, speed(OURS, TORCH))]},
    ),
    "answers_bf16": Figure(
        "answers of cmrc2018, 12 x 384, batch 8, length 384, bfloat16",
        {
            BF16: answers("ours", precision="bfloat16"),
            TORCH_BF16: answers("transformers", precision="bfloat16"),
        },
        {
            "equal batches: speed / transformers bf16": [
                at_least(1.05, speed(BF16, TORCH_BF16))
            ],
        },
    ),
    "answers_predict": Figure(
        "60 questions of cmrc2018 answered, 12 x 384, batch 8, length 384, float32",
        {
            OURS: ("ours_answers_predicts", {"shape": QUESTIONS}),
            TORCH: ("transformers_answers_predicts", {"shape": QUESTIONS}),
        },
        {"speed / transformers without a choice": [Claim(speed(OURS, TORCH))]},
    ),
    **rewrite_targets.FIGURES,
    "pretrain": Figure(
        "4 x 256, batch 32, length 128, float32: masked words and next sentences",
        {
            **{p: pretrains("ours", padding=p) for p in ("max_length", "pack")},
            GOOGLE: pretrains("google"),
            TORCH: pretrains("transformers"),
            COMPILED: pretrains("transformers", compiled=True),
        },
        {
            "equal padding: speed / google-research/bert": [
                at_least(1.25, speed("max_length", GOOGLE))
            ],
            "pack: speed / google-research/bert": [Claim(speed("pack", GOOGLE))],
            "equal padding: speed / transformers": [
                at_least(1.8, speed("max_length", TORCH))
            ],
            "equal padding: speed / transformers, compiled": [
                Claim(speed("max_length", COMPILED))
            ],
            "pack: speed / transformers": [Claim(speed("pack", TORCH))],
            "pack: speed / transformers, compiled": [Claim(speed("pack", COMPILED))],
        },
    ),
    "towers": Figure(
        "4 x 256, length 128, float32: 4 towers of 8 rows on one device",
        {OURS: ours(SMALL), "4 towers": ours(SMALL, n_gpus=4)},
        {"speed / 1 tower of 32": [at_least(0.97, speed("4 towers", OURS))]},
    ),
    "predict": Figure(
        "4 x 256, 10,000 headlines predicted, 64 a batch",
        {
            OURS: ("ours_predicts", {"shape": PREDICTED}),
            "sorted": ("ours_predicts", {"shape": PREDICTED, "packs": False}),
            TORCH: ("transformers_predicts", {"shape": PREDICTED}),
            COMPILED: ("transformers_predicts", {"shape": PREDICTED, "compiled": True}),
        },
        {
            "speed / transformers": [at_least(1.5, speed(OURS, TORCH))],
            "speed / transformers, compiled": [Claim(speed(OURS, COMPILED))],
            "sorted without packing: speed / transformers": [
                Claim(speed("sorted", TORCH))
            ],
        },
    ),
    "recompute": Figure(
        "12 x 384, length 512: --recompute=block",
        {OURS: ours(DEEP), "block": ours(DEEP, recompute="block")},
        {
            "memory of a row / without": [
                at_most(
                    0.35,
                    growth(("block, 24 rows", "block, 32 rows"), ("4 rows", "12 rows")),
                )
            ],
            "peak above the start, 8 rows / without": [
                Claim(memory("block, 8 rows", "8 rows"))
            ],
            "time / without": [at_most(1.4, duration("block", OURS))],
        },
        {
            # All need more than XLA's compiler, which would otherwise be the peak.
            "4 rows": ours(DEEP._replace(batch=4)),
            "8 rows": ours(DEEP),
            "12 rows": ours(DEEP._replace(batch=12)),
            "block, 8 rows": ours(DEEP, recompute="block"),
            "block, 24 rows": ours(DEEP._replace(batch=24), recompute="block"),
            "block, 32 rows": ours(DEEP._replace(batch=32), recompute="block"),
        },
    ),
    "accumulation": Figure(
        "4 x 256, length 512: 64 rows in 4 turns of 16",
        {OURS: ours(LONG), "4 turns": ours(LONG, gradient_accumulation_steps=4)},
        {
            "peak above the start / in one": [
                at_most(0.4, memory("4 turns of 16", "64 rows"))
            ],
            "memory of a row / in one": [
                Claim(growth(("4 turns of 8", "4 turns of 16"), ("32 rows", "64 rows")))
            ],
            "time / in one": [at_most(1.1, duration("4 turns", OURS))],
        },
        {
            "32 rows": ours(HALF),
            "64 rows": ours(LONG),
            "4 turns of 8": ours(HALF, gradient_accumulation_steps=4),
            "4 turns of 16": ours(LONG, gradient_accumulation_steps=4),
        },
    ),
    "freeze": Figure(
        "BERT-base, batch 8, length 128: embeddings and 6 layers frozen",
        {
            OURS: ours(BASE),
            "frozen": ours(BASE, freeze_half=True),
            "matmul": ("matmul", {}),
        },
        {
            "time / all trained": [at_most(0.7, duration("frozen", OURS))],
            "share of the speed of one product": [Claim(share_of_matmul("frozen"))],
        },
    ),
    "slots": Figure(
        "BERT-base: --slot_bits=8",
        {OURS: ours(BASE, slot_bits="32"), "8 bits": ours(BASE, slot_bits="8")},
        {
            "bytes of all slots / float32": [
                at_most(0.3, reported("slot_bytes", "8 bits", "slot_bytes", OURS))
            ],
            "bytes of those in 8 bits / float32": [
                Claim(
                    reported("quantised_bytes", "8 bits", "as_float32_bytes", "8 bits")
                )
            ],
            "peak of the process, 1 row / float32": [
                Claim(whole_memory("8 bits, 1 row", "float32, 1 row"))
            ],
            "time / float32": [Claim(duration("8 bits", OURS))],
        },
        {
            "float32, 1 row": ours(BASE._replace(batch=1)),
            "8 bits, 1 row": ours(BASE._replace(batch=1), slot_bits="8"),
        },
    ),
    "plan": Figure(
        "peak above the start: what --plan says / what a run took",
        {},
        {name: [near_one(0.2, planned(name))] for name in PLANNED},
        PLANNED,
        pooled=True,
    ),
    "tokenizer": Figure(
        "45,000 headlines to ids on one thread, a new tokenizer each time",
        {},  # tokenizer.py measures it
        {
            "speed / Hugging Face's Rust": [
                at_least(1.4, speed("bert_mgpu, cold", "Hugging Face tokenizers, Rust"))
            ],
            "texts with the ids of google-research/bert / all": [
                at_least(1.0, reported("as_google", "bert_mgpu, cold", "texts", "all"))
            ],
        },
    ),
}

# Measured in addition where there is a GPU.
GPU_FIGURES = {
    f"gpu_{name}_{length}": towers_of_a_gpu(precision, batch, length)
    for name, precision in (("fp32", "float32"), ("bf16", "bfloat16"))
    for batch, length in ((64, 128), (16, 512))
}
