"""The top of report.html: how good the model is, and where it comes from."""

from __future__ import annotations

import datetime
import pathlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from bert_mgpu.config.base import RunConfig
from bert_mgpu.core import run_files, units
from bert_mgpu.core.rows import Features
from bert_mgpu.evaluation import history, html, learning, result_files
from bert_mgpu.evaluation.set_report import EvaluatedSet
from bert_mgpu.training import recorder


class ReportFacts(NamedTuple):
    """The facts of a report, besides the evaluated sets."""

    output_dir: pathlib.Path
    config: RunConfig
    task: str  # its name
    metric: str  # to draw over steps
    lower_is_better: Collection[str]  # scores that are better when they are lower
    shown: Sequence[str]  # names of the scores in the table of evaluations
    baseline_name: str  # the name of the model whose scores are in baseline.json
    model: str  # in words
    devices: Sequence[str]
    batch: str  # in words
    sets: Mapping[str, Features]
    padding: Mapping[str, float]  # policy -> fraction; empty where nothing trains
    warnings: Sequence[str]
    doubts: Sequence[str]  # on whether the model has learnt anything
    unevaluated: str = "trained, not evaluated"  # shown if no set was evaluated


def html_of(facts: ReportFacts, evaluated: Sequence[EvaluatedSet]) -> str:
    """The scores of each set, doubts about them, and the facts of the training."""
    lines = [sentence(own, facts) for own in evaluated] or [facts.unevaluated]
    first, *rest = lines
    rest += [f"WARNING: {doubt}" for doubt in facts.doubts]
    top = html.verdict(first, rest, good=not facts.doubts)
    return top + html.facts([*_facts(facts, evaluated)])


def sentence(own: EvaluatedSet, facts: ReportFacts) -> str:
    """The main score of a set, and the scores of answers that need no model."""
    metric = own.trust.judged[0]
    interval, floor = own.trust.intervals.get(metric), own.baseline.get(metric)
    score = learning.JudgedScore(
        metric,
        own.scores[metric],
        lower_is_better=metric in facts.lower_is_better,
        interval=interval,
        constant=own.trust.floors.get(metric, {}),
        baseline={} if floor is None else {facts.baseline_name: floor},
    )
    text = f"{own.name} {metric} {score.value:.4f}"
    if interval:
        text += f" (95 %: {interval[0]:.4f} to {interval[1]:.4f})"
    beside = learning.comparison(score)
    return text + f"; {beside}" * bool(beside)


def _from_here(path: str | None) -> str | None:
    """A path in the current folder without that folder, unless it is the root."""
    here = pathlib.Path.cwd()
    if path and here != here.parent and here in pathlib.Path(path).parents:
        return str(pathlib.Path(path).relative_to(here))
    return path


def _facts(
    facts: ReportFacts, evaluated: Sequence[EvaluatedSet]
) -> Iterator[tuple[str, object]]:
    run = result_files.read_objects(facts.output_dir / run_files.RUN)
    training = run.get("training", {})
    if training:
        yield "trained", trained(training)
        devices = ", ".join(training.get("devices", []))
        yield "trained on", f"{training.get('host')}: {devices}"
    records = recorder.read_records(facts.output_dir / run_files.METRICS)
    if records:
        epochs = round(records[-1].get("epoch") or 0, 1)
        batch = training.get("batch", facts.batch)
        text = f"{records[-1]['step']:,} ({batch})"
        count = f"; {epochs:g} epoch{'s' * (epochs != 1)}"
        yield "steps", text + count * bool(epochs)
    given = facts.config.init_checkpoint
    start = result_files.first_weights(facts.output_dir, given)
    yield "model", f"{facts.model}, from {_from_here(start) or 'random weights'}"
    counts = {name: len(rows.first_rows) for name, rows in facts.sets.items()}
    counts |= {own.name: own.total for own in evaluated}
    yield "examples", ", ".join(f"{name} {count:,}" for name, count in counts.items())
    known = history.of_main(facts.output_dir, facts.metric)
    best = history.best_of_main(
        facts.output_dir,
        facts.metric,
        lower_is_better=facts.metric in facts.lower_is_better,
    )
    if best:
        yield (
            "best during training",
            f"{facts.metric} {best.value:.4f} at step {best.step:,},"
            f" of {len(known)} evaluations",
        )


def trained(training: dict[str, Any]) -> str:
    """When, and how long: 2026-11-26 18:03 to 18:05, 112 seconds of training."""
    began = _minute(training.get("began"))
    ended = _minute(training.get("ended"))
    if not ended:
        return f"from {began}, not finished"
    if ended[:10] == began[:10]:
        ended = ended[11:]
    return f"{began} to {ended}, {units.duration_text(training['seconds'])} of training"


def _minute(time: object) -> str:
    """A time of run.json without its seconds."""
    try:
        return datetime.datetime.fromisoformat(str(time)).strftime("%Y-%m-%d %H:%M")
    except ValueError:
        return ""
