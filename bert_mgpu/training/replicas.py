"""Replicas of the weights and the optimizer's slots, one on each device."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from bert_mgpu.core import tensor_names
from bert_mgpu.core.errors import RunError
from bert_mgpu.distributed import devices as devices_lib
from bert_mgpu.training import precision
from bert_mgpu.training.traced_once import TracedOnce

Variables = dict[str, tf.Variable]

_COPIED_SIZE = 1 << 16  # values: tensors up to this size are compared on the host


class Replica(NamedTuple):
    """The variables of one device, by name."""

    params: Variables
    slots: Variables
    forward_params: Variables  # for forward passes; empty before `refresh`

    def loss_scale(self) -> tf.Tensor:
        """The factor by which the loss is multiplied, 1 without loss scaling."""
        scale = self.slots.get(tensor_names.SCALE)
        return tf.constant(1.0) if scale is None else scale.read_value()


class Replicas:
    """A `Replica` for each device: `replicas[i]` is the one of device i."""

    def __init__(self, devices: Sequence[str], dtype: str, xla: bool):
        """dtype: of the computations of a pass; xla: compile casts and checksums."""
        self._devices = devices
        self._dtype = dtype
        self._xla = xla
        self._replicas: list[Replica] = []
        traced = functools.partial(tf.function, autograph=False)
        self._cast = TracedOnce(traced(_cast, jit_compile=xla))

    def __getitem__(self, device: int) -> Replica:
        return self._replicas[device]

    def __iter__(self) -> Iterator[Replica]:
        return iter(self._replicas)

    def load(
        self, params: Mapping[str, np.ndarray], slots: Mapping[str, np.ndarray]
    ) -> None:
        """Copies these to every device, replacing what was there."""
        self._replicas = []
        for device in self._devices:
            with tf.device(device):
                self._replicas.append(
                    Replica(_variables(params), _variables(slots), {})
                )

    def specs(self) -> dict[str, tf.TensorSpec]:
        """The shapes and dtypes of the weights with which a pass computes."""
        params = self._replicas[0].params
        dtypes = precision.dtypes(params, self._dtype)
        return {n: tf.TensorSpec(v.shape, dtypes[n]) for n, v in params.items()}

    def snapshot(self) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        """The (params, slots) of the first device; all devices have the same."""
        first = self._replicas[0]
        return _values(first.params), _values(first.slots)

    def refresh(self) -> None:
        """Brings the weights for forward passes up to date: the moving averages if they
        are kept, else the weights themselves, in the precision of the run.
        """
        for device, replica in zip(self._devices, self._replicas, strict=True):
            sources = _averaged(replica.params, replica.slots)
            if not replica.forward_params:
                with tf.device(device):
                    replica.forward_params.update(self._forward_variables(sources))
            targets = {
                name: variable
                for name, variable in replica.forward_params.items()
                if variable is not sources[name]
            }
            if targets:
                kept = {name: sources[name] for name in targets}
                self._cast.trace(kept, targets)
                with tf.device(device):
                    self._cast(kept, targets)

    def check_replicas_equal(self) -> None:
        """Raises RunError if weights and slots are not bit-identical on all devices.

        GPUs of different models round differently: in that case nothing is compared,
        and all devices get the values of the first one.
        """
        if len(self._replicas) == 1:
            return
        if len(devices_lib.device_models(self._devices)) > 1:
            for replica in self._replicas[1:]:
                for table, first in zip(
                    replica[:2], self._replicas[0][:2], strict=True
                ):
                    for name, variable in table.items():
                        variable.assign(first[name])
            return
        pending = []
        for device, replica in zip(self._devices, self._replicas, strict=True):
            with tf.device(device):
                pending.append(_fingerprints(replica, self._xla))
        fingerprints = [[_digest(value) for value in own] for own in pending]
        for device, own in zip(self._devices, fingerprints, strict=True):
            if own != fingerprints[0]:
                raise RunError(
                    f"the weights on {device} differ from those on {self._devices[0]}:"
                    " nothing is saved: check for a faulty GPU, then run the same"
                    " command again"
                )

    def _forward_variables(self, sources: Variables) -> Variables:
        """The sources, with new variables in place of those that have to be cast."""
        dtypes = precision.dtypes(sources, self._dtype)
        return {
            name: variable
            if variable.dtype == dtypes[name]
            else tf.Variable(tf.zeros(variable.shape, dtypes[name]), name=name)
            for name, variable in sources.items()
        }


def as_tensors(table: Mapping[str, tf.Variable | tf.Tensor]) -> dict[str, tf.Tensor]:
    """The current values of these variables."""
    return {name: tf.convert_to_tensor(value) for name, value in table.items()}


def _averaged(params: Variables, slots: Variables) -> Variables:
    return {n: slots.get(f"{n}/{tensor_names.AVERAGE}", v) for n, v in params.items()}


def _variables(values: Mapping[str, np.ndarray]) -> Variables:
    return {name: tf.Variable(value, name=name) for name, value in values.items()}


def _values(table: Variables) -> dict[str, np.ndarray]:
    return {name: variable.numpy() for name, variable in table.items()}


def _cast(sources: Variables, targets: Variables) -> None:
    for name, value in as_tensors(sources).items():
        targets[name].assign(tf.cast(value, targets[name].dtype))


def _fingerprints(replica: Replica, xla: bool) -> list[tf.Tensor]:
    """The checksum of each tensor; without XLA, or if it is small, the tensor itself.

    The checksum is compiled once for each size: compiled together, the checksums of all
    tensors would take as long to compile as a training step, on every device.
    """
    tensors = [
        *as_tensors(replica.params).values(),
        *as_tensors(replica.slots).values(),
    ]
    return [
        value
        if not xla or value.shape.num_elements() <= _COPIED_SIZE
        else _checksum_of(value.dtype)(tf.reshape(value, [-1]))
        for value in tensors
    ]


def _digest(value: tf.Tensor) -> bytes:
    return hashlib.blake2b(value.numpy().tobytes()).digest()


@functools.cache
def _checksum_of(dtype: tf.DType) -> Callable[[tf.Tensor], tf.Tensor]:
    """`_checksum` for tensors of this dtype, traced once for all devices."""
    traced = tf.function(_checksum, autograph=False, jit_compile=True)
    with tf.device(None):  # the caller's device
        return traced.get_concrete_function(tf.TensorSpec([None], dtype))


def _checksum(values: tf.Tensor) -> tf.Tensor:
    """uint32 [2]: the sum of a tensor's bit patterns [n], and a sum weighted by index.

    Integer sums, so that the order of summation does not matter.
    """
    bits = tf.bitcast(values, tf.uint32) if values.dtype == tf.float32 else values
    bits = tf.cast(bits, tf.uint32)
    indices = tf.cast(tf.range(tf.size(bits)), tf.uint32)
    return tf.stack([tf.reduce_sum(bits), tf.reduce_sum(bits * (2 * indices + 1))])
