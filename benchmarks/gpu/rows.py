"""The rows, most important first: the first nine minutes answer what matters most."""

from __future__ import annotations

from typing import Any

from benchmarks.gpu.book import Row

FIRST = (
    9 * 60
)  # seconds for the rows up to LAST_OF_FIRST, including the facts of the card
LAST_OF_FIRST = "tf32-512"
ALL_OF_ONE_CARD = 45 * 60
FACTS_SECONDS = 20
# Tokens per row -> rows of a step if the card has room: 32,768 tokens.
_ROWS = {128: 256, 512: 64}
_BASE, _MINILM = (12, 768, 12), (6, 384, 12)


def _step(
    precision: str, length: int, seconds: float, like: str = "", **more: Any
) -> Row:
    options = {"batch": _ROWS[length], "length": length, "precision": precision}
    judged = precision == "bfloat16" and length == 512 and not more
    wanted = "at least 50 % of the dense peak" if judged else ""
    name = "-".join([precision, str(length), *(f"{k}-{v}" for k, v in more.items())])
    flags = "".join(f", --{flag}={value}" for flag, value in more.items())
    return Row(
        name,
        f"BERT-base, {precision}, {length} tokens{flags}: how fast is a step?",
        "speed:step",
        seconds,
        options | more | {"wanted": judged},
        wanted,
        like=like,
    )


def _trace(
    name: str, model: tuple[int, int, int], batch: int, length: int, like: str = ""
) -> Row:
    size = "BERT-base" if model == _BASE else f"{model[0]} x {model[1]}"
    return Row(
        name,
        f"{size}, bfloat16, {batch} x {length}: what does the card do in a step?",
        "trace:step",
        75,
        {"model": [*model, batch, length], "precision": "bfloat16"},
        like=like,
    )


def _torch(length: int, compiled: bool) -> Row:
    how = "compiled" if compiled else "eager"
    return Row(
        f"transformers-{how}-{length}",
        f"transformers, {how}, BERT-base, bfloat16, {length} tokens",
        "peers:trains",
        90 if compiled else 60,
        {"batch": _ROWS[length], "length": length, "compiled": compiled},
        needs=("torch", "transformers"),
    )


def _several(cards: int) -> list[Row]:
    judged = cards == 8
    scaling = [
        Row(
            f"{cards}-cards-{length}",
            f"BERT-base, bfloat16, {length} tokens on {cards} cards",
            "several:scaling",
            180,
            {"cards": cards, "batch": _ROWS[length], "length": length}
            | {"judged": judged},
            f"at least 95 % of {cards} times one card" * judged,
            cards,
            like="" if (cards, length) == (2, 512) else "2-cards-512",
        )
        for length in (512, 128)
    ]
    equal = Row(
        f"{cards}-cards-equal",
        f"Do {cards} cards train what one does?",
        "exact:equal_cards",
        100,
        {"cards": cards},
        "within 1e-4 of each tensor's largest value",
        cards,
        like="" if cards == 2 else "2-cards-equal",
    )
    too_much = Row(
        f"{cards}-cards-out-of-memory",
        f"Does a run on {cards} cards whose batch cannot fit end well?",
        "failing:by_script",
        240,
        {"cards": cards},
        "exit code 0 or 4",
        cards,
        like="" if cards == 2 else "2-cards-out-of-memory",
    )
    return [equal, too_much, *scaling]


def _plans() -> dict[str, dict[str, Any]]:
    long = {"batch": 16, "length": 512}
    return {
        "bfloat16": long | {"precision": "bfloat16"},
        "float32": long | {"precision": "float32"},
        "blocks recomputed": long | {"precision": "bfloat16", "recompute": "block"},
    }


def _attention() -> dict[str, dict[str, Any]]:
    long = {"batch": 32, "length": 512, "precision": "bfloat16"}
    return {kind: long | {"recompute": kind} for kind in ("none", "attention")}


ROWS: tuple[Row, ...] = (
    Row(
        "selftest",
        "Does the card train what the CPU does?",
        "exact:selftest",
        50,
        wanted="within 1e-4 of each tensor's largest value",
    ),
    Row(
        "out-of-memory",
        "Is a batch that cannot fit recognised, and does a small one work then?",
        "failing:one_card",
        50,
        wanted="yes",
    ),
    _trace("trace", _BASE, 256, 128),
    _step("bfloat16", 512, 80),
    _step("bfloat16", 128, 70, like="bfloat16-512"),
    _step("tf32", 128, 70),
    _step("tf32", 512, 80, like="tf32-128"),
    # -- the first nine minutes end here
    _step("float32", 128, 80, like="tf32-128"),
    _step("float32", 512, 100, like="tf32-128"),
    _step("float16", 128, 75),
    _step("float16", 512, 85, like="float16-128"),
    Row(
        "places",
        "Does Python go on while a batch is placed on a card that works?",
        "speed:places",
        60,
        {"batch": 64, "length": 512},
        "no pause of a quarter of a step",
    ),
    Row(
        "kill-and-resume",
        "Is a run that was killed and resumed the same, with --deterministic?",
        "exact:kill_and_resume",
        110,
        wanted="every bit",
    ),
    *(row for cards in (2, 4, 8) for row in _several(cards)),
    Row(
        "deterministic",
        "Are two runs with --deterministic the same, and at which price?",
        "exact:deterministic",
        280,
        {"batch": 64, "length": 128},
        "every bit",
    ),
    Row(
        "plan",
        "Does a step hold what --plan says?",
        "memory:plan",
        210,
        {"settings": _plans()},
    ),
    Row(
        "attention-512",
        "What does --recompute=attention save and cost at 512 tokens?",
        "memory:attention",
        150,
        {"settings": _attention()},
    ),
    Row(
        "towers-on-a-card",
        "Short texts, 8 x 32 a tower: towers in turn, or merged into one batch?",
        "speed:towers_of_a_card",
        260,
        {"batch": 8, "length": 32, "towers": [1, 2, 4]},
    ),
    Row(
        "prediction",
        "How fast is prediction, 128 rows a batch?",
        "speed:predicts",
        120,
        {"batch": 128, "lengths": [32, 128], "precisions": ["float32", "bfloat16"]},
    ),
    _trace("trace-small", _MINILM, 32, 32, like="trace"),
    _step("bfloat16", 128, 60, like="bfloat16-512", xla="off"),
    _step("bfloat16", 128, 80, slot_bits="8"),
    *(_torch(length, compiled) for length in (128, 512) for compiled in (False, True)),
)
