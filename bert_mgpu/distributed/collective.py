"""What the processes of a run do together; one alone does nothing.

The only file that imports horovod, and only where a run has several processes.
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

from bert_mgpu.core.errors import RunError, UserError
from bert_mgpu.core.rows import Outputs, Ragged
from bert_mgpu.core.task import TrainState
from bert_mgpu.distributed import launcher, pairwise

Arrays = Mapping[str, np.ndarray]
_MOST = 1 << 28  # values in a sum by gloo: Horovod counts its bytes in 32 bits
_LINE = 16  # values: TensorFlow copies a part that does not begin at 64 bytes


class Collective(Protocol):
    """Every method is called by all processes, in the same order."""

    rank: int
    size: int
    rounds: bool  # sums that are not exact

    def all_reduce(
        self, gradient: tf.Tensor, exact: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Sums of two float32 vectors over processes, inside a graph, in one meeting.

        All processes get the same bits. The gradient is sent in what `rounds` is about,
        the other one always in float32.
        """
        ...

    def all_gather(self, value: bytes) -> list[bytes]:
        """The values of all processes, by rank, on every one of them."""
        ...

    def broadcast(self, arrays: Arrays | None) -> dict[str, np.ndarray]:
        """The arrays of the first process, which alone passes them."""
        ...

    def working(self, step: int | None = None) -> None:
        """Says that a piece of work is done: whoever stops saying so may hang."""
        ...

    def pausing(self) -> None:
        """Says that something follows that may take long."""
        ...


