"""Collectives: sums and exchanges between the processes of a run.

This is the only file that imports horovod, and only if a run has several processes.
"""

from __future__ import annotations

import contextlib
import json
import os
import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

import numpy as np
import tensorflow as tf

from bert_mgpu.core.errors import RunError, UserError, shortened
from bert_mgpu.core.rows import Outputs, Ragged
from bert_mgpu.core.task import TrainState
from bert_mgpu.distributed import launcher, pairwise

Arrays = Mapping[str, np.ndarray]
# Horovod counts bytes in 32 bits.
_MAX_VALUES = 1 << 28  # in one sum by gloo
_MAX_BYTES = 1 << 30  # gathered at once, from all processes together
_ALIGNMENT = 16  # values: TensorFlow copies slices that are not aligned to 64 bytes


class Collective(Protocol):
    """The processes of a run. All of them call every method, in the same order."""

    rank: int
    size: int
    sends_float16: bool  # whether gradients are sent in float16

    def all_reduce(
        self, gradient: tf.Tensor, exact: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Sums two float32 vectors over processes, inside a graph, in one exchange.

        All processes get the same bits. The gradient is sent in float16 if
        `sends_float16`, the other vector always in float32.
        """
        ...

    def all_gather(self, value: bytes) -> list[bytes]:
        """The values of all processes, in the order of ranks, on every process."""
        ...

    def broadcast(self, arrays: Arrays | None) -> dict[str, np.ndarray]:
        """The arrays of the first process; the others pass None."""
        ...

    def working(self, step: int | None = None) -> None:
        """Reports progress to the watchdog: a process that stops reporting may hang."""
        ...

    def pausing(self) -> None:
        """Tells the watchdog that the work that follows may take long."""
        ...


class Solo:
    """A run of one process."""

    rank, size, sends_float16 = 0, 1, False

    def all_reduce(
        self, gradient: tf.Tensor, exact: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        return gradient, exact

    def all_gather(self, value: bytes) -> list[bytes]:
        return [value]

    def broadcast(self, arrays: Arrays | None) -> dict[str, np.ndarray]:
        return {**(arrays or {})}

    def working(self, step: int | None = None) -> None: ...

    def pausing(self) -> None: ...


SOLO = Solo()


class Horovod:
    """The processes that horovodrun started (Sergeev and Del Balso 2018).

    On GPUs NCCL adds, in its own order. On CPUs gloo's ring would add from left to
    right, starting at a different process for each slice of a tensor. So instead each
    process receives one slice from all, adds pairwise, and sends the sum to all: this
    sends as many bytes as the ring, and gives the bits of one process with all towers.
    """

    def __init__(
        self,
        on_gpu: bool,
        dtype: str,
        working: Callable[..., Any],
        *,
        pausing: Callable[[], None],
    ):
        """dtype: the type in which gradients are sent, float32 or float16.

        Raises UserError if Horovod is missing or was built for another TensorFlow.
        """
        try:
            import horovod
            import horovod.tensorflow as hvd

            self.version = str(horovod.__version__)
        except (ImportError, OSError, AttributeError, tf.errors.OpError) as error:
            reason = shortened(getattr(error, "message", None) or error, 300)
            raise UserError(
                f"horovod cannot be loaded: {reason}: run bert_mgpu install_horovod"
                " --force"
            ) from None
        os.environ[launcher.GLOO_TIMEOUT] = str(launcher.patience())
        hvd.init()
        self._hvd = hvd
        self.rank: int = hvd.rank()
        self.size: int = hvd.size()
        self.uses_nccl = on_gpu and bool(hvd.nccl_built())
        self._dtype = tf.as_dtype(dtype)
        self.sends_float16 = self._dtype != tf.float32
        self.working, self.pausing = working, pausing

    def all_reduce(
        self, gradient: tf.Tensor, exact: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        if self.sends_float16:  # two sums that do not wait for each other
            rounded = self._sum(gradient, "gradients", self._dtype)
            return rounded, self._sum(exact, "losses", tf.float32)
        if self.uses_nccl:
            both = [gradient, exact]
            return tuple(
                self._hvd.grouped_allreduce(both, op=self._hvd.Sum, name="step")
            )
        with tf.device("/CPU:0"):
            both = self._sum(tf.concat([gradient, exact], 0), "step", tf.float32)
            count = gradient.shape[0]
            return both[:count], both[count:]

    def _sum(self, flat: tf.Tensor, name: str, dtype: tf.DType) -> tf.Tensor:
        """The sum of a float32 vector [n] over all processes, sent in dtype."""
        if self.uses_nccl:
            sent = tf.cast(flat, dtype)
            total = self._hvd.allreduce(sent, op=self._hvd.Sum, name=name)
            return tf.cast(total, tf.float32)
        with tf.device("/CPU:0"):
            starts = range(0, flat.shape[0], _MAX_VALUES)
            sums = [
                self._pairwise_sum(
                    flat[start : start + _MAX_VALUES], f"{name}{number or ''}", dtype
                )
                for number, start in enumerate(starts)
            ]
            return tf.concat(sums, 0) if len(sums) > 1 else sums[0]

    def _pairwise_sum(self, flat: tf.Tensor, name: str, dtype: tf.DType) -> tf.Tensor:
        """`_sum` on CPUs, for at most _MAX_VALUES values."""
        hvd, count = self._hvd, flat.shape[0]
        # The number of values that each process adds.
        share = -(-count // (_ALIGNMENT * self.size)) * _ALIGNMENT
        sent = tf.cast(tf.pad(flat, [[0, share * self.size - count]]), dtype)
        received, _ = hvd.alltoall(sent, [share] * self.size, name=f"{name}_parts")
        slices = tf.reshape(tf.cast(received, tf.float32), [self.size, share])
        own = tf.cast(pairwise.pairwise_sum(tf.unstack(slices)), dtype)
        total = hvd.allgather(own, name=f"{name}_sums")
        return tf.ensure_shape(tf.cast(total, tf.float32)[:count], [count])

    def bytes_sent(self, values: int) -> int:
        """The bytes that one process sends to sum gradients of this many values."""
        return round(2 * (self.size - 1) / self.size * values * self._dtype.size)

    def all_gather(self, value: bytes) -> list[bytes]:
        hvd = self._hvd
        own, part = np.frombuffer(value, np.uint8), max(1, _MAX_BYTES // self.size)
        with tf.device("/CPU:0"):
            length = tf.constant([len(value)], tf.int64)
            sizes = hvd.allgather(length, name="sizes").numpy()
            gathered: list[list[np.ndarray]] = [[] for _ in sizes]
            for start in range(0, max(1, int(sizes.max())), part):
                sent = tf.constant(own[start : start + part])
                joined = hvd.allgather(sent, name="bytes").numpy()
                ends = np.cumsum(np.clip(sizes - start, 0, part))
                received = np.split(joined, ends[:-1])
                for parts, one in zip(gathered, received, strict=True):
                    parts.append(one)
        return [np.concatenate(parts).tobytes() for parts in gathered]

    def broadcast(self, arrays: Arrays | None) -> dict[str, np.ndarray]:
        own = {} if arrays is None else {**arrays}
        own_specs = {name: [v.dtype.str, v.shape] for name, v in own.items()}
        specs = json.loads(self.all_gather(json.dumps(own_specs).encode())[0])
        received = {}
        for name, (dtype, shape) in specs.items():
            value = np.ascontiguousarray(own.get(name, np.empty(shape, dtype)))
            flat = self._broadcast_bytes(value.reshape(-1).view(np.uint8))
            received[name] = flat.view(dtype).reshape(shape)
        return received

    def _broadcast_bytes(self, values: np.ndarray) -> np.ndarray:
        with tf.device("/CPU:0"):
            sent = tf.constant(values)
            return self._hvd.broadcast(sent, 0, name="first").numpy()


def sum_over_processes(group: Collective, values: np.ndarray) -> np.ndarray:
    """The sum of a float32 array over all processes, with the same bits in each."""
    vectors = group.all_gather(values.astype(np.float32).tobytes())
    return pairwise.pairwise_sum([np.frombuffer(v, np.float32) for v in vectors])


def timed_all_reduce(
    group: Collective, gradient: tf.Tensor, exact: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """The two sums of `Collective.all_reduce`, and the seconds that they took."""
    if group.size == 1:
        return gradient, exact, tf.constant(0.0)
    with tf.control_dependencies([gradient, exact]):
        began = tf.timestamp()
    with tf.control_dependencies([began]):
        gradient, exact = group.all_reduce(tf.identity(gradient), tf.identity(exact))
    with tf.control_dependencies([gradient, exact]):
        seconds = tf.cast(tf.timestamp() - began, tf.float32)
    return gradient, exact, seconds


@contextlib.contextmanager
def first_process_first(group: Collective) -> Iterator[None]:
    """A context that the first process leaves before the others enter it."""
    if group.rank > 0:
        group.all_gather(b"")
    yield
    if group.rank == 0:
        group.all_gather(b"")


def all_gather_json(
    group: Collective, facts: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """The facts of all processes, in the order of ranks; JSON values by name."""
    return [json.loads(text) for text in group.all_gather(json.dumps(facts).encode())]


def check_equal(group: Collective, facts: Mapping[str, Any]) -> None:
    """Raises UserError if the facts of a process differ from those of the first."""
    by_rank = all_gather_json(group, facts)
    for rank, own in enumerate(by_rank):
        for name, expected in by_rank[0].items():
            value = own.get(name)
            if value != expected:
                short = len(str(expected)) <= 40
                values = f" ({value} instead of {expected})" if short else ""
                raise UserError(
                    f"{name}: process {rank} differs from process 0{values}: give all"
                    " machines the same command, software and files"
                )


def all_gather_rows(group: Collective, outputs: Outputs) -> dict[str, Any]:
    """The rows of all processes, by rank: [own rows, ...] -> [all rows, ...]."""
    if group.size == 1:
        return {**outputs}

    def gathered(values: np.ndarray) -> np.ndarray:
        by_rank = group.all_gather(np.ascontiguousarray(values).tobytes())
        flat = np.frombuffer(b"".join(by_rank), values.dtype)
        return flat.reshape(-1, *values.shape[1:])

    rows: dict[str, Any] = {}
    for name in sorted(outputs):
        column = outputs[name]
        if isinstance(column, Ragged):
            offsets = np.concatenate([[0], np.cumsum(gathered(column.lengths))])
            rows[name] = Ragged(gathered(column.values), offsets)
        else:
            rows[name] = gathered(column)
    return rows


def check_same_state(state: TrainState, group: Collective) -> None:
    """Raises RunError if the states of the processes are not bit-identical."""
    checksum = 0
    if group.size > 1:
        for tensors in (state.params, state.slots):
            for name in sorted(tensors):
                value = np.ascontiguousarray(tensors[name]).reshape(-1).view(np.uint8)
                checksum = zlib.crc32(value.data, zlib.crc32(name.encode(), checksum))
    by_rank = [facts["crc"] for facts in all_gather_json(group, {"crc": checksum})]
    different = [rank for rank, crc in enumerate(by_rank) if crc != by_rank[0]]
    if different:
        raise RunError(
            f"step {state.step}: weights of process {different[0]} differ from those"
            " of process 0: nothing is saved: check for a faulty machine, or one with"
            " other hardware, then run the same command again"
        )
