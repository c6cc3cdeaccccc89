"""The facts of a machine, found in a process of its own: TensorFlow may abort."""

from __future__ import annotations

import os
import platform
from typing import Any

from benchmarks.gpu import cards
from benchmarks.gpu.process import is_dry

LOGICAL = 4  # CPU devices of a dry run


def facts() -> dict[str, Any]:
    """The facts of this machine: the head of a book."""
    import numpy as np
    import tensorflow as tf

    found = tf.config.list_physical_devices("GPU")
    details = [tf.config.experimental.get_device_details(one) for one in found]
    built = tf.sysconfig.get_build_info()
    names = [one.get("device_name", "unnamed") for one in details]
    told = cards.facts() if found else []
    return {
        "dry run": is_dry(),
        "card": names[0] if names else "CPU",
        "cards": LOGICAL if is_dry() else len(found),
        "other cards": sorted(set(names) - set(names[:1])),
        "compute capability": ".".join(
            str(number)
            for one in details[:1]
            for number in one.get("compute_capability", ())
        ),
        **(told[0] if told else {}),
        "nvidia-smi": told,
        "tensorflow": tf.__version__,
        "cuda": built.get("cuda_version", ""),
        "cudnn": built.get("cudnn_version", ""),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "system": platform.platform(),
        "cpu cores": len(os.sched_getaffinity(0)),
    }
