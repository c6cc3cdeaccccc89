"""The end of a training step: adds the sums of all towers and updates the weights.

Letters: n values of all gradients, L losses.
"""

from __future__ import annotations

import math

import tensorflow as tf

from bert_mgpu.distributed import collective
from bert_mgpu.distributed.collective import Collective
from bert_mgpu.training import update
from bert_mgpu.training.batches import StepInputs
from bert_mgpu.training.programs import Programs
from bert_mgpu.training.replicas import Replica


def add_and_update(
    vector: tf.Tensor,
    replica: Replica,
    programs: Programs,
    *,
    group: Collective,
    inputs: StepInputs,
    scalars: tf.Tensor,
    n_devices: int,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Updates a device's replica with the sums over all devices and processes.

    Args:
      vector: the gradients and losses of this device's towers, float32 [n + L].
      scalars: the learning rate, 1 if this process is to stop (else 0), and this
        process's loss denominators of the next batch, float32 [2 + L].
      n_devices: of this process; each calls this in a replica context of tf.distribute.

    Returns:
      The vector that a `StepResult` reads, which begins with the losses; the loss
      denominators of the next batch over all processes, float32 [L].
    """
    losses = inputs.losses
    if n_devices > 1:
        context = tf.distribute.get_replica_context()
        vector = context.all_reduce(tf.distribute.ReduceOp.SUM, vector)
    gradient, sums = programs.layout(losses).split(vector)
    exact = tf.concat([sums, scalars[2:], scalars[1:2]], 0)
    gradient, exact, seconds = collective.timed_all_reduce(group, gradient, exact)
    norm = update.global_norm(gradient)
    is_number = tf.reduce_all(tf.math.is_finite(exact[: len(losses)]))
    state = programs.update(
        losses,
        programs.trained(replica.params),
        replica.slots,
        gradient=gradient,
        norm=tf.where(is_number, norm, math.nan),  # then nothing is updated
        rate=scalars[0],
        step=inputs.numbers[0],
    )
    sums, next_weights, stops = tf.split(exact, [len(losses), len(losses), 1])
    return tf.concat([sums, stops, seconds[None], state], 0), next_weights
