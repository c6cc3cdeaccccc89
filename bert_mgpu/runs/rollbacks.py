"""Where a training diverged, and how it goes on from an earlier step."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import tensorflow as tf

from bert_mgpu.checkpoints import train_state
from bert_mgpu.core import files, run_files
from bert_mgpu.core.errors import DivergedStep, UserError
from bert_mgpu.core.log import say
from bert_mgpu.core.rows import Rows
from bert_mgpu.data import batching, pipeline
from bert_mgpu.distributed import collective
from bert_mgpu.runs import mlflow_state
from bert_mgpu.runs.run import Run
from bert_mgpu.training import divergence, recorder
from bert_mgpu.training.towers import Towers

MOST = 3  # rollbacks of a training


class Rollback(NamedTuple):
    """A return to an earlier step, from which the learning rate is halved."""

    diverged: int  # the step that diverged, from 1
    step: int  # of the checkpoint to which training returned, 0 for the start
    seen: str  # see `DivergedStep`


def located(
    error: DivergedStep, run: Run, rows: Rows, *, towers: Towers
) -> DivergedStep:
    """The error, with the layer and tower of the first number that is not finite if the
    step can be repeated (see `divergence`); otherwise the log says that it is unknown.

    All processes call this: each examines its own towers.
    """
    run.topology.group.pausing()
    step = error.step - 1
    order = batching.training_orders(run.batching, rows)[run.config.padding]
    own = order.placement(step).share(towers.own_towers, towers.n_towers)
    why = "when it is repeated, each part of it is finite"
    try:
        found = towers.find_nonfinite(pipeline.collate(rows, own), step)
    except tf.errors.OpError:  # the search may need more memory than a step
        found, why = {}, "it could not be repeated"
    named = {str(tower): place for tower, place in found.items()}
    every: dict[int, str] = {}
    for facts in collective.all_gather_json(run.topology.group, named):
        every |= {int(tower): place for tower, place in facts.items()}
    if not every:
        say(f"cannot tell where step {error.step} diverged: {why}")
    return error.first_at(divergence.in_words(every, towers.n_towers))


def read(run: Run, of: str) -> list[Rollback]:
    """The rollbacks of the run in output_dir, which the first process reads.

    of: the fingerprint of the run's identity.
    """
    group = run.topology.group
    own = {"rollbacks": _read(run, of) if group.rank == 0 else []}
    found = collective.all_gather_json(group, own)[0]["rollbacks"]
    return [Rollback(*one) for one in found]


def _read(run: Run, of: str) -> list[Rollback]:
    output_dir, rate = run.output_dir, run.config.learning_rate
    path = output_dir / run_files.ROLLBACKS
    if not files.lexists(path):
        return []
    newest = max(train_state.saved_steps(output_dir), default=0)
    try:
        content = files.read_json(path)
        known = content.get("of", of if newest else None)  # older files have none
        # The file belongs to another training, which saved nothing. `of` includes the
        # rate, times --lr_scaling's factor; the same may come from another flag.
        if known != of or ("of" not in content and content["learning_rate"] != rate):
            return []
        found = [
            Rollback(int(one["diverged"]), int(one["step"]), str(one["seen"]))
            for one in content["rollbacks"]
        ]
    except (UserError, KeyError, TypeError, ValueError, OverflowError) as error:
        say(f"WARNING: {path} is not read, the learning rate is the full one: {error}")
        return []
    return [one for one in found if one.step <= newest]


def roll_back(error: DivergedStep, run: Run, of: str) -> None:
    """Records in output_dir that the training goes back to its newest checkpoint.

    of: the fingerprint of the run's identity.
    Raises the error if the flags do not ask for this, or it has happened too often.
    """
    if run.config.on_divergence != "rollback":
        raise error
    before, group = read(run, of), run.topology.group
    if len(before) >= MOST:
        raise DivergedStep(
            error.step,
            error.seen,
            f" after {MOST} rollbacks: look at the data and the weights to start from;"
            " or lower --learning_rate, with another --output_dir",
        )
    if group.rank == 0:
        newest = train_state.newest_intact(run.output_dir)
        after = [*before, Rollback(error.step, newest, error.seen)]
        content: dict[str, Any] = {"learning_rate": run.config.learning_rate}
        content["of"] = of
        content["rollbacks"] = [one._asdict() for one in after]
        text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
        with mlflow_state.LOCK:
            # Before MLflow's thread can read and log the steps once more.
            for name in (run_files.METRICS, run_files.EVALUATIONS):
                path = run.output_dir / name
                if files.lexists(path):
                    recorder.open_continued(path, newest).close()
            mlflow_state.go_back(run.output_dir, newest)
        files.write_text(run.output_dir / run_files.ROLLBACKS, text)
        say(
            f"step {error.step}: {error.seen}: back to step {newest}, with half the"
            f" learning rate from there ({len(after)} of {MOST} times)",
            "yellow",
        )
    group.all_gather(b"")  # no process reads the file before it is written
