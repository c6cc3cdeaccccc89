"""The flags of a run that is evaluated on its way, and its scores as it wrote them."""

import json

STEPS, EVERY = 18, 4
TRAINED = {"do_train": True, "num_train_epochs": 3, "save_checkpoints_steps": 6}
LOOKS = {"eval_steps": EVERY, "eval_batch_size": 4}
STEPS_SEEN = [4, 8, 12, 16, 18]


def history(out):
    actual = [json.loads(line) for line in (out / "evaluations.jsonl").open()]
    for row in actual:
        assert row.pop("seconds") > 0
    return actual


def scores(path):
    lines = (line.split(" = ") for line in path.read_text().splitlines())
    return {name: float(value) for name, value in lines}
