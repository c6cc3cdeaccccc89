"""The contestants: bert_mgpu, google-research/bert, transformers, a matrix product.

    python -m benchmarks.speed.contestants NAME OPTIONS    # train.py does this

All use a dropout rate of 0.1, clip gradients to norm 1.0 and update by AdamW, with a
vocabulary of 21,128. Full length means random rows without padding. Headlines are real:
all contestants get the same ids, made before the clock starts, and batch them while it
runs. Only real examples count, not rows that fill up a batch.
"""

from __future__ import annotations

import itertools
import json
import pathlib
import sys
from typing import Any

from benchmarks.harness import Contestant, resident, serve
from benchmarks.speed import left_to_right, questions, rewrites, tags
from benchmarks.speed.masked_lm import (
    google_pretrains,
    ours_pretrains,
    transformers_pretrains,
)
from benchmarks.speed.transformers_torch import (
    trainer,
    transformers,
    transformers_predicts,
)
from benchmarks.speed.workloads import (
    CLASSES,
    RATE,
    SEED,
    VOCAB_FILE,
    WARM_UP,
    Batch,
    Shape,
    headlines,
    trains_full_length,
    trains_headlines,
)
from bert_mgpu.data import forward_batching, pipeline
from bert_mgpu.text.tokenization import Tokenizer


def _job(shape: Shape, flags: dict[str, Any]) -> Any:
    """A job.Job with these flags, on one device."""
    from bert_mgpu.checkpoints.pretrained import Pretrained
    from bert_mgpu.config.finetuning import FinetuneConfig
    from bert_mgpu.distributed import devices, topology
    from bert_mgpu.runs.run import Run
    from bert_mgpu.tasks.classification.task import Classification

    run = FinetuneConfig(seed=SEED, max_seq_length=shape.length, **flags)
    labels = [str(label) for label in range(CLASSES)]
    tokenizer = Tokenizer(str(VOCAB_FILE))
    model = Pretrained(
        shape.config,
        "",
        tokenizer,
        vocab_file=str(VOCAB_FILE),
        do_lower_case=True,
        labels=labels,
    )
    task = Classification(
        "x",
        model.bert_config,
        labels,
        max_seq_length=shape.length,
        recompute=run.recompute,
    )
    world = topology.single_process(run.n_gpus, devices.configure("auto", 1))
    return Run(run, model, task, data=None, topology=world, output_dir=pathlib.Path())


def _towers(job: Any) -> Any:
    """The towers of a run, with fresh weights."""
    from bert_mgpu.model import params as params_lib
    from bert_mgpu.runs.run import make_towers

    towers = make_towers(job)
    params = params_lib.initialize(job.task.param_specs(), 0.02, SEED)
    towers.load(params, towers.initial_slots(params))
    return towers


def _held() -> tuple[float, float]:
    """Like harness.resident, but for the memory of the GPU where there is one."""
    import tensorflow as tf

    if not tf.config.list_physical_devices("GPU"):
        return resident()
    told = tf.config.experimental.get_memory_info("GPU:0")
    return told["current"] / 2**20, told["peak"] / 2**20


