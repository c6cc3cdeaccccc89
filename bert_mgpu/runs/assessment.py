"""What evaluations show: intervals, baselines, signs that a model learnt nothing."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from bert_mgpu.config.base import RunConfig
from bert_mgpu.core import run_files
from bert_mgpu.core.log import fact, say
from bert_mgpu.core.task import Trust
from bert_mgpu.evaluation import history, learning, result_files
from bert_mgpu.evaluation.evaluator import Evaluator
from bert_mgpu.evaluation.history import MAIN
from bert_mgpu.runs import stages
from bert_mgpu.runs.run import FinetuningRun, Run
from bert_mgpu.training import loop, recorder, schedule

_GOOGLES = "adamw_google"
_ENOUGH_ROWS = 20


def longest_step(
    config: RunConfig, plan: loop.TrainingPlan, done: int = 0
) -> float | None:
    """`schedule.longest_step` of a plan; None for other optimizers."""
    if config.optimizer != _GOOGLES:
        return None
    return schedule.longest_step(
        _rate(plan),
        plan.steps,
        warmup=plan.warmup,
        power=plan.decay_power,
        done=done,
    )


def _rate(plan: loop.TrainingPlan) -> float:
    """The peak of the rate, less what rollbacks took."""
    return plan.peak_rate * 0.5 ** len(plan.halvings)


def trains_encoder(run: Run) -> bool:
    trained = run.task.param_specs().keys() - {*run.frozen}
    return any(name.startswith("bert/encoder/") for name in trained)


def rate_warnings(run: Run, plan: loop.TrainingPlan, done: int) -> list[str]:
    """What may go wrong with the rates of the steps that are left."""
    found = [rate_warning(run.config, plan, trains_encoder(run), done=done)]
    if plan.warmup >= plan.steps:
        lower = f"lower --{run.config.warmup_flag}"
        found.append(f"WARNING: the warm-up never ends: {lower}")
    return [*filter(None, found)]


def rate_warning(
    config: RunConfig, plan: loop.TrainingPlan, trains_encoder: bool, *, done: int = 0
) -> str | None:
    """A warning if adamw_google will make steps that are too long, else None.

    trains_encoder: a head alone learns at higher rates; done: steps that are behind it.
    """
    longest = longest_step(config, plan, done)
    if not trains_encoder or longest is None or longest <= learning.LONG_STEP:
        return None
    return (
        f"WARNING: the largest update of --optimizer={_GOOGLES} will equal AdamW's at a"
        f" learning rate of {longest:.1e}; above {learning.LONG_STEP:.0e} a training"
        " may get worse or learn nothing: pass --optimizer=adamw, a lower"
        f" --learning_rate or a longer warm-up (--{config.warmup_flag})"
    )


class Assessment(NamedTuple):
    """What was logged about the evaluated sets."""

    trust: Mapping[str, Trust]
    doubts: Sequence[str]  # about the main set
    baseline: Mapping[str, Mapping[str, float]]  # set -> the baseline's scores
    # What the report begins with if no set was evaluated.
    instead: str = "trained, not evaluated"


UNASSESSED = Assessment({}, [], {})


def assess(
    run: FinetuningRun, scored: Mapping[str, Any], plan: loop.TrainingPlan | None
) -> Assessment:
    """Logs and returns what the evaluation tells about each set.

    scored: the result of `stages.evaluate`; plan: of the training, None without one.
    """
    sets = {name: run.data.read(name)[0] for name in scored or run.data.evaluated}
    if plan is None or run.config.eval_steps:
        baseline = stages.earlier_baseline(run, sets)
    else:
        baseline = stages.baseline(run, sets)
    if run.topology.group.rank > 0:
        return UNASSESSED
    doubts = list[str]()
    trusts = {
        name: _trust(run, own, len(sets[name].first_rows))
        for name, own in scored.items()
    }
    shown = {name: trust.without_points() for name, trust in trusts.items()}
    for name, own in scored.items():
        ends = shown[name].intervals.items()
        texts = [f"{key} {a:.4f} to {b:.4f}" for key, (a, b) in ends]
        if texts:
            title = f"{name}, " if len(scored) > 1 else ""
            say(f"{title}95 % intervals: {', '.join(texts)}")
        if name != MAIN:
            continue
        trust, scores = trusts[name], run.task.scores(own)
        judged = _judged(run, scores, trust=trust, baseline=baseline.get(name, {}))
        training = _training(run, plan) if plan else None
        doubts = learning.findings(
            judged, training, one_answer=trust.one_answer, chance=run.task.chance_loss
        )
        beside = learning.comparison(judged[0])
        if beside and not doubts:
            say(f"{name} {judged[0].metric} {judged[0].value:.4f}: {beside}")
    _warn(doubts)
    return Assessment(shown, doubts, baseline)


def _trust(run: FinetuningRun, scored: Any, rows: int) -> Trust:
    """The trust in a set's scores, judged by --best_metric if that is known.

    Beside a score without an interval, the task's own are judged. Of few rows that are
    all right, the bootstrap says nothing; many count for what they are.
    """
    found = run.task.trust(scored)
    trust = found if rows >= _ENOUGH_ROWS else found.without_points()
    judged = trust.judged or [run.task.metric]
    chosen = run.config.best_metric
    if chosen and chosen in run.task.scores(scored):
        judged = [chosen, *([] if chosen in found.intervals else judged)]
    return trust._replace(judged=judged)


def _judged(
    run: FinetuningRun,
    scores: Mapping[str, float],
    *,
    trust: Trust,
    baseline: Mapping[str, float],
) -> list[learning.JudgedScore]:
    name = run.data.family.baseline_name
    return [
        learning.JudgedScore(
            metric,
            scores[metric],
            lower_is_better=metric in run.task.lower_is_better,
            interval=trust.intervals.get(metric),
            constant=trust.floors.get(metric, {}),
            baseline={name: baseline[metric]} if metric in baseline else {},
        )
        for metric in trust.judged
    ]


def assess_training(
    run: FinetuningRun, plan: loop.TrainingPlan, evaluator: Evaluator | None
) -> Assessment:
    """Logs what the training itself shows, if --do_eval does not follow it.

    That is its loss and, with --eval_steps, the evaluation of the weights that it
    leaves: the last evaluation or, with --use_best, the best one. An evaluation by an
    earlier command is a number alone, and has no interval.
    """
    rows = len(run.data.read(MAIN)[0].first_rows) if evaluator else 0  # by all
    if run.topology.group.rank > 0:
        return UNASSESSED
    training, chance = _training(run, plan), run.task.chance_loss
    metric = run.config.best_metric or run.task.metric
    evaluated = _evaluation(run, metric)
    if evaluated is None:
        doubts = learning.findings_from_loss(training, chance)
        _warn(doubts)
        return Assessment({}, doubts, {})
    step, value = evaluated
    trust, scores = Trust(judged=[metric]), {metric: value}
    own = evaluator.kept(step) if evaluator else None
    if own is not None:
        trust, scores = _trust(run, own, rows), run.task.scores(own)
    baseline = result_files.read_baseline(run.output_dir).get(MAIN, {})
    judged = _judged(run, scores, trust=trust, baseline=baseline)
    doubts = learning.findings(
        judged, training, one_answer=trust.one_answer, chance=chance
    )
    _warn(doubts)
    score = judged[0]
    said = f"{MAIN} {score.metric} {score.value:.4f} at step {step:,}, while training"
    beside = learning.comparison(score)
    said += f"; {beside}" * bool(beside)
    return Assessment({}, doubts, {}, instead=said)


def assess_pretraining(run: Run, plan: loop.TrainingPlan, next_sentence: bool) -> None:
    """Logs what the loss of a pretraining shows."""
    if run.topology.group.rank == 0:
        chance = math.log(run.model.bert_config.vocab_size)
        chance += math.log(2) * next_sentence
        training = _training(run, plan)._replace(pretrains=True)
        _warn(learning.findings_of_pretraining(training, chance))


def _warn(doubts: Sequence[str]) -> None:
    for line in doubts:
        fact("", f"WARNING: {line}")


def _evaluation(run: FinetuningRun, metric: str) -> history.Evaluation | None:
    """The evaluation of the weights that a training leaves."""
    if not run.config.eval_steps:
        return None
    if run.config.use_best:
        lower = metric in run.task.lower_is_better
        return history.best_of_main(run.output_dir, metric, lower_is_better=lower)
    known = history.of_main(run.output_dir, metric)
    return known[-1] if known else None


def _training(run: Run, plan: loop.TrainingPlan) -> learning.Training:
    records = recorder.read_records(run.output_dir / run_files.METRICS)
    start = result_files.first_weights(run.output_dir, run.config.init_checkpoint)
    return learning.Training(
        optimizer=run.config.optimizer,
        rate=_rate(plan),
        rate_factor=run.rate_factor,
        longest_step=longest_step(run.config, plan),
        steps=plan.steps,
        losses=[
            loss for row in records if (loss := recorder.total_loss(row)) is not None
        ],
        from_weights=start is not None,
        trains_encoder=trains_encoder(run),
        rollbacks=len(plan.halvings),
    )
