"""Runs google-research/bert's own extract_features.py (PyPI bert-tensorflow).

    python -m tests.reference.google_extract FLAGS

In a process of its own, since the package defines absl flags. TensorFlow has no
Estimator any more: of it the script calls TPUEstimator.predict, which on a CPU builds
the graph once and runs it batch by batch. All else is Google's code.
"""

from __future__ import annotations

import os
import subprocess
import sys
import types
from collections.abc import Iterator
from typing import Any

from tests.support.paths import ROOT


def run(**flags: Any) -> None:
    """Runs it with these flags, to its end."""
    given = [f"--{name}={value}" for name, value in flags.items()]
    done = subprocess.run(
        [sys.executable, "-m", "tests.reference.google_extract", *given],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": "", "TF_USE_LEGACY_KERAS": "1"},
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]


def provide_estimator(tf: Any) -> None:
    """tf.estimator, as far as the script calls it."""

    class Estimator:
        def __init__(self, model_fn: Any, predict_batch_size: int, **unused: Any):
            self._model_fn, self._rows = model_fn, predict_batch_size

        def predict(self, input_fn: Any, yield_single_examples: bool) -> Iterator[Any]:
            assert yield_single_examples
            params = {"batch_size": self._rows}
            with tf.Graph().as_default():
                data = input_fn(params)
                columns = tf.data.make_one_shot_iterator(data).get_next()
                spec = self._model_fn(columns, None, "infer", params)
                with tf.Session() as session:
                    session.run(tf.global_variables_initializer())
                    while True:
                        try:
                            batch = session.run(spec.predictions)
                        except tf.errors.OutOfRangeError:
                            return
                        for index in range(len(batch["unique_id"])):
                            yield {name: batch[name][index] for name in batch}

    def named(**fields: Any) -> types.SimpleNamespace:
        return types.SimpleNamespace(**fields)

    tpu = named(
        InputPipelineConfig=named(PER_HOST_V2=None),
        RunConfig=named,
        TPUConfig=named,
        TPUEstimatorSpec=named,
        TPUEstimator=Estimator,
    )
    tf.estimator = named(ModeKeys=named(PREDICT="infer"), tpu=tpu)


def main() -> None:
    import tensorflow.compat.v1 as tf

    from tests.reference.google_graph import provide_contrib

    tf.disable_v2_behavior()
    provide_contrib(tf)
    provide_estimator(tf)
    from absl import flags
    from bert import extract_features

    flags.FLAGS(sys.argv)
    extract_features.main([])


if __name__ == "__main__":
    main()
