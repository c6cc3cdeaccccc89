"""Training speed beside Google's own graph and transformers + torch.

    python benchmarks/throughput.py [--rounds=5] [--models=4x256,base]

Every contestant trains the same shapes (full length, float32, dropout 0.1) in a
process of its own; the processes take turns, so that a machine whose speed drifts
is the same for all. Prints medians and ratios; writes throughput.json and .md to
benchmarks/results/.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import time
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
# layers, width, heads, batch, length, steps timed a round
MODELS = {
    "4x256": (4, 256, 4, 32, 128, 6),
    "base": (12, 768, 12, 8, 128, 3),
}
VOCAB, CLASSES, RATE = 21128, 10, 2e-5
WARM_UP = 2


def _shapes(name: str) -> dict[str, int]:
    keys = ("layers", "hidden", "heads", "batch", "length", "steps")
    return dict(zip(keys, MODELS[name], strict=True))


def _batch(shape: dict[str, int]) -> dict[str, Any]:
    import numpy as np

    rng = np.random.default_rng(0)
    size = (shape["batch"], shape["length"])
    return {
        "input_ids": rng.integers(1, VOCAB, size).astype(np.int32),
        "input_mask": np.ones(size, np.int32),
        "segment_ids": np.zeros(size, np.int32),
        "label_ids": rng.integers(0, CLASSES, size[:1]).astype(np.int32),
    }


def _config(shape: dict[str, int]) -> Any:
    from bert_mgpu.config import BertConfig

    return BertConfig(
        vocab_size=VOCAB,
        hidden_size=shape["hidden"],
        num_hidden_layers=shape["layers"],
        num_attention_heads=shape["heads"],
        intermediate_size=4 * shape["hidden"],
    )


# -- the contestants: each makes a function that trains one step ---------------


def ours(shape: dict[str, int], xla: bool = True) -> Any:
    import numpy as np

    from bert_mgpu.nn import params as params_lib
    from bert_mgpu.tasks.classification import Classification
    from bert_mgpu.train import checkpoint, devices
    from bert_mgpu.train.towers import Towers

    labels = [str(label) for label in range(CLASSES)]
    task = Classification("x", _config(shape), labels, shape["length"])
    params = params_lib.initialize(task.param_specs(), 0.02, seed=1)
    towers = Towers(task, 1, devices.configure("cpu", 1), seed=1, xla=xla)
    towers.load(params, checkpoint.zero_slots(params))
    batch = {name: value[None] for name, value in _batch(shape).items()}
    batch["is_real_example"] = np.ones((1, shape["batch"]), np.float32)
    steps = iter(range(10**9))

    def step() -> float:
        losses, _ = towers.train_step(batch, next(steps), RATE)
        return float(losses["loss"])

    return step


def ours_plain(shape: dict[str, int]) -> Any:
    return ours(shape, xla=False)


def google(shape: dict[str, int]) -> Any:
    """run_classifier.py's model and optimizer, as they are."""
    import tensorflow.compat.v1 as tf

    tf.disable_v2_behavior()
    sys.path.insert(0, str(ROOT))
    from tests.reference.google_graph import provide_contrib

    provide_contrib(tf)
    from bert import modeling, optimization, run_classifier

    config = modeling.BertConfig.from_dict(json.loads(_config(shape).to_google_json()))
    tensors = {name: tf.constant(value) for name, value in _batch(shape).items()}
    inputs = [tensors[n] for n in ("input_ids", "input_mask", "segment_ids")]
    loss, _, _, _ = run_classifier.create_model(
        config, True, *inputs, tensors["label_ids"], CLASSES, False
    )
    tf.train.get_or_create_global_step()
    train = optimization.create_optimizer(loss, RATE, 1000, 100, False)
    session = tf.Session()
    session.run(tf.global_variables_initializer())
    return lambda: float(session.run([loss, train])[0])


def transformers(shape: dict[str, int]) -> Any:
    """BertForSequenceClassification with torch's AdamW and clip, eager mode."""
    import torch
    import transformers as library

    config = library.BertConfig(
        vocab_size=VOCAB,
        hidden_size=shape["hidden"],
        num_hidden_layers=shape["layers"],
        num_attention_heads=shape["heads"],
        intermediate_size=4 * shape["hidden"],
        num_labels=CLASSES,
    )
    model = library.BertForSequenceClassification(config).train()
    optimizer = torch.optim.AdamW(model.parameters(), RATE, weight_decay=0.01)
    tensors = {k: torch.tensor(v).long() for k, v in _batch(shape).items()}

    def step() -> float:
        optimizer.zero_grad()
        loss = model(
            input_ids=tensors["input_ids"],
            attention_mask=tensors["input_mask"],
            token_type_ids=tensors["segment_ids"],
            labels=tensors["label_ids"],
        ).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.item()

    return step


