"""What steps and forward passes give, on its way from the devices to the host.

A copy from a GPU to the host waits for all that the GPU was given to do before the copy
was asked for. So it is asked for as soon as a step is launched, in a thread that waits
for it, and the next step is launched meanwhile: the host is one step ahead, not more.
"""

from __future__ import annotations

import functools
import math
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
import tensorflow as tf


class ResultReader:
    """Copies tensors to the host, in the order in which that is asked for."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "results")

    def ask(self, tensor: tf.Tensor) -> Future[np.ndarray]:
        return self._ask(tensor.numpy)

    def ask_all(
        self, parts: Mapping[str, Sequence[tf.Tensor]]
    ) -> Future[dict[str, np.ndarray]]:
        """parts: of each output, by device."""

        def read() -> dict[str, np.ndarray]:
            return {
                name: np.concatenate([part.numpy() for part in rows])
                for name, rows in parts.items()
            }

        return self._ask(read)

    def _ask(self, read: Callable[[], Any]) -> Future[Any]:
        begun = threading.Event()

        def work() -> Any:
            begun.set()
            return read()

        future = self._thread.submit(work)
        # The copies before this one are there, and this one is all that the thread
        # has to do: what is launched now comes after it.
        begun.wait()
        return future


class StepResult:
    """What a training step tells; reading it waits for the step."""

    def __init__(
        self,
        future: Future[np.ndarray],
        losses: Sequence[str],
        scaling: Sequence[str],
        *,
        overflows: bool,
    ):
        """future: losses, votes to stop, seconds, the norm, the state of scaling.

        overflows: the losses themselves can, where a pass computes in float16.
        """
        self._future, self._overflows = future, overflows
        self._losses, self._scaling = losses, scaling

    @functools.cached_property
    def _rest(self) -> list[float]:
        return self._future.result()[len(self._losses) :].tolist()

    @property
    def losses(self) -> dict[str, float]:
        """Weighted means over the global batch."""
        return dict(zip(self._losses, self._future.result().tolist(), strict=False))

    @property
    def finite(self) -> bool:
        """False where a number is none that a lower loss scale could mend."""
        values = [] if self._overflows else [*self.losses.values()]
        norm = [] if self._scaling else [self.norm]
        return all(map(math.isfinite, [*values, *norm]))

    @property
    def stops(self) -> float:
        """How many processes were asked to stop."""
        return self._rest[0]

    @property
    def reduction(self) -> float:
        """Seconds until the sums of other processes were there."""
        return self._rest[1]

    @property
    def norm(self) -> float:
        """Of the summed gradient before clipping."""
        return self._rest[2]

    @property
    def scaling(self) -> dict[str, float]:
        """The state of loss scaling, if there is one."""
        return dict(zip(self._scaling, self._rest[3:], strict=True))


class PendingOutputs:
    """What a task says of the rows of a batch; reading it waits for the devices."""

    def __init__(self, future: Future[dict[str, np.ndarray]]):
        self._future = future

    def read(self) -> dict[str, np.ndarray]:
        return self._future.result()
