"""Is training the same on card and CPU, after a kill, when repeated, on several cards?

A part trains some steps on random rows and leaves its weights in a folder.
"""

from __future__ import annotations

import concurrent.futures
import os
import pathlib
import signal
import tempfile
from typing import Any

import numpy as np

from benchmarks.gpu import shapes
from benchmarks.gpu.process import FailedError, part, run

TOLERANCE = 1e-4  # of each tensor's largest value, after STEPS steps
STEPS = 20
_PART = "exact:trains"
_ON_A_CPU = {"CUDA_VISIBLE_DEVICES": "-1"}


# -- the part ---------------------------------------------------------------------


def trains(
    shape: list[int],
    folder: str,
    steps: int = STEPS,
    *,
    timed: bool = False,
    resumes: str = "",
    saves: str = "",
    save_at: int = 0,
    die_at: int = 0,
    **settings: Any,
) -> dict[str, Any]:
    """Trains, and returns losses and norms; writes the weights into the folder.

    resumes: the folder of a state to start from; saves: the folder for the state after
    step save_at; die_at: the process kills itself before this step; timed: also times
    further steps, after the weights are written.
    """
    from benchmarks.gpu import engine, speed

    state = engine.restore(pathlib.Path(resumes)) if resumes else None
    trainer = engine.Trainer(shapes.Shape(*shape), state=state, **settings)
    told, how = [], ""
    for number in range(state[2] if state else 0, steps):
        if die_at and number == die_at:
            os.kill(os.getpid(), signal.SIGKILL)
        told.append(trainer.read(trainer.step(trainer.batch(number, padded=True))))
        if saves and number + 1 == save_at:
            how = trainer.save(pathlib.Path(saves), save_at)
    np.savez(pathlib.Path(folder) / "weights.npz", **trainer.weights())
    losses, norms = zip(*told, strict=True)
    found = {"losses": losses, "norms": norms, "saved as": how}
    return found | (speed.times_of(trainer) if timed else {})


# -- comparing --------------------------------------------------------------------


def _folder(top: str, name: str) -> str:
    made = pathlib.Path(top) / name
    made.mkdir()
    return str(made)


def _weights(folder: str) -> dict[str, np.ndarray]:
    with np.load(pathlib.Path(folder) / "weights.npz", allow_pickle=False) as read:
        return {name: read[name] for name in read}


def compared(one: str, other: str) -> tuple[bool, float]:
    """(the same bits, the largest difference) of the weights in two folders."""
    wanted, found = _weights(one), _weights(other)
    same = all(np.array_equal(found[name], value) for name, value in wanted.items())
    return same, max(
        _difference(value, found[name])
        for name, value in wanted.items()
        if "self/key/bias" not in name  # its gradient is zero but for rounding
    )


def _difference(wanted: np.ndarray, found: np.ndarray) -> float:
    """The largest difference, relative to the largest value or 0.01 if that is more."""
    return float(np.abs(found - wanted).max() / max(np.abs(wanted).max(), 1e-2))


def _answer(
    words: str, one: dict[str, Any], other: dict[str, Any], off: float
) -> dict[str, Any]:
    losses = np.abs(np.subtract(one["losses"], other["losses"])).max()
    norm = abs(one["norms"][0] / other["norms"][0] - 1)
    return {
        "told": f"{words}: weights differ by {off:.1e}, losses by {losses:.1e}, the"
        f" first gradient's length by {norm:.1e}; last loss {one['losses'][-1]:.4f}",
        "figures": {"weights": off, "first": one, "second": other},
        "met": off <= TOLERANCE,
    }


# -- rows -------------------------------------------------------------------------


def selftest() -> dict[str, Any]:
    """A row: the same steps on the card, compiled, and on the CPU, not compiled."""
    shape = shapes.small(16, 64)
    with tempfile.TemporaryDirectory() as top:
        card, cpu = _folder(top, "card"), _folder(top, "cpu")
        plain = {"shape": shape, "folder": cpu, "xla": "off"}
        compiled = {"shape": shape, "folder": card, "xla": "on"}
        with concurrent.futures.ThreadPoolExecutor() as pool:
            card_part = pool.submit(part, _PART, compiled)
            cpu_part = pool.submit(part, _PART, plain, _ON_A_CPU)
        one, other = card_part.result(), cpu_part.result()
        _, off = compared(cpu, card)
    words = f"{STEPS} steps of {shape.layers} x {shape.hidden}, {shape}, dropout on"
    return _answer(words, one, other, off)


def kill_and_resume() -> dict[str, Any]:
    """A row: a run killed by SIGKILL and resumed, beside an uninterrupted one."""
    shape, save_at, die_at = shapes.small(16, 64), STEPS // 2, STEPS // 2 + 3
    with tempfile.TemporaryDirectory() as top:
        whole, resumed, saves = (_folder(top, n) for n in ("whole", "resumed", "saves"))
        same = {"shape": shape, "deterministic": True}
        one = part(_PART, same | {"folder": whole})
        stops = {"saves": saves, "save_at": save_at, "die_at": die_at}
        killed = run(_PART, same | stops | {"folder": resumed}, 600)
        if killed.code != -signal.SIGKILL:
            raise FailedError(f"was to be killed: {killed.reason}")
        other = part(_PART, same | {"folder": resumed, "resumes": saves})
        bits, off = compared(whole, resumed)
    tail = list(one["losses"][save_at:]) == list(other["losses"])
    return {
        "told": f"killed in step {die_at}, resumed at {save_at}, ended at {STEPS}:"
        f" weights {'equal in every bit' if bits else f'differ by {off:.1e}'}, losses"
        f" {'equal' if tail else 'differ'}",
        "figures": {"weights": off, "whole": one, "resumed": other},
        "met": bits and tail,
    }


def deterministic(batch: int, length: int) -> dict[str, Any]:
    """A row: BERT-base in bfloat16, --deterministic twice, and without it twice."""
    settings: dict[str, Any] = {"shape": shapes.base(batch, length)}
    settings |= {"precision": "bfloat16", "steps": 10, "timed": True}
    found, same = {}, {}
    with tempfile.TemporaryDirectory() as top:
        for kind in (True, False):
            folders = [_folder(top, f"{kind}{number}") for number in (1, 2)]
            found[kind] = [
                part(_PART, settings | {"folder": each, "deterministic": kind})
                for each in folders
            ]
            same[kind] = compared(*folders)
    price = found[True][0]["step_ms"] / found[False][0]["step_ms"]
    usual = "equal too" if same[False][0] else f"differ by {same[False][1]:.1e}"
    off = "equal in every bit" if same[True][0] else f"differ by {same[True][1]:.1e}"
    return {
        "told": f"two runs {off}, at {price:.2f} times the time; without the flag two"
        f" runs are {usual}",
        "figures": {"price": price, "with": found[True], "without": found[False]},
        "met": same[True][0],
    }


def equal_cards(cards: int) -> dict[str, Any]:
    """A row: the same number of towers on one card and on as many cards."""
    shape = shapes.small(8, 64)
    with tempfile.TemporaryDirectory() as top:
        one, all_ = _folder(top, "one"), _folder(top, "all")
        settings: dict[str, Any] = {"shape": shape, "towers": cards}
        first = part(_PART, settings | {"folder": one})
        second = part(_PART, settings | {"folder": all_, "cards": cards})
        _, off = compared(one, all_)
    words = f"{cards} towers on 1 and on {cards} cards, {STEPS} steps, dropout on"
    return _answer(words, first, second, off)
