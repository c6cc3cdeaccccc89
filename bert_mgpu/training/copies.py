"""The weights and the optimizer's slots as each device of a process holds them."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from bert_mgpu.core import tensor_names
from bert_mgpu.core.errors import RunError
from bert_mgpu.distributed import devices as devices_lib
from bert_mgpu.training import precision
from bert_mgpu.training.once import TracedOnce

Variables = dict[str, tf.Variable]


class Replica(NamedTuple):
    """What one device holds, by name."""

    params: Variables
    slots: Variables
    used: Variables  # what a forward pass reads: empty before `Copies.refresh`


class Replicas:
    """One copy for each device: `copies[i]` is that of device i."""

    def __init__(self, devices: Sequence[str], dtype: str, xla: bool):
        """dtype: what a pass computes in; xla: compile what can be."""
        self._devices = devices
        self._dtype = dtype
        self._copies: list[Replica] = []
        traced = functools.partial(tf.function, autograph=False)
        self._cast = TracedOnce(traced(_cast, jit_compile=xla))
        self._checksum = TracedOnce(traced(_checksum, jit_compile=True))

    def __getitem__(self, device: int) -> Replica:
        return self._copies[device]

    def load(
        self, params: Mapping[str, np.ndarray], slots: Mapping[str, np.ndarray]
    ) -> None:
        """Puts these on every device, in the place of what was there."""
        self._copies = []
        for device in self._devices:
            with tf.device(device):
                self._copies.append(Replica(_variables(params), _variables(slots), {}))

    def specs(self) -> dict[str, tf.TensorSpec]:
        """Of the weights as a pass computes with them."""
        params = self._copies[0].params
        wanted = precision.dtypes(params, self._dtype)
        return {n: tf.TensorSpec(v.shape, wanted[n]) for n, v in params.items()}

    def snapshot(self) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        """(params, slots) as the first device holds them; all hold the same."""
        first = self._copies[0]
        return _values(first.params), _values(first.slots)

    def refresh(self) -> None:
        """Makes what forward passes read of the weights as they are now: averages where
        there are some, in the precision of the run.
        """
        for device, copy in zip(self._devices, self._copies, strict=True):
            sources = _averaged(copy.params, copy.slots)
            if not copy.used:
                with tf.device(device):
                    copy.used.update(self._room(sources))
            goals = {n: v for n, v in copy.used.items() if v is not sources[n]}
            if goals:
                inputs = {name: sources[name] for name in goals}, goals
                self._cast.trace(*inputs)
                with tf.device(device):
                    self._cast(*inputs)

    def check_replicas_equal(self) -> None:
        """Raises RunError where the devices do not hold the same bits.

        Cards of several kinds round differently: there all get the first one's.
        """
        if len(self._copies) == 1:
            return
        if len(devices_lib.device_models(self._devices)) > 1:
            for copy in self._copies[1:]:
                for own, first in zip(copy[:2], self._copies[0][:2], strict=True):
                    for name, variable in own.items():
                        variable.assign(first[name])
            return
        self._checksum.trace(*self._copies[0][:2])
        sums = []
        for device, copy in zip(self._devices, self._copies, strict=True):
            with tf.device(device):
                sums.append(self._checksum(*copy[:2]).numpy().tolist())
        for device, found in zip(self._devices, sums, strict=True):
            if found != sums[0]:
                raise RunError(
                    f"{device} holds other weights than {self._devices[0]}: nothing is"
                    " saved: look for a faulty card, then start the same command again"
                )

    def _room(self, sources: Variables) -> Variables:
        """The same variables, new ones for those that are cast."""
        wanted = precision.dtypes(sources, self._dtype)
        return {
            name: variable
            if variable.dtype == wanted[name]
            else tf.Variable(tf.zeros(variable.shape, wanted[name]), name=name)
            for name, variable in sources.items()
        }


def read(table: Mapping[str, tf.Variable | tf.Tensor]) -> dict[str, tf.Tensor]:
    return {name: tf.convert_to_tensor(value) for name, value in table.items()}


def _averaged(params: Variables, slots: Variables) -> Variables:
    return {n: slots.get(f"{n}/{tensor_names.AVERAGE}", v) for n, v in params.items()}


def _variables(values: Mapping[str, np.ndarray]) -> Variables:
    return {name: tf.Variable(value, name=name) for name, value in values.items()}


def _values(table: Variables) -> dict[str, np.ndarray]:
    return {name: variable.numpy() for name, variable in table.items()}


def _cast(sources: Variables, goals: Variables) -> None:
    for name, value in read(sources).items():
        goals[name].assign(tf.cast(value, goals[name].dtype))


def _checksum(*tables: Variables) -> tf.Tensor:
    """uint32 [tensors, 2]: sums of all bits, one of them weighed by their places.

    Whole numbers, so that the order of a sum does not matter.
    """
    sums = []
    for value in (value for table in tables for value in read(table).values()):
        bits = tf.reshape(value, [-1])
        if bits.dtype == tf.float32:
            bits = tf.bitcast(bits, tf.uint32)
        bits = tf.cast(bits, tf.uint32)
        places = tf.cast(tf.range(bits.shape[0]), tf.uint32)
        sums.append([tf.reduce_sum(bits), tf.reduce_sum(bits * (2 * places + 1))])
    return tf.stack(sums)
