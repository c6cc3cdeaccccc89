"""report.html: the training, the evaluation and the data of a run, on one page."""

from __future__ import annotations

import importlib.util
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from bert_mgpu.config.base import RunConfig, fields
from bert_mgpu.core import files, run_files
from bert_mgpu.core.errors import UserError
from bert_mgpu.core.log import say
from bert_mgpu.core.report import Block, ReportSection, ReportTable, ScoreCurves
from bert_mgpu.core.rows import Features
from bert_mgpu.evaluation import evaluator, html, plots, result_files
from bert_mgpu.training import recorder

_EVALUATIONS = 60  # the last ones, which are shown
_LONGEST_SETTING = 120

Sections = list[tuple[str, str]]


class ReportFacts(NamedTuple):
    """The facts of a report, besides the sections of the task."""

    output_dir: pathlib.Path
    config: RunConfig
    title: str
    metric: str  # to draw over steps
    shown: Sequence[str]  # names of the scores in the table of evaluations
    baseline_name: str  # the name of the model whose scores are in baseline.json
    devices: Sequence[str]
    batch: str  # in words
    sets: Mapping[str, Features]
    padding: Mapping[str, float]  # policy -> fraction; empty where nothing trains
    warnings: Sequence[str]
    doubts: Sequence[str]  # whether the model has learnt anything


def is_possible() -> bool:
    """Whether the package that draws is installed."""
    return importlib.util.find_spec("matplotlib") is not None


def write(facts: ReportFacts, sections: Sequence[ReportSection]) -> None:
    """Writes report.html, and its plots as files.

    Raises UserError where they cannot be written.
    """
    folder = files.make_folder(facts.output_dir / run_files.REPORT)
    try:
        content = _curves(facts, folder)
        for section in sections:
            blocks = [_block(folder, block) for block in section.blocks]
            content.append((section.title, "\n".join(blocks)))
        content += _data(facts, folder)
        content += _settings(facts)
        version = _versions(facts).get("bert_mgpu", "")
        lines = [f"{facts.output_dir}, bert_mgpu {version}"]
        lines += [f"WARNING: {line}" for line in facts.doubts]
        text = html.page(facts.title, lines, content)
    except OSError as error:
        raise UserError(
            f"{folder}: cannot write the report: {error.strerror}: pass --report=false,"
            " or another --output_dir"
        ) from None
    files.write_text(facts.output_dir / run_files.REPORT_PAGE, text)
    say(f"wrote {facts.output_dir / run_files.REPORT_PAGE}")


def _block(folder: pathlib.Path, block: Block) -> str:
    if isinstance(block, str):
        return html.note(block)
    if isinstance(block, ReportTable):
        note = html.note(block.note) if block.note else ""
        return note + html.table(block.rows, block.columns)
    if isinstance(block, ScoreCurves):
        path = folder / f"{block.name}.png"
        plots.scores(path, block)
        return html.image(path, f"{' and '.join(block.scores)} over {block.setting}")
    path = folder / f"confusion_{block.name}.png"
    plots.confusion(path, block.counts, block.labels)
    legend = html.note(
        f"number: {block.counted}; colour: their fraction of the {block.counted} with"
        " the true label"
    )
    return f"{html.image(path, 'confusion matrix')}\n{legend}"


def _curves(facts: ReportFacts, folder: pathlib.Path) -> Sections:
    """Losses and the metric over steps, with the baseline's."""
    records = recorder.read_records(facts.output_dir / run_files.METRICS)
    records = [row for row in records if row.get("loss") is not None]
    if not records:
        return []
    history = evaluator.read_history(facts.output_dir)
    metric = facts.metric
    steps = [row["step"] for row in records]
    smooth = _smooth([row.get("loss", np.nan) for row in records])
    training = plots.Line("training", steps, smooth, colour="0.6")
    losses, scores = [training], []
    baseline = result_files.read_baseline(facts.output_dir)
    for number, name in enumerate(dict.fromkeys(row["set"] for row in history)):
        colour = f"C{number}"
        rows = [row for row in history if row["set"] == name]
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
        "examples/s": [plots.Line("training", steps, speeds, colour="0.6")],
    }
    path = folder / "curves.png"
    plots.curves(path, panels)
    summary = f"{records[-1]['step']} steps"
    if np.isfinite(speeds).any():
        summary += f", {np.nanmedian(speeds):.1f} examples a second (median)"
    content = [html.note(summary)]
    content.append(html.image(path, f"{' and '.join(panels)} over steps"))
    if history:
        content.append(_evaluations(facts, history, baseline))
    return [("Training", "\n".join(content))]


