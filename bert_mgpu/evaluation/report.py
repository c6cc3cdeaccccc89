"""report.html: the training, the evaluation and the data of a run, on one page."""

from __future__ import annotations

import importlib.util
import itertools
import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bert_mgpu.config.base import fields
from bert_mgpu.core import files, run_files
from bert_mgpu.core.errors import UserError
from bert_mgpu.core.log import say
from bert_mgpu.evaluation import (
    history,
    html,
    plots,
    result_files,
    set_report,
    verdict,
)
from bert_mgpu.evaluation.set_report import EvaluatedSet, Sections
from bert_mgpu.evaluation.verdict import ReportFacts
from bert_mgpu.training import recorder

_EVALUATIONS = 60  # how many are shown: the last ones
_SPEED = "examples/s"


def is_possible() -> bool:
    """Whether matplotlib, which draws the plots, is installed."""
    return importlib.util.find_spec("matplotlib") is not None


def write(facts: ReportFacts, evaluated: Sequence[EvaluatedSet]) -> None:
    """Writes report.html, its plots and, if sets were evaluated, errors.jsonl.

    Raises UserError where they cannot be written.
    """
    folder = files.make_folder(facts.output_dir / run_files.REPORT)
    try:
        content = _curves(facts, folder)
        for number, own in enumerate(evaluated):
            content += set_report.sections(
                own, folder, anchor=f"set{number}", baseline_name=facts.baseline_name
            )
        content += _data(facts, folder)
        content += _settings(facts)
        title = f"{facts.task}: {facts.output_dir}"
        top = verdict.html_of(facts, evaluated)
        text = html.page(title, top=top, sections=content)
    except OSError as error:
        raise UserError(
            f"{folder}: cannot write the report: {error.strerror}: pass --report=false,"
            " or another --output_dir"
        ) from None
    files.write_text(facts.output_dir / run_files.REPORT_PAGE, text)
    written = [run_files.REPORT_PAGE]
    if evaluated:
        lines = itertools.chain.from_iterable(map(set_report.error_lines, evaluated))
        files.write_text(facts.output_dir / run_files.ERRORS, lines)
        written.append(run_files.ERRORS)
    say(f"wrote {' and '.join(written)} in {facts.output_dir}")


def _curves(facts: ReportFacts, folder: pathlib.Path) -> Sections:
    """Losses and the metric over steps, with the baseline's."""
    records = recorder.read_records(facts.output_dir / run_files.METRICS)
    totals = [(row, recorder.total_loss(row)) for row in records]
    known = [(row, total) for row, total in totals if total is not None]
    if not known:
        return []
    records = [row for row, _ in known]
    evaluated = history.read(facts.output_dir)
    metric = facts.metric
    steps = [row["step"] for row in records]
    smooth = _smooth([total for _, total in known])
    training = plots.Line("training", steps, smooth, colour="0.6")
    losses, scores = [training], []
    baseline = result_files.read_baseline(facts.output_dir)
    for number, name in enumerate(dict.fromkeys(row["set"] for row in evaluated)):
        colour = f"C{number}"
        rows = [row for row in evaluated if row["set"] == name]
        at = [row["step"] for row in rows]
        values = [_or_nan(row, "eval_loss") for row in rows]
        losses.append(plots.Line(name, at, values, colour=colour))
        if metric == "eval_loss" or not any(metric in row for row in rows):
            continue
        values = [_or_nan(row, metric) for row in rows]
        scores.append(
            plots.Line(
                name,
                at,
                values,
                colour=colour,
                level=baseline.get(name, {}).get(metric),
                level_name=f"{facts.baseline_name}, {name}",
            )
        )
    panels = {metric: scores} if scores else {}
    speeds = [_or_nan(row, "examples_per_second") for row in records]
    panels |= {
        "loss": losses,
        _SPEED: [plots.Line("training", steps, speeds, colour="0.6")],
    }
    path = folder / "curves.png"
    plots.curves(path, panels, from_zero=(_SPEED,))
    summary = f"{records[-1]['step']} steps"
    if np.isfinite(speeds).any():
        summary += f", {np.nanmedian(speeds):.1f} examples a second (median)"
    content = [html.note(summary)]
    content.append(html.image(path, f"{' and '.join(panels)} over steps"))
    if evaluated:
        content.append(_evaluations(facts, evaluated, baseline))
    return [("Training", "\n".join(content))]


