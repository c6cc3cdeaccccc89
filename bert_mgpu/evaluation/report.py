"""report.html: how a training went, what the model gets right, and what it does not."""

from __future__ import annotations

import importlib.util
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from bert_mgpu.checkpoints.pretrained import RUN_FILE
from bert_mgpu.config.base import RunConfig, fields
from bert_mgpu.core import files
from bert_mgpu.core.errors import UserError
from bert_mgpu.core.log import say
from bert_mgpu.core.report import ConfusionMatrix, ReportSection, ReportTable
from bert_mgpu.core.rows import Features
from bert_mgpu.evaluation import evaluator, html, plots, result_files
from bert_mgpu.training import recorder

FILE, FOLDER = "report.html", "report"
_EVALUATIONS = 60  # that are shown
_LONGEST_SETTING = 120

Sections = list[tuple[str, str]]


class ReportFacts(NamedTuple):
    """What a report tells beside the sections of the task."""

    output_dir: pathlib.Path
    config: RunConfig
    title: str
    metric: str  # that is drawn over steps
    shown: Sequence[str]  # scores of evaluations
    floor: str  # the name of the model whose scores stand in baseline.json
    devices: Sequence[str]
    batch: str  # in words
    sets: Mapping[str, Features]
    padding: Mapping[str, float]  # share of each policy; empty where nothing trains
    warnings: Sequence[str]


def is_possible() -> bool:
    """Is there what draws?"""
    return importlib.util.find_spec("matplotlib") is not None


def write(facts: ReportFacts, sections: Sequence[ReportSection]) -> None:
    """Writes report.html, and its pictures as files.

    Raises UserError where the disk refuses.
    """
    folder = files.make_folder(facts.output_dir / FOLDER)
    try:
        shown = _curves(facts, folder)
        for section in sections:
            blocks = [_block(folder, block) for block in section.blocks]
            shown.append((section.title, "\n".join(blocks)))
        shown += _data(facts, folder)
        shown += _settings(facts)
        version = _versions(facts).get("bert_mgpu", "")
        lines = [f"{facts.output_dir}, bert_mgpu {version}"]
        text = html.page(facts.title, lines, shown)
    except OSError as error:
        raise UserError(
            f"{folder}: cannot write the report: {error.strerror}: pass --report=false,"
            " or another --output_dir"
        ) from None
    files.write_text(facts.output_dir / FILE, text)
    say(f"wrote {facts.output_dir / FILE}")


def _block(folder: pathlib.Path, block: str | ReportTable | ConfusionMatrix) -> str:
    if isinstance(block, str):
        return html.note(block)
    if isinstance(block, ReportTable):
        note = html.note(block.note) if block.note else ""
        return note + html.table(block.rows, block.columns)
    path = folder / f"confusion_{block.name}.png"
    plots.confusion(path, block.counts, block.labels)
    words = html.note("colour: share of the true label; number: rows")
    return f"{html.image(path, 'confusion matrix')}\n{words}"


def _curves(facts: ReportFacts, folder: pathlib.Path) -> Sections:
    """Losses and the best metric over steps, with what the floor reaches."""
    records = recorder.read_records(facts.output_dir / recorder.FILE)
    records = [row for row in records if row.get("loss") is not None]
    if not records:
        return []
    history = evaluator.read_history(facts.output_dir)
    metric = facts.metric
    steps = [row["step"] for row in records]
    smooth = _smooth([row.get("loss", np.nan) for row in records])
    training = plots.Line("training", steps, smooth, colour="0.6")
    losses, scores = [training], []
    known = _baseline(facts.output_dir)
    for number, name in enumerate(dict.fromkeys(row["set"] for row in history)):
        colour = f"C{number}"
        rows = [row for row in history if row["set"] == name]
        at = [row["step"] for row in rows]
        values = [_or_nan(row, "eval_loss") for row in rows]
        losses.append(plots.Line(name, at, values, colour=colour))
        if metric == "eval_loss" or not any(metric in row for row in rows):
            continue
        level = known.get(name, {}).get(metric)
        values = [_or_nan(row, metric) for row in rows]
        what = f"{facts.floor}, {name}"
        scores.append(
            plots.Line(name, at, values, colour=colour, level=level, level_name=what)
        )
    panels = {metric: scores} if scores else {}
    speeds = [_or_nan(row, "examples_per_second") for row in records]
    panels |= {
        "loss": losses,
        "rows/s": [plots.Line("training", steps, speeds, colour="0.6")],
    }
    path = folder / "curves.png"
    plots.curves(path, panels)
    shown = [html.image(path, f"{' and '.join(panels)} over steps")]
    if history:
        shown.append(_evaluations(facts, history, known))
    rate = np.nanmedian(speeds) if np.isfinite(speeds).any() else None
    words = f"{records[-1]['step']} steps"
    if rate is not None:
        words += f", {rate:.1f} rows a second (median)"
    shown.insert(0, html.note(words))
    return [("Training", "\n".join(shown))]


