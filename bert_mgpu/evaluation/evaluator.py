"""Evaluations while a run trains: their history, the best weights, early stopping."""

from __future__ import annotations

import dataclasses
import json
import pathlib
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from bert_mgpu.checkpoints import train_state
from bert_mgpu.core import files, hashing, run_files
from bert_mgpu.core.errors import UserError, listed
from bert_mgpu.core.log import fact, say
from bert_mgpu.core.rows import Example, Rows
from bert_mgpu.core.task import Task, TrainState
from bert_mgpu.distributed import collective
from bert_mgpu.distributed.collective import Collective
from bert_mgpu.evaluation import history
from bert_mgpu.evaluation.forward import Abandoned, ForwardSettings, scored_rows
from bert_mgpu.evaluation.history import MAIN, Evaluation
from bert_mgpu.training import recorder
from bert_mgpu.training.events import Events
from bert_mgpu.training.towers import Towers

LAST, BEST = "last", "best"  # evaluations whose scored rows are kept


class EvaluationSettings(NamedTuple):
    """Settings of the evaluations while a run trains."""

    every: int  # steps
    metric: str  # of the set MAIN, by which the best weights are chosen
    measured: dict[str, Any]  # the facts that the metric's values depend on
    patience: int | None  # so many evaluations without a better one end the training
    forward: ForwardSettings
    keeps: str | None  # which scored rows of MAIN: LAST, BEST; None: none


