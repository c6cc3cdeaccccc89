"""Signs that a model learnt nothing, and what to try."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from bert_mgpu.core.errors import listed

# A learning rate of AdamW above which trainings get worse, and some learn nothing
# (docs/performance.md).
LONG_STEP = 5e-4
# Fine-tuning's lowest and highest usual rate and one to try, and those of pretraining
# from random weights: of AdamW and google-research/bert's; other optimizers have their
# own.
_USUAL = {False: (1e-5, 1e-4, "5e-5"), True: (1e-5, 5e-4, "1e-4")}
_ADAMW, _GOOGLES = "adamw", "adamw_google"
_FEW_STEPS = 100
_FALLEN = 0.95  # the loss at the end over that at the start
_FEWEST_LOSSES = 4
_BELOW_CHANCE = 0.9  # relative to the loss of equal probabilities
_AS_GOOD = 0.01  # by which a score has to be better than another
_CLEARLY = 0.05  # the share by which, where the interval is not known
_ROUNDING = 1e-9  # by which equal scores may differ
_ONE_LABEL = (
    "all rows of dev have the same label or value: their scores cannot show whether the"
    " model has learnt: evaluate rows with several"
)


class Training(NamedTuple):
    """How a model was trained, as far as it is known."""

    optimizer: str
    rate: float  # at its peak, less what rollbacks took
    longest_step: float | None  # of adamw_google: see `schedule.longest_step`
    steps: int
    losses: Sequence[float]  # in the order of the steps
    from_weights: bool  # not from random weights
    trains_encoder: bool
    pretrains: bool = False
    rollbacks: int = 0  # after each of which the rate was halved
    rate_factor: float = 1.0  # of --lr_scaling, in the rates above

    @property
    def given_rate(self) -> float:
        """The rate as --learning_rate takes it."""
        return self.rate / self.rate_factor


class JudgedScore(NamedTuple):
    """A score on dev, and what answers that need no model reach."""

    metric: str
    value: float
    lower_is_better: bool
    interval: Sequence[float] | None  # its 95 % interval: low, high
    constant: Mapping[str, float]  # of one answer for all rows, by its description
    baseline: Mapping[str, float]  # of the family's baseline, by its name

    @property
    def tells_nothing(self) -> bool:
        """Whether one answer is right for all rows: no model could do better."""
        perfect = 0 if self.lower_is_better else 1
        return perfect in self.constant.values()

    @property
    def has_floor(self) -> bool:
        """Whether there is anything to beat; a baseline that is never right is not."""
        known = [v for v in self.baseline.values() if v or self.lower_is_better]
        return bool(self.constant or known)


def findings(
    scores: Sequence[JudgedScore],
    training: Training | None,
    *,
    one_answer: str = "",
    chance: float | None = None,
) -> list[str]:
    """Lines on what is wrong with a model, then one on what to try; else [].

    scores: the main one first; any of them may show that the model has learnt. Where
    some have an interval, the others show nothing: they may be above a floor by luck.
    one_answer: see `core.task.Trust`; chance: see `findings_of_pretraining`, None if it
    is not known.
    """
    certain = [each for each in scores if each.interval is not None]
    scores = certain or scores
    if scores[0].tells_nothing:
        line = _loss_not_falling(training.losses) if training else None
        return [_ONE_LABEL, *filter(None, [line])]
    found = [one_answer] if one_answer else []
    doubts = [_doubt(each) for each in scores]
    if all(doubts):
        found.extend(filter(None, doubts[:1]))
    learns = any(each.has_floor for each in certain) and not found
    if training and not learns and (line := _loss_not_falling(training.losses)):
        learnt_before = chance is not None and _stays_low(training.losses, chance)
        found += [line] if found or not learnt_before else []
    if found:
        found.append(f"to try: {'; '.join(_advice(scores, training))}")
    return found


def findings_from_loss(training: Training, chance: float | None = None) -> list[str]:
    """Like `findings`, for a training without an evaluation.

    chance: see `findings`.
    """
    line = _loss_not_falling(training.losses)
    if line is None or (chance and _stays_low(training.losses, chance)):
        return []
    advice = "--do_eval=true, which shows whether it learnt", *_advice([], training)
    return [line, f"to try: {'; '.join(advice)}"]


def findings_of_pretraining(training: Training, chance: float) -> list[str]:
    """Like `findings`, from the loss alone.

    chance: the loss of equal probabilities. Far below it, a loss that stays is that of
    weights which have learnt before; one that rises is not.
    """
    line = _loss_not_falling(training.losses)
    if line is None or _stays_low(training.losses, chance):
        return []
    line += f"; equal probabilities for all words would have {chance:.4f}"
    return [line, f"to try: {'; '.join(_advice([], training))}"]


def comparison(score: JudgedScore) -> str:
    """How a score compares with answers that need no model, in words.

    Without an interval nothing is said of which is better; "" where there are none.
    """
    sign = -1 if score.lower_is_better else 1
    found: dict[str, list[str]] = {}
    for name, floor in {**score.constant, **score.baseline}.items():
        how = "for comparison:"
        if score.interval is not None:
            low, high = sorted(sign * end for end in score.interval)
            how = "not clearly better than"
            if low > sign * floor + _ROUNDING:
                how = "better than"
            elif high < sign * floor - _ROUNDING:
                how = "worse than"
        found.setdefault(how, []).append(f"{name} ({floor:.4f})")
    return "; ".join(f"{how} {' and '.join(names)}" for how, names in found.items())


def _doubt(score: JudgedScore) -> str | None:
    """A line if the score does not show that the model has learnt anything."""
    if ahead := [*_unbeaten(score)]:
        value = f"{score.metric} {score.value:.4f}"
        return f"{value} is not better than {' or '.join(ahead)}"
    if not (score.value or score.lower_is_better):
        return f"{score.metric} is 0: nothing that the model finds is right"
    return _within_interval(score)


def _unbeaten(score: JudgedScore) -> Iterator[str]:
    """The constant answers that a model does not beat, and baselines above it.

    A baseline within the interval may be ahead by luck, and without an interval one
    that is little better.
    """
    sign = -1 if score.lower_is_better else 1
    for name, floor in score.constant.items():
        if sign * score.value <= sign * floor + _ROUNDING:
            yield f"{name} ({floor:.4f})"
    ends = score.interval
    if ends is None:
        ends = [(1 + share) * score.value for share in (-_CLEARLY, _CLEARLY)]
    most = max(sign * end for end in ends)
    for name, floor in score.baseline.items():
        if most < sign * floor - _ROUNDING:
            yield f"{name} ({floor:.4f})"


def _within_interval(score: JudgedScore) -> str | None:
    """A line if the interval includes the score of one answer for all rows."""
    if score.interval is None:
        return None
    low, high = score.interval
    for name, floor in score.constant.items():
        if low - _ROUNDING <= floor <= high + _ROUNDING:
            return (
                f"{score.metric} {score.value:.4f} (95 %: {low:.4f} to {high:.4f})"
                f" may be no better than {name} ({floor:.4f})"
            )
    return None


def _loss_not_falling(losses: Sequence[float]) -> str | None:
    if len(losses) < _FEWEST_LOSSES:
        return None
    first, last = _ends(losses)
    if last <= _FALLEN * first:
        return None
    return (
        f"the training loss did not fall: {first:.4f} at the start, {last:.4f} at the"
        " end"
    )


def _stays_low(losses: Sequence[float], chance: float) -> bool:
    first, last = _ends(losses)
    return _FALLEN * last <= first and last < _BELOW_CHANCE * chance


def _ends(losses: Sequence[float]) -> tuple[float, float]:
    """The means of the first and of the last quarter."""
    quarter = max(1, len(losses) // 4)
    return float(np.mean(losses[:quarter])), float(np.mean(losses[-quarter:]))


def _learns_nothing(score: JudgedScore) -> bool:
    """Whether the baseline learns nothing either; False where that is unknown."""
    if not (score.baseline and score.constant):
        return False
    best = max(score.constant.values())
    return max(score.baseline.values()) <= best + _AS_GOOD


def _advice(scores: Sequence[JudgedScore], training: Training | None) -> Iterator[str]:
    if scores and all(map(_learns_nothing, scores)):
        yield (
            f"{listed([*scores[0].baseline])} learns nothing either: do the labels"
            " match the texts? (run bert_mgpu doctor data)"
        )
        return
    vocabulary = "do --vocab_file and --do_lower_case match the weights?"
    if training is None:
        yield vocabulary
        return
    if not training.steps:
        yield "a training: --max_train_steps=0 takes no step"
        return
    if not (training.from_weights or training.pretrains):
        yield "all weights began at random: pass --init_checkpoint"
    if not training.trains_encoder:
        yield "only the head is trained: freeze fewer parts"
    rate, is_bad = _rate_advice(training)
    if is_bad:
        yield rate
    if training.steps < _FEW_STEPS:
        more = "a higher --num_train_steps" if training.pretrains else "more epochs"
        yield f"{more}, or a smaller batch: {training.steps} steps are few"
    if training.from_weights:
        yield vocabulary
    if rate and not is_bad:
        yield rate


def _rate_advice(training: Training) -> tuple[str, bool]:
    """Which rate and optimizer to try, "" if none, and whether the present are bad."""
    if training.rollbacks:
        rate = training.given_rate * 2**training.rollbacks
        return f"a lower --learning_rate than {rate:g}, at which it diverged", True
    is_google = training.optimizer == _GOOGLES
    # A head alone learns at higher rates.
    if not (training.trains_encoder and (is_google or training.optimizer == _ADAMW)):
        return "", False
    low, high, best = _USUAL[training.pretrains and not training.from_weights]
    given = best
    if training.rate_factor != 1:
        given = f"{float(best) / training.rate_factor:.3g}"
    usual = f"--learning_rate={given}, in another --output_dir"
    if (training.longest_step or 0) > LONG_STEP:
        return f"--optimizer=adamw, whose first steps are smaller, and {usual}", True
    if not low <= training.rate <= high:
        than = "lower" if training.rate > high else "higher"
        return f"a {than} --learning_rate than {training.given_rate:g}: {usual}", True
    if is_google:
        return f"--optimizer=adamw {usual}", False
    return usual if training.rate != float(best) else "", False
