"""Asks google-research/bert's own convert_single_example for model inputs.

    python tests/reference/google_features.py < request.json > features.json

The request names vocab_file, max_seq_length, labels and rows (text_a, text_b,
label); the answer holds input_ids, input_mask, segment_ids and label_id of each.
"""

import json
import os
import pathlib
import sys

os.environ["TF_USE_LEGACY_KERAS"] = "1"
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
sys.path.insert(0, str(pathlib.Path(__file__).parents[2]))


def main():
    import tensorflow.compat.v1 as tf

    from tests.reference.google_graph import provide_contrib

    provide_contrib(tf)
    from absl import flags
    from bert import run_classifier, tokenization

    flags.FLAGS(["x"])  # tokenization reads a flag of its own
    request = json.load(sys.stdin)
    tokenizer = tokenization.FullTokenizer(request["vocab_file"], do_lower_case=True)
    features = []
    for index, (text_a, text_b, label) in enumerate(request["rows"]):
        example = run_classifier.InputExample("x", text_a, text_b, label)
        # The first five rows are printed to the log.
        actual = run_classifier.convert_single_example(
            index + 5, example, request["labels"], request["max_seq_length"], tokenizer
        )
        names = ("input_ids", "input_mask", "segment_ids", "label_id")
        features.append({name: getattr(actual, name) for name in names})
    json.dump(features, sys.stdout)


if __name__ == "__main__":
    main()