def ours(
    shape: Shape,
    *,
    padding: str | None = None,
    freeze_half: bool = False,
    **flags: Any,
) -> Contestant:
    """Trains shape.batch examples a step, divided among towers and their micro-batches.

    padding: the policy for headlines; None: random rows of full length. freeze_half:
    whether to freeze the embeddings and the lower half of the layers. flags: of a run.
    """
    half = shape.layers // 2
    if freeze_half:
        flags["freeze_layers"] = f"embeddings,0-{half - 1}"
    job = _job(shape, flags)
    towers = _towers(job)
    parts = flags.get("n_gpus", 1) * flags.get("gradient_accumulation_steps", 1)
    numbers = itertools.count()

    def step(batch: Batch) -> float:
        shared = {
            name: value.reshape(parts, -1, *value.shape[1:])
            for name, value in batch.items()
        }
        return float(towers.train_step(shared, next(numbers), RATE).losses["loss"])

    if padding:
        return trains_headlines(shape, padding, step)._replace(held=_held)

    def report() -> dict[str, Any]:
        found = {"planned_mb": _planned_mb(job, shape.batch // parts, shape.length)}
        if "slot_bits" in flags:
            found |= _slot_sizes(*towers.snapshot())
        return found

    frozen = half if freeze_half else None
    return trains_full_length(shape, step, frozen, report)._replace(held=_held)


def _planned_mb(job: Any, rows: int, length: int) -> int:
    """MB that steps take according to --plan, on top of weights and slots."""
    from bert_mgpu.runs import memory

    parts = memory.by_part(job, rows, length)
    there = parts["weights"] + parts["slots"]
    return round((sum(parts.values()) - there) / 2**20)


def _slot_sizes(params: Any, slots: Any) -> dict[str, int]:
    """Bytes of all slots, of those in 8 bits, and of the latter if they had 32."""
    sizes = {"slot_bytes": sum(value.nbytes for value in slots.values())}
    sizes |= {"quantised_bytes": 0, "as_float32_bytes": 0}
    for name, codes in slots.items():
        if name.endswith("_q8"):
            slot = name.removesuffix("_q8")
            sizes["quantised_bytes"] += codes.nbytes + slots[f"{slot}_scale"].nbytes
            sizes["as_float32_bytes"] += params[slot.rpartition("/")[0]].nbytes
    return sizes


def ours_predicts(shape: Shape, *, packs: bool = True, **flags: Any) -> Contestant:
    """Predicts all headlines of a file: as a run does, or sorted and not packed."""
    towers, features = _towers(_job(shape, flags)), headlines("full_dev.txt")
    placements = forward_batching.forward_placements(
        features.lengths, 1, shape.batch, packs=packs, max_length=shape.length
    )

    def step(_: None) -> float:
        towers.refresh()
        outputs = pipeline.forward_all(
            features, placements, towers.place_for_outputs, ask=towers.launch_outputs
        )
        outputs = pipeline.in_order(outputs)
        return float(outputs["logits"].sum())

    return Contestant(step, lambda number: [None], [None], len(features), held=_held)


def google(shape: Shape, *, padding: str | None = None) -> Contestant:
    """run_classifier.py's model and optimizer, unchanged."""
    import tensorflow.compat.v1 as tf

    tf.disable_v2_behavior()
    from tests.reference.google_graph import provide_contrib

    provide_contrib(tf)
    from bert import modeling, optimization, run_classifier

    config = modeling.BertConfig.from_dict(shape.google_config)
    names = ("input_ids", "input_mask", "segment_ids", "label_ids")
    fed = {
        name: tf.placeholder(tf.int32, [shape.batch, shape.length]) for name in names
    }
    fed["label_ids"] = tf.placeholder(tf.int32, [shape.batch])
    loss, _, _, _ = run_classifier.create_model(
        config, True, *fed.values(), CLASSES, False
    )
    tf.train.get_or_create_global_step()
    train = optimization.create_optimizer(loss, RATE, 1000, 100, False)
    session = tf.Session()
    session.run(tf.global_variables_initializer())

    def step(batch: Batch) -> float:
        feed = {fed[name]: batch[name] for name in names}
        return float(session.run([loss, train], feed)[0])

    if padding:
        return trains_headlines(shape, padding, step)
    return trains_full_length(shape, step)


def matmul(precision: str = "float32", times: int = 10) -> Contestant:
    """The machine's own speed, in operations: one large matrix product, no model."""
    import tensorflow as tf

    tf.config.experimental.enable_tensor_float_32_execution(False)  # as in a run
    side = 8192 if tf.config.list_physical_devices("GPU") else 2048
    a, b = (tf.cast(tf.random.normal([side, side]), precision) for _ in "ab")
    product = tf.function(lambda a, b: tf.reduce_sum(tf.matmul(a, b)))
    return Contestant(
        lambda _: float(product(a, b)),
        lambda number: [None] * times,
        [None] * WARM_UP,
        2.0 * side**3 * times,
    )


MAKERS = {
    "ours": ours,
    "ours_predicts": ours_predicts,
    "google": google,
    "transformers": transformers,
    "transformers_predicts": transformers_predicts,
    "trainer": trainer,
    "matmul": matmul,
    "ours_pretrains": ours_pretrains,
    "google_pretrains": google_pretrains,
    "transformers_pretrains": transformers_pretrains,
    **tags.MAKERS,
    **questions.MAKERS,
    **rewrites.MAKERS,
    **left_to_right.MAKERS,
}


def _main(name: str, text: str) -> None:
    options = json.loads(text)
    if "shape" in options:
        options["shape"] = Shape(*options["shape"])
    serve(lambda: MAKERS[name](**options))


if __name__ == "__main__":
    _main(*sys.argv[1:])