def _evaluations(
    facts: ReportFacts, history: list[dict[str, Any]], baseline: Any
) -> str:
    """The evaluations while training, a line for each step and set."""
    names = [name for name in facts.shown if any(name in row for row in history)]
    if facts.metric not in names:
        names.append(facts.metric)
    rows: list[list[object]] = [["set", "step", *names]]
    for name, scores in baseline.items():
        rows.append(
            [name, facts.baseline_name, *(_number(scores.get(n)) for n in names)]
        )
    for row in history[-_EVALUATIONS:]:
        rows.append([row["set"], row["step"], *(_number(row.get(n)) for n in names)])
    left_out = max(0, len(history) - _EVALUATIONS)
    more = html.note(f"and {left_out} earlier ones, in {run_files.EVALUATIONS}")
    return html.table(rows, "w" + "n" * (len(names) + 1)) + more * (left_out > 0)


def _data(facts: ReportFacts, folder: pathlib.Path) -> Sections:
    """Lengths, padding, and warnings about the data."""
    config, sets = facts.config, facts.sets
    path = folder / "lengths.png"
    lengths = {name: rows.lengths for name, rows in sets.items()}
    plots.lengths(path, lengths, config.row_length)
    percents = [*next(iter(sets.values())).notes["length_percentiles"]]
    rows: list[tuple[object, ...]] = [
        ("set", "rows", *(f"{percent} %" for percent in percents), "truncated")
    ]
    for name, features in sets.items():
        notes = features.notes
        truncated = f"{notes['truncated'] / notes['rows']:.1%}"
        percentiles = (notes["length_percentiles"][percent] for percent in percents)
        rows.append((name, notes["rows"], *percentiles, truncated))
    content = [
        html.note(
            f"tokens per row, by percentile, before truncation at"
            f" {config.length_in_words}"
        ),
        html.table(rows, "w" + "n" * (len(percents) + 2)),
        html.note("and after truncation:"),
        html.image(path, "lengths of rows"),
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
    trained = _read_run(facts).get("flags", {})
    given = {name: getattr(facts.config, name) for name in sorted(facts.config.given)}
    content = []
    defaults = {field.name: field.default for field in fields(type(facts.config))}
    changed = {n: v for n, v in trained.items() if n in defaults and v != defaults[n]}
    for title, values in (("the training", changed), ("this command", given)):
        rows: list[tuple[object, ...]] = [(f"flags of {title}", "value")]
        rows += [(f"--{n}", str(v)[:_LONGEST_SETTING]) for n, v in values.items()]
        content.append(html.table(rows))
    software: list[tuple[object, ...]] = [("software and devices", "")]
    software += [(name, value) for name, value in _versions(facts).items()]
    software += [("devices", ", ".join(facts.devices)), ("batch", facts.batch)]
    content.append(html.table(software))
    return [("Settings", "\n".join(content))]


def _read_run(facts: ReportFacts) -> dict[str, Any]:
    """The facts in run.json about the training of the model."""
    return result_files.read_objects(facts.output_dir / run_files.RUN)


def _versions(facts: ReportFacts) -> dict[str, Any]:
    """The versions of the software that trained the model."""
    return _read_run(facts).get("versions", {})


def _or_nan(row: Mapping[str, Any], name: str) -> float:
    value = row.get(name)
    return np.nan if value is None else value


def _number(value: object) -> str:
    if value is None:
        return ""
    return f"{value:.4f}" if isinstance(value, float) else str(value)


def _smooth(values: list[float], most: int = 60) -> np.ndarray:
    """Means over neighbours, where single values are too many to see anything."""
    width = max(1, len(values) // most)
    padded = np.pad(np.array(values, float), (width // 2, (width - 1) // 2), "edge")
    return np.convolve(padded, np.ones(width) / width, "valid")
