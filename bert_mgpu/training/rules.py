"""Tables of settings for parameters, chosen by patterns that match their names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TypeVar

Value = TypeVar("Value")
Rules = Sequence[tuple[str, Value]]

# Gradients of embeddings are too uneven for 8 bits (Dettmers et al. 2022, 2.3).
SLOT_BITS: Rules[int] = (
    (r"_embeddings$", 32),
    (r"", 8),
)

# LAMB (You et al. 2020): whether a parameter's step is scaled to its norm. The excluded
# ones are those of google-research/albert, lamb_optimizer.py, with and without weight
# decay: exclude_from_layer_adaptation.
LAYER_ADAPTATION: Rules[bool] = (
    (r"LayerNorm|layer_norm|bias", False),
    (r"", True),
)

_EMBEDDINGS, _POOLER = r"^bert/embeddings/", r"^bert/pooler/"


def _layer(index: int) -> str:
    return rf"^bert/encoder/layer_{index}/"


def resolve(rules: Rules[Value], names: Iterable[str]) -> dict[str, Value]:
    """Name -> the value of the first rule whose pattern is found in the name.

    Raises ValueError for a name that no rule covers.
    """
    compiled = [(re.compile(pattern), value) for pattern, value in rules]
    values = {}
    for name in names:
        for pattern, value in compiled:
            if pattern.search(name):
                values[name] = value
                break
        else:
            raise ValueError(f"no rule covers the parameter {name}")
    return values


def weight_decay(decay: float) -> Rules[float]:
    """Weight decay with google-research/bert's exclude_from_weight_decay."""
    return ((r"LayerNorm|layer_norm|bias", 0.0), (r"", decay))


def layer_decay(layers: int, decay: float, head: float = 1.0) -> Rules[float]:
    """Factors of the learning rate that decrease with the distance from the head.

    As in BEiT (Bao et al. 2022): 1 for the pooler, `decay` for the top layer,
    decay ** (layers - i) for layer i = 0, 1, ... and decay ** (layers + 1) for the
    embeddings; `head` for parameters outside BERT. Further layers are not covered.
    """
    if not 0.0 < decay <= 1.0:
        raise ValueError(
            f"a layer-wise decay of {decay}: pass a factor above 0 and at most 1,"
            " such as 0.9"
        )
    return (
        (_EMBEDDINGS, decay ** (layers + 1)),
        *((_layer(index), decay ** (layers - index)) for index in range(layers)),
        (_POOLER, 1.0),
        (r"^(?!bert/)", head),
    )


def frozen(
    names: Iterable[str], pattern: str | None, layers: str | None, *, count: int
) -> list[str]:
    """The names that --freeze=PATTERN and --freeze_layers=LAYERS exclude from training.

    `layers` lists parts of an encoder of `count` layers: embeddings, pooler, numbers
    and ranges, as in "embeddings,0-5". None freezes nothing. Raises ValueError for a
    pattern or a part that freezes nothing, or if all parameters are frozen.
    """
    names = list(names)
    patterns = {}  # by flag
    if pattern is not None:
        patterns[f"--freeze={pattern}"] = _compiled(pattern)
    for part in layers.split(",") if layers is not None else ():
        layer_patterns = _layer_patterns(part.strip(), count)
        flag = f"--freeze_layers={part.strip()}"
        patterns[flag] = re.compile("|".join(layer_patterns))
    for flag, compiled in patterns.items():
        if not any(map(compiled.search, names)):
            raise ValueError(
                f"{flag} freezes none of the {len(names)} parameters: pass a part"
                f" of their names, such as {names[0]}"
            )
    frozen_names = [
        name for name in names if any(p.search(name) for p in patterns.values())
    ]
    if len(frozen_names) == len(names):
        raise ValueError(
            f"{' and '.join(patterns)}: all {len(names)} parameters are frozen:"
            " leave some to train"
        )
    return frozen_names


def frozen_in_words(
    frozen: Iterable[str], names: Iterable[str], count: int
) -> list[str]:
    """The frozen parameters in words: "embeddings", "layers 0-8", or single names.

    names: of all parameters; count: the number of layers of the encoder.
    """
    frozen, names, rest = {*frozen}, [*names], [*frozen]
    by_part = {"embeddings": _EMBEDDINGS, "pooler": _POOLER}
    by_part |= {str(index): _layer(index) for index in range(count)}
    whole = []
    for part, pattern in by_part.items():
        own = {name for name in names if re.search(pattern, name)}
        if own and own <= frozen:
            whole.append(part)
            rest = [name for name in rest if name not in own]
    layers = _ranges([int(part) for part in whole if part.isdigit()])
    shown = [part for part in whole if not part.isdigit()]
    if layers:
        several = "-" in layers or "," in layers
        shown.insert("embeddings" in shown, f"layer{'s' * several} {layers}")
    return [*shown, *rest]


def _ranges(numbers: Sequence[int]) -> str:
    """Increasing numbers as text, with runs of consecutive ones as ranges: "0-5,7"."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][-1] == number - 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ",".join(f"{r[0]}-{r[-1]}" if r[1:] else str(r[0]) for r in runs)


def frozen_layers(trained: Iterable[str], count: int) -> int:
    """How many of the `count` layers the backward pass does not reach."""
    names = list(trained)
    if any(re.search(_EMBEDDINGS, name) for name in names):
        return 0
    reached = (
        index
        for index in range(count)
        if any(re.search(_layer(index), name) for name in names)
    )
    return next(reached, count)


def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except re.error as error:
        raise ValueError(
            f"--freeze={pattern} is not a regular expression ({error}): pass one for"
            r" names of parameters, such as layer_[0-5]/"
        ) from None


def _layer_patterns(part: str, count: int) -> list[str]:
    """The patterns for a part of --freeze_layers: a word, a number or a range."""
    by_word = {"embeddings": _EMBEDDINGS, "pooler": _POOLER}
    if part in by_word:
        return [by_word[part]]
    numbers = re.fullmatch(r"([0-9]+)(?:-([0-9]+))?", part)
    if not numbers:
        raise ValueError(
            f"--freeze_layers has the part {part!r}: pass embeddings, pooler, layers"
            " and ranges of layers, such as embeddings,0-5"
        )
    first, last = int(numbers[1]), int(numbers[2] or numbers[1])
    if first > last:
        raise ValueError(
            f"--freeze_layers has the range {part}, which runs backwards: pass"
            f" {last}-{first}"
        )
    if last >= count:
        raise ValueError(
            f"--freeze_layers={part}: there is no layer {last}: pass layers from 0 to"
            f" {count - 1}"
        )
    return [_layer(index) for index in range(first, last + 1)]
