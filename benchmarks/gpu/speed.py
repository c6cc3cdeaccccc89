"""How long steps take, and what share of the card's peak that is."""

from __future__ import annotations

import functools
import statistics
import threading
import time
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from benchmarks import flops
from benchmarks.gpu import cards, shapes
from benchmarks.gpu.engine import Trainer, fitting, visible
from benchmarks.gpu.process import is_dry
from benchmarks.gpu.shapes import Batch, Shape

ROUNDS = 5
_WARM = 3  # steps after the first, which compiles
WANTED_SHARE = 0.5  # of the dense peak, bfloat16 at T = 512


def _round_seconds() -> float:
    return 0.05 if is_dry() else 1.0


def timed(work: Callable[[], Any]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _repeat(work: Callable[[], Any], times: int) -> Any:
    """Calls `work` several times; returns the last result."""
    for _ in range(times):
        result = work()
    return result


def _typical(work: Callable[[], Any]) -> float:
    """The median of the seconds that `work` takes, after a first call."""
    work()
    return statistics.median(timed(work) for _ in range(ROUNDS))


def as_a_run(trainer: Trainer, batch: Batch, steps: int) -> list[tuple[float, float]]:
    """Trains; each result is read when the next step is on its way, as in a run."""
    waiting, found = [], []
    for _ in range(steps):
        waiting.append(trainer.step(batch))
        if len(waiting) > 1:
            found.append(trainer.read(waiting.pop(0)))
    return [*found, trainer.read(waiting.pop())]


def unread(trainer: Trainer, batch: Batch, steps: int) -> float:
    """Trains, reading only the last result; the median seconds to launch a step."""
    launches = []
    for _ in range(steps):
        began = time.perf_counter()
        result = trainer.step(batch)
        launches.append(time.perf_counter() - began)
    trainer.read(result)
    return statistics.median(launches[:10])  # later ones may wait for room in a queue


def times_of(trainer: Trainer) -> dict[str, Any]:
    """Milliseconds of a step once it is compiled, as medians of rounds, and rates."""
    batch = trainer.batch()
    first = timed(lambda: trainer.read(trainer.step(batch)))
    as_a_run(trainer, batch, _WARM)
    one = timed(lambda: as_a_run(trainer, batch, _WARM)) / _WARM
    count = max(3, round(_round_seconds() / one))
    run, ahead, launching = [], [], []
    for _ in range(ROUNDS):
        run.append(timed(lambda: as_a_run(trainer, batch, count)) / count)
        began = time.perf_counter()
        launching.append(unread(trainer, batch, count))
        ahead.append((time.perf_counter() - began) / count)
    middle = statistics.median(run)
    return {
        "first_step_s": round(first, 2),
        "steps_a_round": count,
        "step_ms": _digits(middle * 1e3),
        "step_ms_lowest": _digits(min(run) * 1e3),
        "step_ms_highest": _digits(max(run) * 1e3),
        "step_ms_unread": _digits(statistics.median(ahead) * 1e3),
        "launch_ms": _digits(statistics.median(launching) * 1e3),
        "examples_per_s": _digits(trainer.towers * trainer.shape.batch / middle),
        "rows_of_a_tower": trainer.shape.batch,
        "length": trainer.shape.length,
    }


def _digits(value: float) -> float:
    return float(f"{value:.4g}")


# -- the card itself -------------------------------------------------------------


def device_name() -> str:
    """The name of the first card; empty on a CPU."""
    for one in tf.config.list_physical_devices("GPU"):
        return tf.config.experimental.get_device_details(one).get("device_name", "")
    return ""


def product_rates(precision: str) -> dict[str, float]:
    """TFLOP/s of one large matrix product, with and without XLA: a practical peak."""
    tf.config.experimental.enable_tensor_float_32_execution(precision == "tf32")
    side, times = (256, 2) if is_dry() else (8192, 20)
    kind = tf.float32 if precision == "tf32" else tf.dtypes.as_dtype(precision)
    with tf.device(visible()[0]):
        a, b = (tf.cast(tf.random.normal([side, side]), kind) for _ in "ab")
    rates = {}
    for name, compiled in (("xla", True), ("plain", False)):
        product = functools.partial(tf.function(tf.matmul, jit_compile=compiled), a, b)
        middle = _typical(functools.partial(_read_last, product, times))
        rates[name] = _digits(2.0 * side**3 * times / middle / 1e12)
    return rates


def _read_last(work: Callable[[], Any], times: int) -> float:
    return float(_repeat(work, times)[0, 0])


def shares(shape: Shape, towers: int, step_s: float, precision: str) -> dict[str, Any]:
    """TFLOP/s of a step, beside the data sheet and one product in the same process.

    Counted by flops.model_flops, as is usual for such shares, and by needed_flops, only
    the products that the step has to do: in the last layer it reads [CLS] alone.
    """
    counted = shape._replace(batch=shape.batch * towers)
    rate = flops.model_flops(counted) / step_s / 1e12
    needed = flops.needed_flops(counted, shapes.CLASSES) / step_s / 1e12
    products = product_rates(precision)
    found = {
        "tflops": _digits(rate),
        "tflops_needed": _digits(needed),
        "product_tflops": products,
        "share_of_product": _digits(rate / max(products.values())),
    }
    sheet = cards.peak_of(device_name())
    peak = sheet and sheet.of(precision)
    if peak:
        found |= {
            "peak_tflops": peak,
            "share_of_peak": _digits(rate / peak),
            "share_of_peak_needed": _digits(needed / peak),
        }
    return found


# -- rows and parts ---------------------------------------------------------------


def trains(
    batch: int, length: int, precision: str, *, loaded: bool = False, **settings: Any
) -> dict[str, Any]:
    """Times, memory and shares of BERT-base; a part of several rows.

    loaded: whether to ask nvidia-smi for clock and power under load, too.
    """
    cards_used = settings.get("cards", 1)
    fits = {name: settings[name] for name in ("recompute",) if name in settings}
    shape = fitting(shapes.base(batch, length), precision, cards_used, **fits)
    trainer = Trainer(shape, precision=precision, **settings)
    found = times_of(trainer)
    if loaded:
        _repeat(
            functools.partial(trainer.step, trainer.batch()), found["steps_a_round"]
        )
        found["state"] = cards.state()
    peak, planned = trainer.peak_bytes(), trainer.planned_bytes()
    found |= {"peak_gb": _digits(peak / 1e9), "planned_gb": _digits(planned / 1e9)}
    found["planned_over_peak"] = _digits(planned / peak)
    return found | shares(shape, trainer.towers, found["step_ms"] / 1e3, precision)


def told(found: dict[str, Any]) -> str:
    words = (
        f"{found['step_ms']:g} ms a step of {found['rows_of_a_tower']} x"
        f" {found['length']} ({found['step_ms_lowest']:g}-{found['step_ms_highest']:g};"
        f" results unread {found['step_ms_unread']:g}, launching"
        f" {found['launch_ms']:g}), {found['examples_per_s']:g} examples/s,"
        f" {found['tflops']:g} TFLOP/s: {found['share_of_product']:.0%} of one product"
    )
    if "share_of_peak" in found:
        words += (
            f", {found['share_of_peak']:.0%} of the peak of {found['peak_tflops']:g}"
            f" (products that are needed: {found['share_of_peak_needed']:.0%})"
        )
    return f"{words}; {found['peak_gb']:g} GB, planned {found['planned_gb']:g}"


def step(
    batch: int, length: int, precision: str, wanted: bool = False, **settings: Any
) -> dict[str, Any]:
    """A row: how fast BERT-base trains in the given precision."""
    found = trains(batch, length, precision, loaded=True, **settings)
    judged = {}
    if wanted and "share_of_peak" in found:
        judged["met"] = found["share_of_peak"] >= WANTED_SHARE
    return {"told": told(found), "figures": found} | judged


def places(batch: int, length: int) -> dict[str, Any]:
    """A row: does Python go on while a thread places a batch on a busy card?"""
    trainer = Trainer(shapes.base(batch, length), precision="bfloat16")
    as_a_run(trainer, trainer.batch(), _WARM)
    step = timed(lambda: as_a_run(trainer, trainer.batch(), _WARM)) / _WARM
    pauses = []
    for number in range(ROUNDS):
        last = trainer.step(trainer.batch())
        rows = trainer.batch(number + 1)
        thread = threading.Thread(target=trainer.place, args=[rows])
        longest, clock = 0.0, time.perf_counter()
        thread.start()
        while thread.is_alive():
            longest = max(longest, time.perf_counter() - clock)
            clock = time.perf_counter()
        pauses.append(max(longest, time.perf_counter() - clock))
        trainer.read(last)
    middle = statistics.median(pauses)
    found = {"pause_ms": _digits(middle * 1e3), "step_ms": _digits(step * 1e3)}
    words = f"longest pause {found['pause_ms']:g} ms, a step {found['step_ms']:g} ms"
    judged = {} if is_dry() else {"met": middle < step / 4}
    return {"told": words, "figures": found} | judged


def towers_of_a_card(batch: int, length: int, towers: list[int]) -> dict[str, Any]:
    """A row: k towers in turn on one card, and one tower with all their rows."""
    figures = {}
    for count in towers:
        for name, rows, turns in (
            (f"{count} in turn", batch, count),
            (f"{count} merged", batch * count, 1),
        ):
            if count == 1 and name.endswith("merged"):
                continue
            shape = shapes.base(rows, length)._replace(batch=rows)
            trainer = Trainer(shape, precision="bfloat16", towers=turns)
            figures[name] = times_of(trainer)
            del trainer
    words = [f"{name} {each['examples_per_s']:g}" for name, each in figures.items()]
    return {"told": f"examples/s: {', '.join(words)}", "figures": figures}


def predicts(batch: int, lengths: list[int], precisions: list[str]) -> dict[str, Any]:
    """A row: examples per second of prediction, read batch by batch as a run does."""
    figures = {}
    for precision in precisions:
        for length in lengths:
            trainer = Trainer(shapes.base(batch, length), precision=precision)
            work = functools.partial(trainer.predict, trainer.batch())
            first = timed(work)
            count = max(3, round(_round_seconds() / timed(work)))
            middle = _typical(functools.partial(_repeat, work, count)) / count
            figures[f"{precision} {trainer.shape}"] = {
                "first_s": _digits(first),
                "batch_ms": _digits(middle * 1e3),
                "examples_per_s": _digits(trainer.shape.batch / middle),
            }
    words = [f"{name} {each['examples_per_s']:g}" for name, each in figures.items()]
    return {"told": f"examples/s: {', '.join(words)}", "figures": figures}
