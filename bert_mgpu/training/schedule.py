"""The learning rate of each step, and how it scales with the number of towers."""

from __future__ import annotations

import math

_CORRECTED = 5000  # steps until the missing bias correction is below 1 %


def learning_rate(
    step: int, peak: float, steps: int, *, warmup: int, power: float = 1.0
) -> float:
    """The rate of a step, counted from 0: it rises linearly to `peak` in `warmup` steps
    and falls to 0 as a power of the fraction of steps that are left.

    As in google-research/bert, optimization.py: the decay runs over all steps, so the
    first step after the warm-up is already below the peak, and step 0 of a run with a
    warm-up has rate 0.
    """
    if step < warmup:
        return peak * step / warmup
    return peak * max(0.0, 1.0 - step / steps) ** power


def longest_step(
    peak: float, steps: int, *, warmup: int, power: float = 1.0, done: int = 0
) -> float:
    """The longest step of adamw_google, as the rate at which AdamW's step is as long.

    done: the number of steps that are behind it.

    adamw_google does not correct its moving averages (decays 0.9 and 0.999) for their
    start at zero.
    """
    late = max(_CORRECTED + warmup, done + 1)  # later steps have practically no bias
    rates = (
        learning_rate(step, peak, steps, warmup=warmup, power=power)
        * (1 - 0.9 ** (step + 1))
        / math.sqrt(1 - 0.999 ** (step + 1))
        for step in range(done, min(steps, late))
    )
    return max(rates, default=0.0)


def rate_factor(towers: int, scaling: str) -> float:
    """What a rate is multiplied by for `towers` times the batch it was chosen for.

    scaling: none keeps the rate (bert-ad), sqrt keeps the noise of Adam's steps
    (Krizhevsky 2014; Malladi et al. 2022), linear is the rule for SGD (Goyal et al.
    2017).
    """
    return {"none": 1.0, "sqrt": math.sqrt(towers), "linear": float(towers)}[scaling]
