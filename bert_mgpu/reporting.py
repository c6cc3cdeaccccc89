"""report.html: how a training went, what the model gets right, and what it does not."""

from __future__ import annotations

import importlib.util
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bert_mgpu import evaluating, files, page, pictures, results, training
from bert_mgpu.errors import UserError
from bert_mgpu.inputs import Inputs
from bert_mgpu.job import Job
from bert_mgpu.run_config import fields
from bert_mgpu.sources import RUN_FILE
from bert_mgpu.task import Features
from bert_mgpu.tasks import baseline
from bert_mgpu.tasks.classification import Classification
from bert_mgpu.tasks.kind import Outputs
from bert_mgpu.train import recorder
from bert_mgpu.train.recorder import say

FILE, FOLDER = "report.html", "report"
_WORST = 20  # rows that are shown of a set
_EVALUATIONS = 60  # that are shown
_LONGEST_TEXT = 400  # characters of a text that are shown
_LONGEST_SETTING = 120
_PADDED_STEPS = 50  # that the shares of padding are told from

Sections = list[tuple[str, str]]


def write(
    job: Job,
    task: Classification,
    data: Inputs,
    evaluated: Mapping[str, Outputs],
) -> None:
    """Writes report.html, and its pictures as files, in the first process.

    evaluated: what the model says of each set that was evaluated.
    """
    if importlib.util.find_spec("matplotlib") is None:
        say("no report: the package matplotlib is not installed")
        return
    # All processes read, or none.
    sets = {name: data.read(name)[0] for name in data.needed}
    warnings = data.warnings
    if job.world.group.rank > 0:
        return
    folder = files.make_folder(job.output_dir / FOLDER)
    try:
        sections = _curves(job, task, folder)
        for name, found in evaluated.items():
            sections += _of_set(folder, task, data, name, found)
        sections += _data(job, sets, warnings, folder)
        sections += _settings(job)
        title = f"{task.name}: {_headline(task, evaluated)}"
        lines = [f"{job.output_dir}, bert_mgpu {_versions(job).get('bert_mgpu', '')}"]
        text = page.page(title, lines, sections)
    except OSError as error:
        raise UserError(
            f"{folder}: cannot write the report: {error.strerror}: pass --report=false,"
            " or another --output_dir"
        ) from None
    files.write_text(job.output_dir / FILE, text)
    say(f"wrote {job.output_dir / FILE}")


def _headline(task: Classification, evaluated: Mapping[str, Outputs]) -> str:
    found = [
        f"{name} {task.kind.metric} {task.kind.score(one)[task.kind.metric]:.4f}"
        for name, one in evaluated.items()
    ]
    return ", ".join(found) or "trained"


def _curves(job: Job, task: Classification, folder: pathlib.Path) -> Sections:
    """Losses and the best metric over steps, with what naive Bayes reaches."""
    records = recorder.read_records(job.output_dir / recorder.FILE)
    records = [row for row in records if row.get("loss") is not None]
    if not records:
        return []
    history = evaluating.read_history(job.output_dir)
    metric = getattr(job.run, "best_metric", None) or task.kind.metric
    steps = [row["step"] for row in records]
    smooth = _smooth([row.get("loss", np.nan) for row in records])
    training = pictures.Line("training", steps, smooth, "0.6")
    losses, scores = [training], []
    known = _baseline(job.output_dir)
    for number, name in enumerate(dict.fromkeys(row["set"] for row in history)):
        colour = f"C{number}"
        rows = [row for row in history if row["set"] == name]
        at = [row["step"] for row in rows]
        values = [_or_nan(row, "eval_loss") for row in rows]
        losses.append(pictures.Line(name, at, values, colour))
        if metric == "eval_loss" or not any(metric in row for row in rows):
            continue
        level = known.get(name, {}).get(metric)
        values = [_or_nan(row, metric) for row in rows]
        what = f"{baseline.NAME}, {name}"
        scores.append(pictures.Line(name, at, values, colour, level, what))
    panels = {metric: scores} if scores else {}
    speeds = [_or_nan(row, "examples_per_second") for row in records]
    panels |= {
        "loss": losses,
        "rows/s": [pictures.Line("training", steps, speeds, "0.6")],
    }
    path = folder / "curves.png"
    pictures.curves(path, panels)
    shown = [page.image(path, f"{' and '.join(panels)} over steps")]
    if history:
        shown.append(_evaluations(history, known, metric))
    rate = np.nanmedian(speeds) if np.isfinite(speeds).any() else None
    words = f"{records[-1]['step']} steps"
    if rate is not None:
        words += f", {rate:.1f} rows a second (median)"
    shown.insert(0, page.note(words))
    return [("Training", "\n".join(shown))]


def _evaluations(history: list[dict[str, Any]], known: Any, metric: str) -> str:
    """The evaluations on the way, a line a step and set."""
    names = [name for name in results.SHOWN if any(name in row for row in history)]
    if metric not in names:
        names.append(metric)
    rows: list[list[object]] = [["set", "step", *names]]
    for name, scores in known.items():
        rows.append([name, baseline.NAME, *(_number(scores.get(n)) for n in names)])
    for row in history[-_EVALUATIONS:]:
        rows.append([row["set"], row["step"], *(_number(row.get(n)) for n in names)])
    left_out = max(0, len(history) - _EVALUATIONS)
    more = page.note(f"and {left_out} earlier ones: {evaluating.HISTORY}")
    return page.table(rows, "w" + "n" * (len(names) + 1)) + more * (left_out > 0)