def _evaluations(
    facts: ReportFacts, evaluated: list[dict[str, Any]], baseline: Any
) -> str:
    """The evaluations while training, a line for each step and set."""
    names = [name for name in facts.shown if any(name in row for row in evaluated)]
    if facts.metric not in names:
        names.append(facts.metric)
    rows: list[list[object]] = [["set", "step", *names]]
    for name, scores in baseline.items():
        rows.append(
            [
                name,
                facts.baseline_name,
                *(set_report.number(scores.get(n)) for n in names),
            ]
        )
    for row in evaluated[-_EVALUATIONS:]:
        rows.append(
            [row["set"], row["step"], *(set_report.number(row.get(n)) for n in names)]
        )
    left_out = max(0, len(evaluated) - _EVALUATIONS)
    more = html.note(f"and {left_out} earlier ones, in {run_files.EVALUATIONS}")
    return html.table(rows, "w" + "n" * (len(names) + 1)) + more * (left_out > 0)


def _data(facts: ReportFacts, folder: pathlib.Path) -> Sections:
    """Lengths, padding, and warnings about the data."""
    config, sets = facts.config, facts.sets
    path = folder / "lengths.png"
    quantiles = {name: rows.notes["length_quantiles"] for name, rows in sets.items()}
    plots.lengths(path, quantiles, config.longest_text)
    percents = [*next(iter(sets.values())).notes["length_percentiles"]]
    rows: list[tuple[object, ...]] = [
        ("set", "rows", *(f"{percent} %" for percent in percents), "truncated")
    ]
    for name, features in sets.items():
        notes = features.notes
        truncated = f"{notes['truncated'] / notes['rows']:.1%}"
        percentiles = (notes["length_percentiles"][percent] for percent in percents)
        rows.append((name, f"{notes['rows']:,}", *percentiles, truncated))
    content = [
        html.note(
            f"tokens per row, by percentile, before truncation at"
            f" {config.length_in_words}"
        ),
        html.table(rows, "w" + "n" * (len(percents) + 2)),
        html.image(path, "the share of the rows with at most so many tokens"),
    ]
    if facts.padding:
        cells: list[tuple[object, ...]] = [("--padding", "fraction of the tokens")]
        cells += [(name, f"{fraction:.0%}") for name, fraction in facts.padding.items()]
        content.append(html.note(f"padding in training, which used {config.padding}"))
        content.append(html.table(cells, "wn"))
    content += [html.note(f"WARNING: {warning}") for warning in facts.warnings]
    return [("Data", "\n".join(content))]


def _settings(facts: ReportFacts) -> Sections:
    """The flags of the training and of this command, the versions and devices."""
    run = result_files.read_objects(facts.output_dir / run_files.RUN)
    trained = run.get("flags", {})
    defaults = {field.name: field.default for field in fields(type(facts.config))}
    values = {f"--{n}": v for n, v in trained.items() if v != defaults.get(n, v)}
    rows = [(name, _as_typed(value)) for name, value in values.items()]
    for name in sorted(facts.config.given):
        value = getattr(facts.config, name)
        if name == "init_checkpoint":  # run.json has the whole path
            value = value and os.path.abspath(value)
        if value != trained.get(name):
            rows.append((f"--{name}", f"{_as_typed(value)} (of this command)"))
    batch = run.get("training", {}).get("batch", facts.batch)
    rows += [("devices", ", ".join(facts.devices)), ("batch", batch)]
    rows += [(name, str(value)) for name, value in run.get("versions", {}).items()]
    note = html.note("flags that differ from their defaults; devices and versions")
    return [("Settings", f"{note}\n{html.facts(rows)}")]


def _or_nan(row: Mapping[str, Any], name: str) -> float:
    value = row.get(name)
    return np.nan if value is None else value


def _smooth(values: list[float], most: int = 60) -> np.ndarray:
    """Means over neighbours, if there are too many values to make out anything."""
    width = max(1, len(values) // most)
    padded = np.pad(np.array(values, float), (width // 2, (width - 1) // 2), "edge")
    return np.convolve(padded, np.ones(width) / width, "valid")


def _as_typed(value: object) -> str:
    """The value of a flag as a command line has it."""
    return str(value).lower() if isinstance(value, bool) else str(value)
