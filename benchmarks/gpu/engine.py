"""bert_mgpu's towers, as the rows use them; no other module here touches them.

A trainer is built from flags, as a run is.
"""

from __future__ import annotations

import itertools
import pathlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from benchmarks.gpu import absent, shapes
from benchmarks.gpu.process import is_dry
from benchmarks.gpu.shapes import Batch, Shape
from bert_mgpu.checkpoints import train_state
from bert_mgpu.checkpoints.pretrained import Pretrained
from bert_mgpu.config.finetuning import FinetuneConfig
from bert_mgpu.core import errors
from bert_mgpu.core import task as task_lib
from bert_mgpu.distributed import devices, topology
from bert_mgpu.model import params as params_lib
from bert_mgpu.model.config import BertConfig
from bert_mgpu.runs import memory
from bert_mgpu.runs.run import Run, make_towers
from bert_mgpu.tasks.classification.task import Classification

SEED, RATE = 1, 1e-4
_FILLED = 0.5  # of a card's memory, as planned: whether plans are right is a question
State = tuple[dict[str, np.ndarray], dict[str, np.ndarray], int]  # weights, slots, step


def visible(
    cards: int = 1, deterministic: bool = False, precision: str = "float32"
) -> list[str]:
    """The first cards, or a dry run's logical CPU devices; fixed once per process."""
    kind = "cpu" if is_dry() else "auto"
    there = devices.configure(
        kind, cards, cards, deterministic=deterministic, tf32=precision == "tf32"
    )
    return there[:cards]


def _job(shape: Shape, there: list[str], flags: Mapping[str, Any]) -> Run:
    config = BertConfig.from_dict(shape.google_config, "drawn")
    run = FinetuneConfig(
        seed=SEED,
        max_seq_length=shape.length,
        train_batch_size=shape.batch,
        **flags,
    )
    labels = [str(label) for label in range(shapes.CLASSES)]
    model = Pretrained(
        config, "", None, vocab_file=None, do_lower_case=True, labels=labels
    )
    task = Classification(
        "x", config, labels, max_seq_length=shape.length, recompute=run.recompute
    )
    world = topology.single_process(run.n_gpus, there)
    return Run(run, model, task, data=None, topology=world, output_dir=pathlib.Path())  # type: ignore[arg-type]


def fitting(shape: Shape, precision: str, cards: int = 1, **flags: Any) -> Shape:
    """The shape with its batch halved until half of a card's memory should suffice."""
    there = visible(cards)
    room = devices.free_memory(there)
    flags |= {"precision": precision}
    while room and shape.batch > 1:
        parts = memory.by_part(_job(shape, there, flags), shape.batch, shape.length)
        if sum(parts.values()) < _FILLED * room:
            break
        shape = shape._replace(batch=shape.batch // 2)
    return shape


def room() -> int | None:
    """The free memory of the first card in bytes."""
    return devices.free_memory(visible())


class Trainer:
    """Towers with random or given weights that train on random rows."""

    def __init__(
        self,
        shape: Shape,
        *,
        precision: str = "float32",
        cards: int = 1,
        towers: int = 0,
        deterministic: bool = False,
        state: State | None = None,
        **flags: Any,
    ):
        """towers: their number, 0 for as many as cards."""
        self.shape, self.towers = shape, towers or cards
        self.devices = visible(cards, deterministic, precision)
        if is_dry():  # compiling would take most of the time
            flags = {"xla": "off"} | flags
        flags |= {"n_gpus": self.towers, "precision": precision}
        flags |= {"deterministic": deterministic}
        self._job = _job(shape, self.devices, flags)
        self._towers = make_towers(self._job)
        specs = self._job.task.param_specs()
        if state is None:
            params = params_lib.initialize(specs, 0.02, SEED)
            state = params, self._towers.initial_slots(params), 0
        params, slots, first = state
        self._towers.load(params, slots)
        self._numbers = itertools.count(first)

    def batch(self, number: int = 0, *, padded: bool = False) -> Batch:
        return shapes.drawn(self.shape, self.towers, number, padded=padded)

    def place(self, batch: Batch) -> Any:
        """The batch on its way to the cards; `step` takes that as well."""
        return self._towers.place(batch)

    def step(self, batch: Batch) -> Any:
        """Starts the next step; pass its result to `read`."""
        return self._towers.train_step(batch, next(self._numbers), RATE)

    @staticmethod
    def read(result: Any) -> tuple[float, float]:
        """(loss, norm of the gradient): waits for the step."""
        return float(result.losses["loss"]), float(result.norm)

    def predict(self, batch: Batch) -> np.ndarray:
        return self._towers.outputs(batch)["logits"]

    def weights(self) -> dict[str, np.ndarray]:
        return self._towers.snapshot()[0]

    def save(self, folder: pathlib.Path, step: int) -> str:
        """Saves the weights and slots; returns how, in words."""
        params, slots = self._towers.snapshot()
        if absent.missing(["google_crc32c"]):
            arrays = {f"weights {name}": value for name, value in params.items()}
            arrays |= {f"slots {name}": value for name, value in slots.items()}
            np.savez(folder / "state.npz", **arrays, step=np.array(step))
            return "arrays of numpy (google_crc32c is not installed)"
        train_state.save(
            folder, task_lib.TrainState(params, slots, step, identity={}), 1
        )
        return "a checkpoint of a run"

    def planned_bytes(self) -> int:
        """The memory that a device needs according to --plan."""
        parts = memory.by_part(self._job, self.shape.batch, self.shape.length)
        return int(sum(parts.values()))

    def peak_bytes(self) -> int:
        """The peak memory of the first card; on a CPU, of this process."""
        if self.devices[0].startswith("GPU"):
            return tf.config.experimental.get_memory_info(self.devices[0])["peak"]
        return devices.peak_memory()


def restore(folder: pathlib.Path) -> State:
    """What `Trainer.save` wrote."""
    arrays = folder / "state.npz"
    if not arrays.exists():
        found = train_state.newest(folder, print)
        assert found, f"{folder} holds no checkpoint"
        return found[0].params, found[0].slots, found[0].step
    with np.load(arrays, allow_pickle=False) as read:
        tables = [
            {n.removeprefix(kind): read[n] for n in read if n.startswith(kind)}
            for kind in ("weights ", "slots ")
        ]
        return tables[0], tables[1], int(read["step"])


def lacks_memory(error: Exception) -> str | None:
    """What there was not enough memory for; None for any other error."""
    return errors.out_of_memory(error)