class Evaluator:
    """Evaluates sets while a run trains, with the same results in all processes."""

    def __init__(
        self,
        task: Task,
        sets: Mapping[str, Rows],
        *,
        examples: Callable[[str], Sequence[Example]],
        settings: EvaluationSettings,
        group: Collective,
        output_dir: pathlib.Path,
    ):
        """examples: reads the examples of a set, given its name."""
        self._task, self._sets, self._examples = task, sets, examples
        self._settings, self._group = settings, group
        self._output_dir, self._folder = output_dir, output_dir / run_files.BEST
        self._history = output_dir / run_files.EVALUATIONS
        self._identity: dict[str, Any] | None = None
        self._run_facts: dict[str, Any] = {}
        self._best: Evaluation | None = None
        self._evaluated: list[int] = []  # steps
        self._searched_from = 0  # the step after which the best is looked for
        self._kept: tuple[int, Any] | None = None  # a step, and its scored rows

    def begin(
        self,
        step: int,
        identity: dict[str, Any],
        run_facts: dict[str, Any],
        *,
        events: Events,
    ) -> None:
        """Continues from the evaluations that the run had done by this step.

        run_facts: must be equal for values to be comparable; events: get every score of
        every set.
        """
        self._identity, self._run_facts = identity, run_facts
        self._events = events
        group = self._group
        earlier: dict[str, Any] = {}
        if group.rank == 0:
            best, rows = self._read_best(), history.read(self._output_dir)
            rows = [r for r in rows if r["set"] == MAIN and r["step"] <= step]
            earlier = {
                "best": best,
                "steps": [row["step"] for row in rows],
                "searched_from": 0 if best else self._first_step(rows, step),
            }
        earlier = collective.all_gather_json(group, earlier)[0]
        self._best = Evaluation(*earlier["best"]) if earlier["best"] else None
        self._evaluated = earlier["steps"]
        self._searched_from = earlier["searched_from"]
        if group.rank == 0:
            recorder.open_continued(self._history, step).close()

    @property
    def _fingerprint(self) -> str:
        """A hash of the facts that must be equal for values to be comparable."""
        facts = {"run": self._run_facts, "measured": self._settings.measured}
        return hashing.fingerprint(facts)

    def _read_best(self) -> Evaluation | None:
        """The evaluation of best/, if it is of this run, metric and set."""
        try:
            facts = files.read_json(self._folder / run_files.BEST_EVALUATION)
            best = Evaluation(int(facts["step"]), float(facts["value"]))
            comparable = facts["of"] == self._fingerprint
        except (UserError, ValueError, KeyError, TypeError, OverflowError):  # 1e999
            return None
        if not comparable:
            fact(
                "evaluation",
                f"{self._folder} belongs to another training, dev set or metric: the"
                " search for the best evaluation starts afresh",
            )
        whole = train_state.saved_steps(self._folder) == [best.step]
        return best if comparable and whole else None

    def _first_step(self, rows: Sequence[Mapping[str, Any]], step: int) -> int:
        """The step after which evaluations count against the patience.

        rows: of MAIN, until `step`. Those of another search do not count; without
        best/, which may have been moved, those after the best one do.
        """
        metric = self._settings.metric
        defined = [row for row in rows if row.get(metric) is not None]
        values = {row["step"]: float(row[metric]) for row in defined}
        values = {key: value for key, value in values.items() if value == value}
        if not values:  # nor has it been NaN alone
            return 0
        if (self._folder / run_files.BEST_EVALUATION).exists():
            return step
        lower = metric in self._task.lower_is_better
        return (min if lower else max)(values, key=values.__getitem__)

    @property
    def stop_reason(self) -> str | None:
        """The reason for early stopping; None while the training goes on."""
        patience, best = self._settings.patience, self._best
        first = best.step if best else self._searched_from
        since = sum(step > first for step in self._evaluated)
        if not patience or since < patience:
            return None
        found = f"no {'better ' * bool(first)}{self._settings.metric}"
        if best:
            metric = self._settings.metric
            found = f"no better {metric} than {best.value:.4f} (step {best.step})"
        return f"stopped early: {found} in {since} evaluation{'s' * (since > 1)}"

    def missed(self, step: int, steps: int) -> bool:
        """Whether a run was stopped after this step and before its evaluation."""
        due = step == steps or step % self._settings.every == 0
        return step > 0 and due and step not in self._evaluated

    def evaluate_after(
        self, step: int, towers: Towers, stopping: Callable[[], bool] = lambda: False
    ) -> bool:
        """Evaluates all sets after this step. Returns whether the training ends early.

        stopping: asked before each batch; True abandons the evaluation.
        """
        try:
            return self._after(step, towers, stopping)
        except Abandoned:
            return False

    def _after(self, step: int, towers: Towers, stopping: Callable[[], bool]) -> bool:
        lines, better = [], False
        for name, rows in self._sets.items():
            began = time.perf_counter()
            scored, scores = self._scores(name, rows, towers, stopping=stopping)
            line = f"step {step}  {name}: {self._shown(scores)}"
            seconds = time.perf_counter() - began
            if name == MAIN:
                metric = self._settings.metric
                better = self._is_better(scores.get(metric))
                if better:
                    self._best = Evaluation(step, scores[metric])
                    line += "  best so far"
                elif metric not in scores:
                    line += f"  no {metric}, which is not defined for these predictions"
                if self._settings.keeps == LAST or (
                    better and self._settings.keeps == BEST
                ):
                    self._kept = step, scored
            say(line, "green" if name == MAIN and better else None)
            lines.append({"step": step, "set": name, **scores, "seconds": seconds})
        self._evaluated.append(step)
        if self._group.rank == 0:
            if better:  # first: what the history has is not evaluated again
                self._keep(towers)
            with self._history.open("a", encoding="utf-8") as file:
                file.writelines(json.dumps(line) + "\n" for line in lines)
            for row in lines:
                self._events.add(row["set"], row)
            self._events.flush()
        if reason := self.stop_reason:
            say(f"step {step}: {reason}")
        return self.stop_reason is not None

    def _scores(
        self, name: str, rows: Rows, towers: Towers, *, stopping: Callable[[], bool]
    ) -> tuple[Any, dict[str, Any]]:
        """The scored rows of a set, in the first process, and the scores, in all.

        All processes must make the same decisions.
        """
        scored = scored_rows(
            self._task,
            rows,
            towers,
            settings=dataclasses.replace(self._settings.forward, name=name),
            examples=lambda: self._examples(name),
            note=_silence,
            stopping=stopping,
        )
        scores = self._task.scores(scored) if self._group.rank == 0 else None
        gathered = collective.all_gather_json(self._group, {"scores": scores})
        return scored, gathered[0]["scores"]

    def kept(self, step: int) -> Any | None:
        """The scored rows of MAIN after this step; None if they were not kept."""
        return self._kept[1] if self._kept and self._kept[0] == step else None

    def _shown(self, scores: Mapping[str, Any]) -> str:
        names = dict.fromkeys((self._settings.metric, "eval_loss"))
        return "  ".join(
            f"{name} {scores[name]:.4f}" for name in names if name in scores
        )

    def _is_better(self, value: float | None) -> bool:
        if value is None or value != value:
            return False
        if self._best is None:
            return True
        metric = self._settings.metric
        sign = -1 if metric in self._task.lower_is_better else 1
        return sign * value > sign * self._best.value

    def _keep(self, towers: Towers) -> None:
        """Writes best/: the weights (their averages, where a run keeps these), then
        best.json.
        """
        assert self._best is not None
        step = self._best.step
        try:
            self._folder.mkdir(exist_ok=True)
            state = TrainState(*towers.snapshot(), step, self._identity)
            state = TrainState(state.averaged, {}, step, identity=self._identity)
            train_state.save(self._folder, state, 1)
            for name in run_files.MODEL:
                if (self._output_dir / name).exists():
                    content = (self._output_dir / name).read_bytes()
                    files.write_bytes(self._folder / name, content)
        except OSError as error:
            raise files.unwritable(str(self._folder), "folder", error) from None
        facts = {**self._best._asdict(), "metric": self._settings.metric, "set": MAIN}
        facts |= {"of": self._fingerprint}
        path = self._folder / run_files.BEST_EVALUATION
        files.write_text(path, json.dumps(facts) + "\n")


def _silence(text: str) -> None: ...


def best_folder(output_dir: pathlib.Path) -> pathlib.Path:
    """The folder best/ of a run. Raises UserError where it holds no weights."""
    folder = output_dir / run_files.BEST
    if not train_state.saved_steps(folder):
        raise UserError(
            f"--use_best: {folder} holds no weights: train with --eval_steps, and a"
            " --best_metric that its evaluations have, or leave --use_best out"
        )
    return folder


def choose_metric(given: str | None, default: str, names: list[str]) -> str:
    """--best_metric, or the task's default. Raises UserError unless it is one of names.

    names: those of the scores that an evaluation gives.
    """
    if given is None:
        return default
    if given not in names:
        raise UserError(
            f"--best_metric={given}: evaluations of this task give {listed(names, 20)}"
        )
    return given
