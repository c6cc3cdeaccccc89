"""Names of the tensors in a checkpoint that are not weights of the model."""

from __future__ import annotations

AVERAGE = "ExponentialMovingAverage"  # as in tf.train.ExponentialMovingAverage

# In a checkpoint, a slot of the weight NAME is called NAME/adam_m or the like.
SLOTS = frozenset(
    (
        *("adam_m", "adam_m_q8", "adam_m_scale"),
        *("adam_v", "adam_v_q8", "adam_v_scale"),
        *("adafactor_v", "adafactor_vr", "adafactor_vc"),
        "lion_m",
        AVERAGE,
    )
)

# Gradients in float16 vanish below 6e-8, so the loss is multiplied by a scale. It is
# halved when a gradient overflows (that step changes nothing) and doubled after a
# number of steps without an overflow. Its state is kept among the optimizer's slots, so
# that every device and every checkpoint has it.
SCALE = "bert_mgpu/loss_scale"
GOOD_STEPS = "bert_mgpu/loss_scale_good_steps"  # since the scale last changed
SKIPS = "bert_mgpu/loss_scale_skips"  # steps in a row that overflowed
SKIPPED = "bert_mgpu/loss_scale_skipped"  # all steps that overflowed
STATE = (SCALE, GOOD_STEPS, SKIPS, SKIPPED)
