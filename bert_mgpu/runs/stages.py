"""The stages of a run that fine-tuning and pretraining have in common."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import pathlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from bert_mgpu.checkpoints import huggingface_write, pretrained, run_folder
from bert_mgpu.checkpoints.pretrained import Pretrained
from bert_mgpu.config.base import RunConfig
from bert_mgpu.core import files, run_files
from bert_mgpu.core.errors import UserError, listed
from bert_mgpu.core.log import fact, say
from bert_mgpu.core.rows import Features
from bert_mgpu.distributed import collective
from bert_mgpu.evaluation import history, result_files
from bert_mgpu.evaluation.evaluator import (
    BEST,
    LAST,
    EvaluationSettings,
    Evaluator,
    choose_metric,
)
from bert_mgpu.evaluation.forward import scored_rows
from bert_mgpu.runs import init_distributed
from bert_mgpu.runs.run import FinetuningRun, Run
from bert_mgpu.training.events import Events
from bert_mgpu.training.towers import Towers


def find_model(
    config: RunConfig, output_dir: pathlib.Path, data: Mapping[str, Any] | None = None
) -> Pretrained:
    """The model without its weights, described in the log.

    data: see `pretrained.find_model`.
    """
    model = pretrained.find_model(
        config,
        output_dir,
        data,
        max_seq_length=config.max_seq_length,
        trains=config.do_train,
    )
    for note in pretrained.notes(model, config.hidden_act):
        fact("model", note)
    return model


def cache_folder(cache_dir: str | None, output_dir: pathlib.Path) -> pathlib.Path:
    """The cache folder, for tokenized rows and indices of record files."""
    return pathlib.Path(cache_dir or output_dir / run_files.CACHE)


def check_export(export_hf: str | None, rank: int) -> None:
    """Raises UserError, in the first process, if --export_hf holds other files."""
    if export_hf and rank == 0:
        files.check_replaceable(pathlib.Path(export_hf), huggingface_write.is_export)


def describe(run: Run, warnings: Iterable[str] = ()) -> None:
    """Logs the placement of the towers, and warnings about the training data."""
    fact("devices", init_distributed.describe_placement(run.topology))
    for warning in warnings:
        fact("", f"WARNING: {warning}")


def evaluate(
    run: Run, towers: Towers, step: int, *, names: list[str]
) -> dict[str, Any]:
    """Evaluates the model on these sets; writes and logs their scores.

    Returns each set's scored rows (see `Task.scored_rows`), only in the first process.
    """
    settings = run.forward_settings("evaluate")
    scored = {}
    for name in names:
        rows, _ = run.data.load(name)
        read = functools.partial(run.data.examples, name)
        scored[name] = scored_rows(
            run.task,
            rows,
            towers,
            settings=settings,
            examples=read,
            note=functools.partial(fact, name),
        )
        if run.topology.group.rank == 0:
            title = f"{name}: " if len(names) > 1 else ""
            _write_scores(run, step, scored[name], name=name, title=title)
    return scored


def _write_scores(run: Run, step: int, scored: Any, *, name: str, title: str) -> None:
    run.data.check(name, scored)
    scores = run.task.scores(scored)
    results = run.task.results(scores, step)
    other = None if name == history.MAIN else name
    is_new = result_files.write_evaluation(run.output_dir, results, other)
    known = {(row["set"], row["step"]) for row in history.read(run.output_dir)}
    is_new &= (name, step) not in known
    if run.config.do_train and is_new:
        with Events(run.output_dir) as events:
            events.add(name, {"step": step, **scores})
    first, *rest = run.task.summary(scored, scores)
    for text in (f"{title}{first}", *rest):
        say(text)


def baseline(
    run: FinetuningRun, sets: Mapping[str, Features]
) -> dict[str, dict[str, float]]:
    """Set -> the scores of the family's baseline, which are also logged and written.

    All processes call this; the first one gets the scores, the others {}.
    """
    contents = set_contents(run, sets)
    trained, _ = run.data.read("train")  # by all processes, like every reading
    if run.topology.group.rank > 0:
        return {}
    found = _baseline_scores(run, lambda: trained, sets)
    result_files.write_baseline(run.output_dir, found, contents)
    return found


def _baseline_scores(
    run: FinetuningRun, train: Callable[[], Features], sets: Mapping[str, Features]
) -> dict[str, dict[str, float]]:
    family = run.data.family
    found = family.baseline(train, sets, run.task, examples=run.data.examples)
    for name, scores in found.items():
        line = f"{family.baseline_name}, {name}: {run.task.line(scores)}"
        fact("baseline", line)
    return found


def set_contents(run: FinetuningRun, names: Iterable[str]) -> dict[str, str]:
    """Set -> a text that tells its rows from those of another file of the same name."""
    keep = run.config.max_eval_examples
    return {name: f"{run.data.read(name)[1]}, {keep} rows" for name in names}


def earlier_baseline(
    run: FinetuningRun, sets: Mapping[str, Features]
) -> dict[str, dict[str, float]]:
    """The baseline scores that a training wrote; those of other sets are computed now.

    If that needs the training file, which is gone or unreadable, such sets are left
    out. All processes call this; the first one gets the scores, the others {}.
    """
    contents = set_contents(run, sets)
    if run.topology.group.rank > 0:
        return {}
    found = result_files.read_baseline(run.output_dir, contents)
    unknown = [name for name in sets if name not in found]
    if not unknown or not run.task.has_baseline:
        return found
    # The user did not ask for this file, so no fault in it may end the run. Only the
    # first process reads it, since the others could not know of a fault.
    alone = dataclasses.replace(run.data, group=collective.SOLO, _read={})

    def train() -> Features:
        path = _training_file(run)
        if path is None:
            raise _GoneError
        of = f"{alone.family.baseline_name} on {listed(unknown)}"
        fact("baseline", f"reading {path}: the scores of {of} are not known yet")
        return alone.read("train")[0]

    try:
        return _baseline_scores(run, train, sets)
    except _GoneError:
        return found
    except (UserError, OSError) as error:
        fact("baseline", f"none, the training file cannot be read: {error}")
        return found


class _GoneError(Exception):
    """The training file no longer exists."""


def _training_file(run: FinetuningRun) -> pathlib.Path | None:
    """The path of the training file, None if it no longer exists."""
    with contextlib.suppress(UserError, OSError):
        path = run.data.path("train")
        return path if path.is_file() else None
    return None


def evaluator(run: FinetuningRun) -> Evaluator | None:
    """The evaluator of a training; None without --eval_steps."""
    config, task, data = run.config, run.task, run.data
    if not config.eval_steps:
        return None
    loaded = {name: data.load(name) for name in data.evaluated}
    sets = {name: rows for name, (rows, _) in loaded.items()}
    names = task.metrics(sets[history.MAIN])
    metric = choose_metric(config.best_metric, task.metric, names)
    baseline(run, sets)
    measured = {"set": loaded[history.MAIN][1], "metric": metric}
    flags = ("max_eval_examples", *task.score_settings)
    measured |= {name: getattr(config, name) for name in flags}
    settings = EvaluationSettings(
        config.eval_every,
        metric,
        measured,
        patience=config.early_stopping_patience,
        forward=run.forward_settings("evaluate"),
        keeps=None if config.do_eval else BEST if config.use_best else LAST,
    )
    return Evaluator(
        task,
        sets,
        examples=functools.cache(data.examples),
        settings=settings,
        group=run.topology.group,
        output_dir=run.output_dir,
    )


def predict(run: FinetuningRun, towers: Towers) -> None:
    """Writes the predictions of each file; if there are several, each to a folder."""
    task, data = run.task, run.data
    settings = run.forward_settings("predict", predicting=True)
    for name in data.predicted:
        folder = run.output_dir
        if len(data.predicted) > 1:
            folder = folder / run_files.PREDICTED / data.path(name).name
        features, _ = data.load(name)
        read = functools.partial(data.examples, name)
        scored = scored_rows(
            task,
            features,
            towers,
            settings=settings,
            examples=read,
            note=functools.partial(fact, name),
        )
        if run.topology.group.rank > 0:
            continue
        predictions = task.decide(scored)
        written = result_files.write_predictions(
            folder, predictions, features, ids=data.ids(name)
        )
        for remark in predictions.remarks:
            fact("", remark)
        count = len(features.first_rows)
        examples = f"{count} example{'s' * (count != 1)}"
        say(f"predicted {examples}: {', '.join(written)} in {folder}")


def export(
    run: Run, params: Mapping[str, np.ndarray], problem_type: str | None = None
) -> None:
    """Writes the model to --export_hf, in the first process."""
    config, model, task = run.config, run.model, run.data.task
    if not config.export_hf or run.topology.group.rank > 0:
        return
    huggingface_write.export(
        config.export_hf,
        params,
        model.bert_config,
        vocab_file=model.required_vocab_file,
        do_lower_case=model.do_lower_case,
        labels=run.task.labels or None,  # a regression has no labels
        problem_type=problem_type,
        facts=run_folder.facts(run_folder.remembered(config), task) if task else None,
    )
    say(f"wrote the model to {config.export_hf}, for transformers")
    if run.segment:
        say("  transformers reads one segment of a text there, bert_mgpu all of them")
