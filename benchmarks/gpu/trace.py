"""A traced training step: what the card does, and how long it is idle."""

from __future__ import annotations

import pathlib
import tempfile
from typing import Any

import tensorflow as tf

from benchmarks.gpu import shapes, speed, xplane
from benchmarks.gpu.engine import Trainer, fitting
from benchmarks.gpu.process import is_dry
from benchmarks.gpu.shapes import Shape

STEPS = 5


def _traced(trainer: Trainer) -> list[dict[str, Any]]:
    """Traces STEPS training steps; returns a summary for each card."""
    options = tf.profiler.experimental.ProfilerOptions(
        host_tracer_level=1, python_tracer_level=0, device_tracer_level=1
    )
    with tempfile.TemporaryDirectory() as folder:
        tf.profiler.experimental.start(folder, options)
        speed.as_a_run(trainer, trainer.batch(), STEPS)
        tf.profiler.experimental.stop()
        return xplane.cards_of(xplane.read(pathlib.Path(folder)), STEPS)


def _told(one: dict[str, Any]) -> str:
    longest, first = max(one["longest_gaps_ms"], default=0), one["kernels"][:3]
    share = one["kernel_ms_a_step"] or 1
    top = ", ".join(f"{k['name'][:40]} {k['ms_a_step'] / share:.0%}" for k in first)
    copies = sum(each["ms_a_step"] for each in one["copies"])
    return (
        f"idle {one['idle_share']:.1%}, {one['kernels_a_step']:g} kernels a step,"
        f" longest gap {longest:g} ms, copies {copies:g} ms a step; most time: {top}"
    )


def _model(layers: int, hidden: int, heads: int, batch: int, length: int) -> Shape:
    return (
        shapes.base(batch, length)
        if is_dry()
        else Shape(layers, hidden, heads, batch, length)
    )


def step(model: list[int], precision: str) -> dict[str, Any]:
    """A row: five traced steps, beside untraced ones."""
    trainer = Trainer(fitting(_model(*model), precision), precision=precision)
    times = speed.times_of(trainer)
    untraced = (
        f"{times['step_ms']:g} ms a step (results unread {times['step_ms_unread']:g},"
        f" launching {times['launch_ms']:g})"
    )
    # Without CUPTI, or permission to use it, there are times but no kernels.
    try:
        found = _traced(trainer)
        lacking = "" if found else "no card in the trace"
    except Exception as error:
        found, lacking = [], f"no trace: {error}"
    words = "; ".join(map(_told, found)) or lacking
    return {
        "told": f"{untraced}; {words}",
        "figures": {"untraced": times, "cards": found, "lacking": lacking},
    }
