"""Every test process has six logical CPU devices: they are decided only once."""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")


def pytest_configure(config):
    from bert_mgpu.train import devices

    devices.configure("cpu", 6)