def _evaluations(facts: ReportFacts, history: list[dict[str, Any]], known: Any) -> str:
    """The evaluations on the way, a line a step and set."""
    names = [name for name in facts.shown if any(name in row for row in history)]
    if facts.metric not in names:
        names.append(facts.metric)
    rows: list[list[object]] = [["set", "step", *names]]
    for name, scores in known.items():
        rows.append([name, facts.floor, *(_number(scores.get(n)) for n in names)])
    for row in history[-_EVALUATIONS:]:
        rows.append([row["set"], row["step"], *(_number(row.get(n)) for n in names)])
    left_out = max(0, len(history) - _EVALUATIONS)
    more = html.note(f"and {left_out} earlier ones: {evaluator.HISTORY}")
    return html.table(rows, "w" + "n" * (len(names) + 1)) + more * (left_out > 0)


def _data(facts: ReportFacts, folder: pathlib.Path) -> Sections:
    """Lengths, padding and what is likely wrong."""
    config, sets = facts.config, facts.sets
    path = folder / "lengths.png"
    lengths = {name: rows.lengths for name, rows in sets.items()}
    plots.lengths(path, lengths, config.max_seq_length)
    shares = [*next(iter(sets.values())).notes["length_percentiles"]]
    rows: list[tuple[object, ...]] = [
        ("set", "rows", *(f"{share} %" for share in shares), "truncated")
    ]
    for name, features in sets.items():
        notes = features.notes
        truncated = f"{notes['truncated'] / notes['rows']:.1%}"
        percentiles = (notes["length_percentiles"][share] for share in shares)
        rows.append((name, notes["rows"], *percentiles, truncated))
    shown = [
        html.note(f"tokens of a row before truncation at {config.max_seq_length}"),
        html.table(rows, "w" + "n" * (len(shares) + 2)),
        html.note("and after it:"),
        html.image(path, "lengths of rows"),
    ]
    if facts.padding:
        cells: list[tuple[object, ...]] = [("--padding", "share of the tokens")]
        cells += [(name, f"{share:.0%}") for name, share in facts.padding.items()]
        shown.append(html.note(f"padding in training, which used {config.padding}"))
        shown.append(html.table(cells, "wn"))
    shown += [html.note(f"WARNING: {warning}") for warning in facts.warnings]
    return [("Data", "\n".join(shown))]


def _settings(facts: ReportFacts) -> Sections:
    """Of the training, and of this command."""
    trained = _of_run(facts).get("flags", {})
    given = {name: getattr(facts.config, name) for name in sorted(facts.config.given)}
    shown = []
    usual = {field.name: field.default for field in fields(type(facts.config))}
    changed = {n: v for n, v in trained.items() if n in usual and v != usual[n]}
    for title, values in (("the training", changed), ("this command", given)):
        rows: list[tuple[object, ...]] = [(f"flags of {title}", "value")]
        rows += [(f"--{n}", str(v)[:_LONGEST_SETTING]) for n, v in values.items()]
        shown.append(html.table(rows))
    made: list[tuple[object, ...]] = [("version of", "")]
    made += [(name, value) for name, value in _versions(facts).items()]
    made += [("devices", ", ".join(facts.devices)), ("batch", facts.batch)]
    shown.append(html.table(made))
    return [("Settings", "\n".join(shown))]


def _of_run(facts: ReportFacts) -> dict[str, Any]:
    """run.json: what trained the model."""
    return _tables(facts.output_dir / RUN_FILE)


def _tables(path: pathlib.Path) -> dict[str, dict[str, Any]]:
    """The objects in a JSON object; none where the file is no such thing."""
    try:
        said = files.read_json(path)
    except UserError:
        return {}
    return {name: one for name, one in said.items() if isinstance(one, dict)}


def _versions(facts: ReportFacts) -> dict[str, Any]:
    """Those that trained the model."""
    return _of_run(facts).get("versions", {})


def _baseline(output_dir: pathlib.Path) -> dict[str, dict[str, float]]:
    return {
        name: {n: v for n, v in scores.items() if isinstance(v, int | float)}
        for name, scores in _tables(output_dir / result_files.BASELINE).items()
    }


def _or_nan(row: Mapping[str, Any], name: str) -> float:
    value = row.get(name)
    return np.nan if value is None else value


def _number(value: object) -> str:
    if value is None:
        return ""
    return f"{value:.4f}" if isinstance(value, float) else str(value)


def _smooth(values: list[float], most: int = 60) -> np.ndarray:
    """Means over neighbours, where there are too many to see anything."""
    width = max(1, len(values) // most)
    padded = np.pad(np.array(values, float), (width // 2, (width - 1) // 2), "edge")
    return np.convolve(padded, np.ones(width) / width, "valid")
