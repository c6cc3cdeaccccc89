"""Statistics of the rows that Google's own script makes of made documents:

    python -m tests.reference.google_instances

writes tests/golden/instances.json. Needs bert-tensorflow, whose
create_pretraining_data.py is google-research/bert's but for whole words. In a process
of its own because the package defines absl flags on import.
"""

import importlib.metadata
import json
import os
import pathlib
import random
import tempfile

from tests.support import paths

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

from tests.reference import instance_cases as cases

GOLDEN = paths.GOLDEN / "instances.json"
PACKAGE = "bert-tensorflow"


def main() -> None:
    import tensorflow.compat.v1 as tf

    from tests.reference.google_graph import provide_contrib

    provide_contrib(tf)
    from absl import flags
    from bert import create_pretraining_data as google
    from bert import tokenization

    flags.FLAGS(["x", "--input_file=x", "--output_file=x", "--vocab_file=x"])
    with tempfile.TemporaryDirectory() as folder:
        vocab, text = pathlib.Path(folder, "vocab.txt"), pathlib.Path(folder, "text")
        vocab.write_text("".join(f"{token}\n" for token in cases.vocabulary()))
        text.write_text(
            "\n".join("".join(" ".join(s) + "\n" for s in d) for d in cases.documents())
        )
        tokenizer = tokenization.FullTokenizer(str(vocab))

        def rows(case, seed):
            length, most, short = cases.CASES[case]
            instances = google.create_training_instances(
                [str(text)],
                tokenizer,
                length,
                cases.DUPES,
                short,
                0.15,
                most,
                random.Random(seed),
            )
            for instance in instances:
                yield cases.Row(
                    tokenizer.convert_tokens_to_ids(instance.tokens),
                    instance.segment_ids,
                    instance.masked_lm_positions,
                    tokenizer.convert_tokens_to_ids(instance.masked_lm_labels),
                    int(instance.is_random_next),
                )

        golden = {
            case: cases.summary(
                [
                    cases.statistics(rows(case, seed), cases.CASES[case][0])
                    for seed in range(cases.RUNS)
                ]
            )
            for case in cases.CASES
        }
    version = importlib.metadata.version(PACKAGE)
    GOLDEN.write_text(json.dumps({PACKAGE: version, **golden}, indent=1) + "\n")


if __name__ == "__main__":
    main()