class Solo:
    """One process."""

    rank, size, rounds = 0, 1, False

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

    On GPUs NCCL adds, in an order of its own. On CPUs gloo's ring would add from left
    to right, beginning elsewhere in each part of a tensor; so each process gets one
    part of all of them, adds them in pairs, and gives its sum to all: as many bytes as
    the ring sends, and the bits of one process that has all the towers.
    """

    def __init__(
        self,
        on_gpu: bool,
        dtype: str,
        working: Callable[..., Any],
        *,
        pausing: Callable[[], None],
    ):
        """dtype: what gradients are sent in, float32 or float16."""
        import horovod
        import horovod.tensorflow as hvd

        os.environ[launcher.GLOO_TIMEOUT] = str(launcher.patience())
        hvd.init()
        self._hvd = hvd
        self.version = str(horovod.__version__)
        self.rank: int = hvd.rank()
        self.size: int = hvd.size()
        self.ring = on_gpu and bool(hvd.nccl_built())
        self._dtype = tf.as_dtype(dtype)
        self.rounds = self._dtype != tf.float32
        self.working, self.pausing = working, pausing

    def all_reduce(
        self, gradient: tf.Tensor, exact: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        if self.rounds:  # two sums at a time: neither waits for the other
            rounded = self._added(gradient, "gradients", self._dtype)
            return rounded, self._added(exact, "losses", tf.float32)
        if self.ring:
            both = [gradient, exact]
            return tuple(
                self._hvd.grouped_allreduce(both, op=self._hvd.Sum, name="step")
            )
        with tf.device("/CPU:0"):
            both = self._added(tf.concat([gradient, exact], 0), "step", tf.float32)
            count = gradient.shape[0]
            return both[:count], both[count:]

    def _added(self, flat: tf.Tensor, name: str, dtype: tf.DType) -> tf.Tensor:
        """float32 [n], the sum of those of all processes; dtype: what is sent."""
        if self.ring:
            sent = tf.cast(flat, dtype)
            total = self._hvd.allreduce(sent, op=self._hvd.Sum, name=name)
            return tf.cast(total, tf.float32)
        with tf.device("/CPU:0"):
            pieces = [flat[at : at + _MOST] for at in range(0, flat.shape[0], _MOST)]
            summed = [
                self._pairwise(piece, f"{name}{number or ''}", dtype)
                for number, piece in enumerate(pieces)
            ]
            return tf.concat(summed, 0) if len(summed) > 1 else summed[0]

    def _pairwise(self, flat: tf.Tensor, name: str, dtype: tf.DType) -> tf.Tensor:
        """As `_added`, of at most so many values as Horovod can count."""
        hvd, count = self._hvd, flat.shape[0]
        # Elements that this process adds: TensorFlow copies a part that does not begin
        # at 64 bytes.
        share = -(-count // (_LINE * self.size)) * _LINE
        sent = tf.cast(tf.pad(flat, [[0, share * self.size - count]]), dtype)
        received, _ = hvd.alltoall(sent, [share] * self.size, name=f"{name}_parts")
        parts = tf.reshape(tf.cast(received, tf.float32), [self.size, share])
        own = tf.cast(pairwise.pairwise_sum(tf.unstack(parts)), dtype)
        total = hvd.allgather(own, name=f"{name}_sums")
        return tf.ensure_shape(tf.cast(total, tf.float32)[:count], [count])

    def bytes_sent(self, values: int) -> int:
        """By one process, to sum gradients of so many values."""
        return round(2 * (self.size - 1) / self.size * values * self._dtype.size)

    def all_gather(self, value: bytes) -> list[bytes]:
        hvd = self._hvd
        with tf.device("/CPU:0"):
            own = tf.constant(np.frombuffer(value, np.uint8))
            sizes = hvd.allgather(tf.constant([len(value)], tf.int64), name="sizes")
            joined = hvd.allgather(own, name="bytes").numpy()
        ends = np.cumsum(sizes.numpy())
        return [part.tobytes() for part in np.split(joined, ends[:-1])]

    def broadcast(self, arrays: Arrays | None) -> dict[str, np.ndarray]:
        given = {} if arrays is None else {**arrays}
        facts = {name: [v.dtype.str, v.shape] for name, v in given.items()}
        shapes = json.loads(self.all_gather(json.dumps(facts).encode())[0])
        found = {}
        for name, (dtype, shape) in shapes.items():
            value = np.ascontiguousarray(given.get(name, np.empty(shape, dtype)))
            found[name] = self._broadcast(value.reshape(-1).view(np.uint8))
            found[name] = found[name].view(dtype).reshape(shape)
        return found

    def _broadcast(self, values: np.ndarray) -> np.ndarray:
        with tf.device("/CPU:0"):
            sent = tf.constant(values)
            return self._hvd.broadcast(sent, 0, name="first").numpy()


def sum_over_processes(group: Collective, values: np.ndarray) -> np.ndarray:
    """The sum over processes of a float32 vector of the host; the same bits in all."""
    parts = group.all_gather(values.astype(np.float32).tobytes())
    return pairwise.pairwise_sum([np.frombuffer(part, np.float32) for part in parts])


def timed_all_reduce(
    group: Collective, gradient: tf.Tensor, exact: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """The sums of `Collective.sum`, and the seconds until they were there."""
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
    """The first process does something, then the others: they find what it wrote."""
    if group.rank > 0:
        group.all_gather(b"")
    yield
    if group.rank == 0:
        group.all_gather(b"")


def all_gather_json(
    group: Collective, facts: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """What each process says, JSON values by name."""
    return [json.loads(one) for one in group.all_gather(json.dumps(facts).encode())]


def check_equal(group: Collective, facts: Mapping[str, Any]) -> None:
    """Raises UserError where a process says something else than the first one."""
    said = all_gather_json(group, facts)
    for rank, one in enumerate(said):
        for name, was in said[0].items():
            now = one.get(name)
            if now != was:
                both = "" if len(str(was)) > 40 else f" ({now}, there {was})"
                raise UserError(
                    f"{name}: process {rank} has another one than process 0{both}: give"
                    " all machines the same command, software and files"
                )


def all_gather_rows(group: Collective, outputs: Outputs) -> dict[str, Any]:
    """Rows of all processes, one after the other: [own rows, ...] -> [rows, ...]."""
    if group.size == 1:
        return {**outputs}

    def gathered(values: np.ndarray) -> np.ndarray:
        parts = group.all_gather(np.ascontiguousarray(values).tobytes())
        flat = np.frombuffer(b"".join(parts), values.dtype)
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
    """Raises RunError where the processes do not hold the same bits."""
    total = 0
    if group.size > 1:
        for tensors in (state.params, state.slots):
            for name in sorted(tensors):
                value = np.ascontiguousarray(tensors[name]).reshape(-1).view(np.uint8)
                total = zlib.crc32(value.data, zlib.crc32(name.encode(), total))
    said = [facts["crc"] for facts in all_gather_json(group, {"crc": total})]
    other = [rank for rank, crc in enumerate(said) if crc != said[0]]
    if other:
        raise RunError(
            f"step {state.step}: process {other[0]} holds other weights than the first:"
            " nothing is saved: look for a faulty machine, or one of another kind, then"
            " start the same command again"
        )
