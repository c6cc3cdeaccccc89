"""A small model on logical CPU devices, trained by towers of any layout."""

import pytest

from tests.support.batches import CONFIG, LABELS, LENGTH, RATE, TWO_LAYERS, split


def initialized(config):
    from bert_mgpu.model import params
    from bert_mgpu.tasks.classification.task import Classification

    specs = Classification("x", config, LABELS, max_seq_length=LENGTH).param_specs()
    return params.initialize(specs, 0.1, seed=5)


@pytest.fixture(scope="session")
def first_params():
    return initialized(CONFIG)


@pytest.fixture(scope="session")
def two_layer_params():
    return initialized(TWO_LAYERS)


@pytest.fixture(scope="session")
def train(first_params):
    """train(n_towers, n_devices, batches, ...) -> (params, losses, norms)."""
    from bert_mgpu.distributed import devices
    from bert_mgpu.tasks.classification.task import Classification
    from bert_mgpu.training.towers import Towers

    def run(
        n_towers,
        n_devices,
        batches,
        *,
        parts=None,
        xla=False,
        config=CONFIG,
        seed=42,
        rate=RATE,
        **settings,
    ):
        visible = devices.configure("cpu", n_devices)
        task = Classification("x", config, LABELS, max_seq_length=LENGTH)
        towers = Towers(task, n_towers, visible, seed=seed, xla=xla, **settings)
        towers.load(first_params, towers.initial_slots(first_params))
        losses, norms = [], []
        for step, batch in enumerate(batches):
            done = towers.train_step(split(batch, parts or n_towers), step, rate)
            losses.append(float(done.losses["loss"]))
            norms.append(float(done.norm))
        return towers.snapshot()[0], losses, norms

    return run
