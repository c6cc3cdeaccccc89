"""Steps, warm-up and rates, against TensorFlow's own decay and bert-ad's sums."""

import numpy as np
import pytest
import tensorflow as tf

from bert_mgpu.config.finetuning import FinetuneConfig
from bert_mgpu.training import rules, schedule


@pytest.mark.parametrize("power", [1.0, 0.5])
@pytest.mark.parametrize(("steps", "warmup"), [(100, 10), (50, 0), (7, 7), (1, 0)])
def test_rate_is_googles(steps, warmup, power):
    """create_optimizer: polynomial_decay, then warm-up while step < warmup."""
    decay = tf.compat.v1.train.polynomial_decay
    for step in range(steps):
        decayed = decay(np.float32(2e-5), step, steps, 0.0, power=power)
        wanted = 2e-5 * step / warmup if step < warmup else float(decayed())
        rate = schedule.learning_rate(step, 2e-5, steps, warmup=warmup, power=power)
        assert rate == pytest.approx(wanted, rel=1e-5, abs=1e-12)


@pytest.mark.parametrize(
    ("examples", "batch", "n_gpus", "epochs", "wanted"),
    [(3668, 32, 1, 3.0, 343), (10_000, 12, 6, 5, 694), (100, 32, 3, 1, 1)],
)
def test_steps_are_those_of_bert_ad(examples, batch, n_gpus, epochs, wanted):
    """int(len(train_examples) / (train_batch_size * n_gpus) * num_train_epochs)"""
    run = FinetuneConfig(num_train_epochs=epochs, warmup_proportion=0.1)
    assert run.steps_of(examples, batch * n_gpus) == wanted
    assert run.warmup_of(wanted) == int(wanted * 0.1)


def test_rate_is_scaled_by_the_number_of_gpus():
    assert schedule.rate_factor(4, "none") == 1
    assert schedule.rate_factor(4, "sqrt") == 2
    assert schedule.rate_factor(4, "linear") == 4


@pytest.mark.parametrize(
    ("steps", "peak", "longest"),
    [
        (833, 1e-4, 3.5e-4),
        (416, 1e-4, 4.8e-4),
        (138, 1e-4, 6.1e-4),
        (416, 1.414e-4, 6.8e-4),
        (138, 6e-4, 3.6e-3),
    ],
)
def test_the_longest_step_is_that_of_the_published_table(steps, peak, longest):
    """docs/performance.md, with a tenth of the steps as warm-up."""
    found = schedule.longest_step(peak, steps, warmup=steps // 10)
    assert found == pytest.approx(longest, rel=0.02)


def test_the_longest_step_is_googles():
    """As google-research/bert's rule makes it of a constant gradient."""
    beta1, beta2, m, v, steps = 0.9, 0.999, 0.0, 0.0, 6000
    longest = 0.0
    for step in range(steps):
        m, v = beta1 * m + (1 - beta1), beta2 * v + (1 - beta2)
        rate = schedule.learning_rate(step, 1e-3, steps, warmup=40)
        longest = max(longest, rate * m / v**0.5)
    found = schedule.longest_step(1e-3, steps, warmup=40)
    assert found == pytest.approx(longest, rel=1e-9)
    assert schedule.longest_step(1e-3, 0, warmup=0) == 0.0


def test_steps_that_are_done_are_not_the_longest():
    def of(done):
        return schedule.longest_step(1e-4, 833, warmup=83, done=done)

    assert of(0) > of(83) > of(200) > of(700) > of(832) > 0 == of(833)
    assert schedule.longest_step(1e-4, 9000, warmup=0, done=8000) == pytest.approx(
        1e-4 / 9, rel=0.01
    )


def test_first_rule_wins_and_all_names_are_covered():
    table = [("bias", 1), ("kernel", 2)]
    assert rules.resolve(table, ["a/kernel", "bias_of/kernel"]) == {
        "a/kernel": 2,
        "bias_of/kernel": 1,
    }
    with pytest.raises(ValueError, match="a/gamma"):
        rules.resolve(table, ["a/gamma"])


def test_decay_spares_what_google_excludes(first_params):
    decays = rules.resolve(rules.weight_decay(0.01), first_params)
    assert decays.keys() == first_params.keys()
    for name, decay in decays.items():
        last = name.rpartition("/")[2]
        spared = last in ("bias", "beta", "gamma", "output_bias")
        assert decay == (0.0 if spared else 0.01), name
