"""Signs that a model learnt nothing, and what to try."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from bert_mgpu.core.errors import listed

# A learning rate of AdamW above which trainings get worse, and some learn nothing
# (docs/performance.md).
LONG_STEP = 5e-4
_HIGH, _LOW = 1e-4, 1e-5  # rates; 2e-5 to 5e-5 are usual
_FEW_STEPS = 100
_FALLEN = 0.95  # the loss at the end over that at the start
_FEWEST_LOSSES = 4
_AS_GOOD = 0.01  # by which a score has to be better than another
_ONE_LABEL = (
    "all rows of dev have one label: no score of theirs shows whether the model has"
    " learnt: evaluate rows of every label"
)


class Training(NamedTuple):
    """How a model was trained, as far as it is known."""

    rate: float  # at its peak
    longest_step: float | None  # of adamw_google: see `schedule.longest_step`
    steps: int
    losses: Sequence[float]  # in the order of the steps
    from_weights: bool  # not from random weights
    trains_encoder: bool


class MainScore(NamedTuple):
    """The main score on dev, and the scores of answers that need no model."""

    metric: str
    value: float
    lower_is_better: bool
    interval: Sequence[float] | None  # its 95 % interval: low, high
    constant: Mapping[str, float]  # of one answer for all rows, by its description
    baseline: Mapping[str, float]  # of the family's baseline, by its name
    one_answer: str  # see `core.task.Trust`

    @property
    def tells_nothing(self) -> bool:
        """Whether one answer is right for all rows: no model could do better."""
        perfect = 0 if self.lower_is_better else 1
        return perfect in self.constant.values()


def findings(scores: MainScore, training: Training | None) -> list[str]:
    """Lines on what is wrong with a model, then one on what to try; else []."""
    if scores.tells_nothing:
        line = _loss_not_falling(training.losses) if training else None
        return [_ONE_LABEL, *filter(None, [line])]
    found = [scores.one_answer] if scores.one_answer else []
    ahead = [*_unbeaten(scores)]
    if ahead:
        value = f"{scores.metric} {scores.value:.4f}"
        found.append(f"{value} is not better than {' or '.join(ahead)}")
    elif line := _within_interval(scores):
        found.append(line)
    has_floor = bool(scores.constant or scores.baseline)
    learns = has_floor and not found
    if training and not learns and (line := _loss_not_falling(training.losses)):
        found.append(line)
    if found:
        found.append(f"to try: {'; '.join(_advice(scores, training))}")
    return found


def findings_from_loss(training: Training) -> list[str]:
    """Like `findings`, for a training without an evaluation."""
    line = _loss_not_falling(training.losses)
    if line is None:
        return []
    advice = "--do_eval=true, which shows whether it learnt", *_advice(None, training)
    return [line, f"to try: {'; '.join(advice)}"]


def _unbeaten(scores: MainScore) -> Iterator[str]:
    """The constant answers that a model does not beat, and baselines above it."""
    sign = -1 if scores.lower_is_better else 1
    for name, floor in scores.constant.items():
        if sign * scores.value <= sign * floor:
            yield f"{name} ({floor:.4f})"
    for name, floor in scores.baseline.items():
        if sign * scores.value < sign * floor:
            yield f"{name} ({floor:.4f})"


def _within_interval(scores: MainScore) -> str | None:
    """A line if the interval includes the score of one answer for all rows."""
    if scores.interval is None:
        return None
    low, high = scores.interval
    for name, floor in scores.constant.items():
        if low <= floor <= high:
            return (
                f"{scores.metric} {scores.value:.4f} (95 %: {low:.4f} to {high:.4f})"
                f" may be no better than {name} ({floor:.4f})"
            )
    return None


def _loss_not_falling(losses: Sequence[float]) -> str | None:
    if len(losses) < _FEWEST_LOSSES:
        return None
    quarter = max(1, len(losses) // 4)
    first, last = np.mean(losses[:quarter]), np.mean(losses[-quarter:])
    if last <= _FALLEN * first:
        return None
    return (
        f"the training loss did not fall: {first:.4f} at the start, {last:.4f} at the"
        " end"
    )


def _learns_nothing(scores: MainScore) -> bool:
    """Whether the baseline learns nothing, either."""
    best = max(scores.constant.values())
    return max(scores.baseline.values()) <= best + _AS_GOOD


def _advice(scores: MainScore | None, training: Training | None) -> Iterator[str]:
    # Where the baseline or the constant is unknown, nothing follows.
    if scores and scores.baseline and scores.constant and _learns_nothing(scores):
        yield (
            f"{listed([*scores.baseline])} learns nothing either: do the labels match"
            " the texts? (run bert_mgpu doctor data)"
        )
        return
    vocabulary = "do --vocab_file and --do_lower_case match the weights?"
    if training is None:
        yield vocabulary
        return
    if not training.from_weights:
        yield "all weights began at random: pass --init_checkpoint"
    if not training.trains_encoder:
        yield "only the head is trained: freeze fewer parts"
    if (training.longest_step or 0) > LONG_STEP:
        yield (
            "--optimizer=adamw, whose first steps are smaller, or a lower"
            " --learning_rate"
        )
    elif not _LOW <= training.rate <= _HIGH:
        step = "lower" if training.rate > _HIGH else "higher"
        yield f"a {step} --learning_rate than {training.rate:g}"
    if training.steps < _FEW_STEPS:
        yield f"more epochs, or a smaller batch: {training.steps} steps are few"
    if training.from_weights:
        yield vocabulary
    other = "--optimizer=adamw " * (training.longest_step is not None)
    yield f"{other}--learning_rate=5e-5, in another --output_dir"