def matmul(shape: dict[str, int]) -> Any:
    """The machine's own speed: one large product per step, no model."""
    import tensorflow as tf

    side = 2048
    a, b = tf.random.normal([side, side]), tf.random.normal([side, side])
    product = tf.function(lambda a, b: tf.reduce_sum(tf.matmul(a, b)))
    return lambda: float(product(a, b))


CONTESTANTS = {
    "bert_mgpu": ours,
    "bert_mgpu --xla=off": ours_plain,
    "google-research/bert": google,
    "transformers + torch": transformers,
    "matmul": matmul,
}


def _serve(contestant: str, model: str) -> None:
    """Times a round of steps for every line read; the parent sets the pace."""
    shape = _shapes(model)
    step = CONTESTANTS[contestant](shape)
    for _ in range(WARM_UP):
        step()
    print("ready", flush=True)
    for _ in sys.stdin:
        times = []
        for _ in range(shape["steps"]):
            began = time.perf_counter()
            loss = step()
            times.append(time.perf_counter() - began)
        print(json.dumps([statistics.median(times), loss]), flush=True)


def _flops(shape: dict[str, int]) -> float:
    """Of one training step: three times the products of the forward pass."""
    length, hidden = shape["length"], shape["hidden"]
    row = length * shape["layers"] * (72 * hidden**2 + 12 * length * hidden)
    return float(shape["batch"] * row)


def measure(model: str, rounds: int) -> list[dict[str, Any]]:
    environment = {
        **os.environ,
        "CUDA_VISIBLE_DEVICES": "",
        "TF_CPP_MIN_LOG_LEVEL": "3",
    }
    environment["TF_USE_LEGACY_KERAS"] = "1"
    servers = {}
    for name in CONTESTANTS:  # one after the other: starting is work too
        servers[name] = subprocess.Popen(
            [sys.executable, __file__, f"--serve={name}", f"--models={model}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=environment | {"PYTHONPATH": str(ROOT)},
        )
        line = servers[name].stdout.readline()  # type: ignore[union-attr]
        if line.strip() != "ready":
            sys.exit(f"{name} does not start; try --serve={name!r} --models={model}")
    times: dict[str, list[float]] = {name: [] for name in servers}
    for _ in range(rounds):
        for name, server in servers.items():
            assert server.stdin and server.stdout
            print("go", file=server.stdin, flush=True)
            seconds, loss = json.loads(server.stdout.readline())
            assert loss == loss, f"{name}: the loss is not a number"
            times[name].append(seconds)
    for server in servers.values():
        server.communicate("")
    shape = _shapes(model)
    peak = 2 * 2048**3 / statistics.median(times.pop("matmul"))
    google_times = times["google-research/bert"]
    rows = []
    for name, found in times.items():
        seconds = statistics.median(found)
        ratios = [g / t for g, t in zip(google_times, found, strict=True)]
        rows.append(
            {
                "model": model,
                **shape,
                "contestant": name,
                "seconds_per_step": round(seconds, 4),
                "examples_per_second": round(shape["batch"] / seconds, 2),
                "ratio_to_google": round(statistics.median(ratios), 3),
                "ratio_min_max": [round(min(ratios), 3), round(max(ratios), 3)],
                "share_of_matmul_peak": round(_flops(shape) / seconds / peak, 3),
                "rounds": rounds,
            }
        )
    return rows


def machine() -> dict[str, Any]:
    text = pathlib.Path("/proc/cpuinfo").read_text()
    names = [line.split(":")[1].strip() for line in text.splitlines() if "name" in line]
    return {
        "cpu": names[0] if names else platform.processor(),
        "cores": os.cpu_count(),
        "date": time.strftime("%Y-%m-%d"),
        "python": platform.python_version(),
    }


def markdown(rows: list[dict[str, Any]], where: dict[str, Any]) -> str:
    lines = [
        f"{where['cores']} cores of {where['cpu']}, {where['date']}; medians of"
        f" {rows[0]['rounds']} interleaved rounds, float32.",
        "",
        "| model | trainer | examples/s | against google-research/bert (min-max)"
        " | share of the machine's matmul speed |",
        "|---|---|---|---|---|",
    ]
    for row in rows:
        low, high = row["ratio_min_max"]
        lines.append(
            f"| {row['layers']} x {row['hidden']}, batch {row['batch']}, length"
            f" {row['length']} | {row['contestant']} | {row['examples_per_second']}"
            f" | {row['ratio_to_google']:.2f} ({low:.2f}-{high:.2f})"
            f" | {row['share_of_matmul_peak']:.2f} |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        _serve(arguments.serve, arguments.models)
        return
    rows = []
    for model in arguments.models.split(","):
        rows += measure(model, arguments.rounds)
    where = machine()
    RESULTS.mkdir(exist_ok=True)
    report = {"machine": where, "rows": rows}
    (RESULTS / "throughput.json").write_text(json.dumps(report, indent=1) + "\n")
    text = markdown(rows, where)
    (RESULTS / "throughput.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
