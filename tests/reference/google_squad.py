"""Asks google-research/bert's own run_squad.py for features, or for predictions.

    python -m tests.reference.google_squad FOLDER

In a process of its own, since the package defines absl flags. FOLDER/request.json has
`data` (a file of SQuAD's form), vocab_file, flags, and what to do: "features" writes
FOLDER/features.json, a list of windows by question, "predictions" takes
FOLDER/logits.npz, the logits of all windows in their order, and writes the files of
run_squad.py, and seconds.json, the processor time of each of `runs` (1).
"""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import time
from typing import Any

from tests.support.paths import ROOT

KEPT = ("example_index", "input_ids", "segment_ids", "start_position", "end_position")


def ask(folder: pathlib.Path, request: dict[str, Any]) -> None:
    """Runs it; its answers are in the folder."""
    (folder / "request.json").write_text(json.dumps(request))
    done = subprocess.run(
        [sys.executable, "-m", "tests.reference.google_squad", str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": "", "TF_USE_LEGACY_KERAS": "1"},
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]


def main(folder: pathlib.Path) -> None:
    import tensorflow.compat.v1 as tf

    from tests.reference.google_graph import provide_contrib

    provide_contrib(tf)
    from absl import flags
    from bert import run_squad, tokenization

    request = json.loads((folder / "request.json").read_text())
    own = request["flags"]
    flags.FLAGS(["x", *(f"--{name}={value}" for name, value in own.items())])
    tf.logging.set_verbosity(tf.logging.ERROR)
    tokenizer = tokenization.FullTokenizer(
        request["vocab_file"], do_lower_case=flags.FLAGS.do_lower_case
    )
    training = request["what"] == "features"
    examples = run_squad.read_squad_examples(request["data"], is_training=training)
    features: list[Any] = []
    run_squad.convert_examples_to_features(
        examples=examples,
        tokenizer=tokenizer,
        max_seq_length=flags.FLAGS.max_seq_length,
        doc_stride=flags.FLAGS.doc_stride,
        max_query_length=flags.FLAGS.max_query_length,
        is_training=training,
        output_fn=features.append,
    )
    if training:
        rows = [
            {name: getattr(one, name) for name in KEPT}
            | {
                "length": len(one.tokens),
                "id": examples[one.example_index].qas_id,
                "core": sorted(k for k, v in one.token_is_max_context.items() if v),
            }
            for one in features
        ]
        (folder / "features.json").write_text(json.dumps(rows))
        return
    import numpy as np

    logits = np.load(folder / "logits.npz")
    results = [
        run_squad.RawResult(
            one.unique_id,
            [float(x) for x in logits[f"{index}"][:, 0]],
            [float(x) for x in logits[f"{index}"][:, 1]],
        )
        for index, one in enumerate(features)
    ]
    assert len(features) == len(logits.files), "not the windows of the logits"
    names = ("predictions.json", "nbest_predictions.json", "null_odds.json")
    seconds = []
    for _ in range(request.get("runs", 1)):
        began = time.process_time()
        run_squad.write_predictions(
            examples,
            features,
            results,
            flags.FLAGS.n_best_size,
            flags.FLAGS.max_answer_length,
            flags.FLAGS.do_lower_case,
            *(str(folder / name) for name in names),
        )
        seconds.append(time.process_time() - began)
    (folder / "seconds.json").write_text(json.dumps(seconds))


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
