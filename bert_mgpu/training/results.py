"""Results of steps and forward passes, copied to the host in the background.

A copy from a GPU to the host waits for all work queued before it. So a thread requests
the copy as soon as a step is launched and waits for it, while the next step is
launched: the host is one step ahead, not more.
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

from bert_mgpu.core import tensor_names


class ResultReader:
    """Copies tensors to the host in a thread, in the order of the requests."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "results")

    def read_later(self, tensor: tf.Tensor) -> Future[np.ndarray]:
        return self._submit(tensor.numpy)

    def concat_later(
        self, by_device: Mapping[str, Sequence[tf.Tensor]]
    ) -> Future[dict[str, np.ndarray]]:
        """The rows of each output, concatenated.

        by_device: for each output, its rows on each device.
        """

        def read() -> dict[str, np.ndarray]:
            return {
                name: np.concatenate([rows.numpy() for rows in tensors])
                for name, tensors in by_device.items()
            }

        return self._submit(read)

    def _submit(self, read: Callable[[], Any]) -> Future[Any]:
        started = threading.Event()

        def work() -> Any:
            started.set()
            return read()

        future = self._thread.submit(work)
        # Earlier copies are done and the thread has begun this one: work launched from
        # now on is queued behind it.
        started.wait()
        return future


class StepResult:
    """The numbers of a training step; reading one waits for the step."""

    def __init__(
        self,
        future: Future[np.ndarray],
        losses: Sequence[str],
        scaling: Sequence[str],
        *,
        overflows: bool,
    ):
        """future: a vector of the losses, the number of processes asked to stop, the
        seconds of the reduction, the gradient norm, and the state of loss scaling.
        overflows: whether the losses may overflow, as in passes computed in float16.
        """
        self._future, self._overflows = future, overflows
        self._losses, self._scaling = losses, scaling

    @functools.cached_property
    def _rest(self) -> list[float]:
        return self._future.result()[len(self._losses) :].tolist()

    @property
    def losses(self) -> dict[str, float]:
        """The losses, weighted means over the global batch, by name."""
        return dict(zip(self._losses, self._future.result().tolist(), strict=False))

    @property
    def finite(self) -> bool:
        """False if a loss or the norm is not finite and a lower scale cannot help."""
        losses = [] if self._overflows else [*self.losses.values()]
        norm = [] if self._scaling else [self.norm]
        return all(map(math.isfinite, [*losses, *norm]))

    @property
    def stops(self) -> float:
        """The number of processes that were asked to stop."""
        return self._rest[0]

    @property
    def reduction(self) -> float:
        """Seconds until the sum over all processes was complete."""
        return self._rest[1]

    @property
    def norm(self) -> float:
        """The norm of the summed gradient before clipping."""
        return self._rest[2]

    @property
    def scaling(self) -> dict[str, float]:
        """The state of loss scaling, empty without it."""
        return dict(zip(self._scaling, self._rest[3:], strict=True))

    @property
    def skipped(self) -> bool:
        """Whether the gradient overflowed float16, so that nothing was updated."""
        return bool(self.scaling.get(tensor_names.SKIPS))


class PendingOutputs:
    """A task's outputs for a batch; reading them waits for the devices."""

    def __init__(self, future: Future[dict[str, np.ndarray]]):
        self._future = future

    def read(self) -> dict[str, np.ndarray]:
        return self._future.result()
