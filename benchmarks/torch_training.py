"""Trains a transformers model with torch, with the settings of transformers' Trainer.

Rows in random order, AdamW without weight decay of biases and norms, gradient clipping,
warm-up and linear decay. (Rows grouped by length, which Trainer offers, learn less
where labels go with lengths: its batches come sorted from long to short.) Trainer
itself needs accelerate. This may be killed at any time, and continues, with the same
random numbers, from what it has saved.
"""

from __future__ import annotations

import contextlib
import itertools
import pathlib
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from bert_mgpu.training import schedule

DECAY, CLIP = 0.01, 1.0
_LOGGED = 10  # steps
# torch's random numbers belong to the process, so its threads take turns.
_TURN = threading.Lock()


class Plan(NamedTuple):
    batch: int
    steps: int
    rate: float
    warm_up: int  # steps
    seed: int
    saved: pathlib.Path  # the state from which a killed training continues
    saved_every: int = 100  # steps
    precision: str = "float32"  # or bfloat16: autocast over float32 weights


def _optimizer(model: Any, rate: float) -> Any:
    import torch

    weights = dict(model.named_parameters())
    plain = [n for n in weights if "bias" in n or "LayerNorm" in n]
    groups = [
        {"params": [weights.pop(name) for name in plain], "weight_decay": 0.0},
        {"params": [*weights.values()], "weight_decay": DECAY},
    ]
    return torch.optim.AdamW(groups, rate)


def train(
    make: Callable[[], Any],
    rows: int,
    collate: Callable[[Sequence[int]], dict[str, Any]],
    *,
    plan: Plan,
    order: Iterator[int] | None = None,
) -> Any:
    """The model after plan.steps; waits for a training in another thread.

    make: makes the model; rows: their number; collate: row numbers -> the model's
    inputs, labels included; order: of the rows, over all epochs; drawn by plan.seed if
    there is none.
    """
    with _TURN:
        return _train(make().train(), rows, collate, plan, order)


def _train(
    model: Any,
    rows: int,
    collate: Callable[[Sequence[int]], dict[str, Any]],
    plan: Plan,
    order: Iterator[int] | None,
) -> Any:
    import torch

    torch.manual_seed(plan.seed)
    drawn = torch.Generator().manual_seed(plan.seed)
    numbers = order or itertools.chain.from_iterable(
        torch.randperm(rows, generator=drawn).tolist() for _ in itertools.count()
    )
    optimizer, first = _optimizer(model, plan.rate), 0
    plan.saved.parent.mkdir(parents=True, exist_ok=True)
    if plan.saved.exists():
        state = torch.load(plan.saved, weights_only=True)
        first = state["step"]
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        torch.set_rng_state(state["dropout"])
        for _ in itertools.islice(numbers, first * plan.batch):  # already trained on
            pass
    low = plan.precision != "float32"
    kind, losses = getattr(torch, plan.precision), []
    for step in range(first, plan.steps):
        for group in optimizer.param_groups:
            group["lr"] = schedule.learning_rate(
                step, plan.rate, plan.steps, warmup=plan.warm_up
            )
        inputs = collate([*itertools.islice(numbers, plan.batch)])
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=kind) if low else contextlib.nullcontext():
            loss = model(**inputs).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        losses.append(loss.item())
        if len(losses) == _LOGGED:
            print(f"step {step + 1}/{plan.steps}  loss {np.mean(losses):.4f}")
            losses = []
        if (step + 1) % plan.saved_every == 0:
            state = {"step": step + 1, "dropout": torch.get_rng_state()}
            state |= {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
            torch.save(state, f"{plan.saved}.new")
            pathlib.Path(f"{plan.saved}.new").replace(plan.saved)
    return model.eval()
