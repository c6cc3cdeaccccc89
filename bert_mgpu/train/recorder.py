"""What a run shows and writes while it trains: bar, metrics.jsonl, TensorBoard."""

from __future__ import annotations

import json
import pathlib
import sys
import time
from collections.abc import Iterable
from typing import Any

import tensorflow as tf
import tqdm

# Short enough for the loss, rate and speed to fit into 80 columns.
_BAR = "{l_bar}{bar}| {n_fmt}/{total_fmt} [{elapsed}<{remaining}{postfix}]"
_PLAIN_SECONDS = 10.0  # between two lines where there is no terminal


def say(text: str) -> None:
    """One line for the user, on standard error, above any bar."""
    tqdm.tqdm.write(text, file=sys.stderr)


def progress(items: Any, what: str, unit: str = "batch") -> Iterable[Any]:
    """A bar over `items` where there is a terminal, else nothing."""
    return tqdm.tqdm(
        items,
        desc=what,
        unit=unit,
        disable=not sys.stderr.isatty(),
        leave=False,
    )


class Recorder:
    """Records every `every` steps: means since the last record."""

    def __init__(
        self,
        directory: pathlib.Path,
        start: int,
        steps: int,
        batch: int,
        every: int,
    ):
        self._steps, self._batch, self._every = steps, batch, every
        self._file = _continued(directory / "metrics.jsonl", start)
        self._events = tf.summary.create_file_writer(str(directory))
        self._bar = tqdm.tqdm(
            total=steps,
            initial=start,
            desc="train",
            bar_format=_BAR,
            disable=not sys.stderr.isatty(),
        )
        self._losses: list[dict[str, float]] = []
        # The first step compiles: the speed is that of the steps after it.
        self._clock: tuple[float, int] | None = None
        self._began = time.perf_counter()
        self._last_plain = -_PLAIN_SECONDS

    def step(
        self, step: int, losses: dict[str, float], rate: float, norm: float
    ) -> None:
        now = time.perf_counter()
        self._bar.update()
        self._losses.append(losses)
        if self._clock is None:
            say(f"first step done in {now - self._began:.0f} s, compilation included")
            self._clock = (now, step)
        if step % self._every and step != self._steps:
            return
        since, first = self._clock
        means = {
            name: sum(one[name] for one in self._losses) / len(self._losses)
            for name in losses
        }
        record: dict[str, Any] = {"step": step, **means, "learning_rate": rate}
        record["gradient_norm"] = norm
        if step > first:
            speed = (step - first) * self._batch / (now - since)
            record["examples_per_second"] = round(speed, 2)
        self._losses = []
        self._clock = (now, step)
        self._write(record)
        self._show(record, now)

    def _write(self, record: dict[str, Any]) -> None:
        self._file.write(json.dumps(record) + "\n")
        self._file.flush()
        with self._events.as_default(step=record["step"]):
            for name, value in record.items():
                if name != "step":
                    tf.summary.scalar(f"train/{name}", value)

    def _show(self, record: dict[str, Any], now: float) -> None:
        speed = record.get("examples_per_second")
        loss = sum(value for name, value in record.items() if name.endswith("loss"))
        self._bar.set_postfix_str(
            f"loss {loss:.3f}, lr {record['learning_rate']:.1e}"
            + (f", {speed:.1f} ex/s" if speed else "")
        )
        last = record["step"] == self._steps
        if self._bar.disable and (last or now - self._last_plain >= _PLAIN_SECONDS):
            self._last_plain = now
            left = (self._steps - record["step"]) * self._batch / speed if speed else 0
            say(
                f"step {record['step']}/{self._steps}  loss {loss:.4f}"
                f"  lr {record['learning_rate']:.2e}"
                + (f"  {speed:.1f} examples/s" if speed else "")
                + (f"  {_duration(left)} left" if left else "")
            )

    def __enter__(self) -> Recorder:
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.close()
        self._file.close()
        self._events.close()


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def _continued(path: pathlib.Path, start: int) -> Any:
    """Opens metrics.jsonl to append, without what a killed run wrote beyond."""
    kept = []
    if path.exists():
        for line in path.read_text(encoding="utf-8").splitlines():
            try:
                if json.loads(line)["step"] <= start:
                    kept.append(line + "\n")
            except (ValueError, KeyError, TypeError):
                continue  # half a line: the run was killed while it wrote
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_text("".join(kept), encoding="utf-8")
    temporary.replace(path)
    return path.open("a", encoding="utf-8")