def _of_set(
    folder: pathlib.Path, task: Classification, data: Inputs, name: str, found: Outputs
) -> Sections:
    scores = [("score", "value")]
    scores += [(key, _number(value)) for key, value in task.kind.score(found).items()]
    shown = [page.note(f"{len(found.logits)} rows of {data.path(name)}")]
    shown.append(page.table(scores, "wn"))
    cells = task.kind.cells(found)
    if cells:
        shown.append(page.table(cells, "wnnnn"))
    matrix = task.kind.confusion(found)
    if matrix is not None:
        path = folder / f"confusion_{name}.png"
        pictures.confusion(path, matrix, found.labels)
        shown.append(page.image(path, "confusion matrix"))
        shown.append(page.note("colour: share of the true label; number: rows"))
    errors = _errors(task, data, name, found)
    return [(name, "\n".join(shown)), (f"{name}: worst errors", errors)]


def _errors(task: Classification, data: Inputs, name: str, found: Outputs) -> str:
    """The rows with the highest losses that are wrong, and their texts."""
    wrong = np.flatnonzero(task.kind.wrong(found))
    if not len(wrong):
        return page.note("none: every row is right")
    losses = task.kind.row_losses(found)
    worst = wrong[np.argsort(-losses[wrong], kind="stable")][:_WORST]
    examples = data.examples(name)
    rows: list[tuple[object, ...]] = [
        ("line", "text", "true", "predicted", "probabilities")
    ]
    for row in worst:
        example, words = examples[row], task.kind.words(found, int(row))
        text = example.text_a + (f"  |  {example.text_b}" if example.text_b else "")
        if len(text) > _LONGEST_TEXT:
            text = f"{text[:_LONGEST_TEXT]} ..."
        rows.append((example.line, text, *words))
    where = f"the {len(worst)} of {len(wrong)} with the highest loss; lines of"
    return page.note(f"{where} {data.path(name)}") + page.table(rows, "nt")


def _data(
    job: Job,
    sets: Mapping[str, Features],
    warnings: Sequence[str],
    folder: pathlib.Path,
) -> Sections:
    """Lengths, padding and what is likely wrong."""
    run = job.run
    path = folder / "lengths.png"
    lengths = {name: rows.lengths for name, rows in sets.items()}
    pictures.lengths(path, lengths, run.max_seq_length)
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
        page.note(f"tokens of a row before truncation at {run.max_seq_length}"),
        page.table(rows, "w" + "n" * (len(shares) + 2)),
        page.note("and after it:"),
        page.image(path, "lengths of rows"),
    ]
    if "train" in sets:
        tried = training.orders_of(job, sets["train"])
        padding = training.padding_shares(
            *(tried, sets["train"].lengths, _PADDED_STEPS, job.batch)
        )
        cells: list[tuple[object, ...]] = [("--padding", "share of the tokens")]
        cells += [(name, f"{share:.0%}") for name, share in padding.items()]
        shown.append(page.note(f"padding in training, which used {run.padding}"))
        shown.append(page.table(cells, "wn"))
    shown += [page.note(f"WARNING: {warning}") for warning in warnings]
    return [("Data", "\n".join(shown))]


def _settings(job: Job) -> Sections:
    """Of the training, and of this command."""
    trained = _of_run(job).get("flags", {})
    given = {name: getattr(job.run, name) for name in sorted(job.run.given)}
    shown = []
    usual = {field.name: field.default for field in fields(type(job.run))}
    changed = {n: v for n, v in trained.items() if n in usual and v != usual[n]}
    for title, values in (("the training", changed), ("this command", given)):
        rows: list[tuple[object, ...]] = [(f"flags of {title}", "value")]
        rows += [(f"--{n}", str(v)[:_LONGEST_SETTING]) for n, v in values.items()]
        shown.append(page.table(rows))
    facts: list[tuple[object, ...]] = [("version of", "")]
    facts += [(name, value) for name, value in _versions(job).items()]
    facts += [("devices", ", ".join(job.devices)), ("batch", job.batch_in_words)]
    shown.append(page.table(facts))
    return [("Settings", "\n".join(shown))]


def _of_run(job: Job) -> dict[str, Any]:
    """run.json: what trained the model."""
    return _tables(job.output_dir / RUN_FILE)


def _tables(path: pathlib.Path) -> dict[str, dict[str, Any]]:
    """The objects in a JSON object; none where the file is no such thing."""
    try:
        said = files.read_json(path)
    except UserError:
        return {}
    return {name: one for name, one in said.items() if isinstance(one, dict)}


def _versions(job: Job) -> dict[str, Any]:
    """Those that trained the model."""
    return _of_run(job).get("versions", {})


def _baseline(output_dir: pathlib.Path) -> dict[str, dict[str, float]]:
    return {
        name: {n: v for n, v in scores.items() if isinstance(v, int | float)}
        for name, scores in _tables(output_dir / results.BASELINE).items()
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
