"""Makes tests/golden/masks.json with google-research/bert's own masking:

    python -m tests.reference.google_masks

Needs bert-tensorflow. What is kept are counts over many rows, so that another
stream of random numbers can be compared.
"""

import collections
import importlib.metadata
import json
import random

from tests.support import paths

GOLDEN = paths.GOLDEN / "masks.json"
VOCAB = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{i}" for i in range(35))]
ROWS = 20_000
# Tokens of each segment, masked_lm_prob, max_predictions_per_seq.
CASES = (
    ((62, 63), 0.15, 20),
    ((62, 63), 0.15, 5),
    ((9, 8), 0.15, 20),
    ((1, 1), 0.15, 20),
    ((3, 17), 0.5, 20),
    ((28,), 0.15, 20),
)
PROBABILITIES = (0.15, 0.1)  # of the budgets
LENGTHS = (5, 200)


def make_row(segments: tuple[int, ...]) -> list[str]:
    """[CLS] and segments that each end in [SEP]; words recur."""
    words = VOCAB[5:]
    row = ["[CLS]"]
    for size in segments:
        row += [words[(len(row) + i) * 7 % len(words)] for i in range(size)]
        row.append("[SEP]")
    return row


def main() -> None:
    from absl import flags
    from bert.create_pretraining_data import create_masked_lm_predictions

    flags.FLAGS(["x"])
    rng = random.Random(0)
    cases = []
    for segments, probability, most in CASES:
        row = make_row(segments)
        at = [0] * len(row)
        drawn, sizes = collections.Counter(), set()
        for _ in range(ROWS):
            tokens, positions, _ = create_masked_lm_predictions(
                row, probability, most, VOCAB, rng
            )
            sizes.add(len(positions))
            for place in positions:
                at[place] += 1
                drawn["same" if tokens[place] == row[place] else tokens[place]] += 1
        cases.append(
            {
                "segments": segments,
                "probability": probability,
                "most": most,
                "masked_at": at,  # rows in which each token is masked
                "drawn": [drawn[key] for key in ["same", *VOCAB]],
                "sizes": sorted(sizes),
            }
        )
    budgets = {
        probability: [
            len(
                create_masked_lm_predictions(
                    make_row((length - 2,)), probability, 20, VOCAB, rng
                )[1]
            )
            for length in range(*LENGTHS)
        ]
        for probability in PROBABILITIES
    }
    version = importlib.metadata.version("bert-tensorflow")
    golden = {"bert-tensorflow": version, "rows": ROWS, "vocab": VOCAB}
    golden |= {"cases": cases, "lengths": LENGTHS, "budgets": budgets}
    GOLDEN.write_text(json.dumps(golden) + "\n")


if __name__ == "__main__":
    main()
