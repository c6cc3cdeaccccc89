"""A fine-tuning run from start to end: train, evaluate, predict, export."""

from __future__ import annotations

import dataclasses
import itertools
import json
import pathlib
import platform
import shutil
from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow as tf

import bert_mgpu
from bert_mgpu import results, sources
from bert_mgpu.data import pipeline, records
from bert_mgpu.errors import UserError
from bert_mgpu.interop import huggingface
from bert_mgpu.nn import params as params_lib
from bert_mgpu.run_config import RunConfig, fields
from bert_mgpu.sources import Model
from bert_mgpu.task import Features
from bert_mgpu.tasks import builtin, classification, custom
from bert_mgpu.train import checkpoint, devices, loop, schedule
from bert_mgpu.train.checkpoint import TrainState
from bert_mgpu.train.recorder import Recorder, progress, say
from bert_mgpu.train.towers import Towers

_HEAD = "output_weights"  # its presence tells a trained classifier


def finetune(run: RunConfig, output_dir: pathlib.Path, remarks: list[str]) -> None:
    """Does what the flags ask for. Raises RunError where that ends."""
    say(f"bert_mgpu {bert_mgpu.__version__}, TensorFlow {tf.__version__}")
    for remark in remarks:
        say(remark)
    # 1. The devices, before anything is built on them.
    visible = devices.configure(run.device, run.cpu_devices)
    # 2. The model without its weights, the task, its labels.
    model = sources.find_model(run, output_dir)
    for note in sources.notes(run, model):
        say(note)
    files = custom.find(str(run.task_name), str(run.data_dir))
    labels = _labels(run, files, model, output_dir)
    files = dataclasses.replace(files, labels=tuple(labels))
    task = classification.Classification(
        files.name,
        model.config,
        labels,
        run.max_seq_length,
        run.classifier_dropout,
    )
    data = _Data(run, files, model, labels, output_dir)
    towers = Towers(task, run.n_gpus, visible, run.seed, run.xla != "off")
    say(devices.describe(towers.places, visible))
    # 3. Train, or take what is there.
    if run.do_train:
        state = _train(run, model, task, data, towers, output_dir)
    else:
        state = _trained(run, task, output_dir)
        towers.load(state.params, {})
    # 4. Measure, predict, export.
    if run.do_eval:
        _evaluate(run, task, data, towers, state.step, output_dir)
    if run.do_predict:
        _predict(run, task, data, towers, output_dir)
    if run.export_hf:
        huggingface.export(
            run.export_hf,
            state.params,
            model.config,
            model.vocab_file,
            model.do_lower_case,
            labels,
        )
        say(f"wrote {run.export_hf}")


# -- data -------------------------------------------------------------------


def _labels(
    run: RunConfig,
    files: builtin.TaskFiles,
    model: Model,
    output_dir: pathlib.Path,
) -> list[str]:
    """The labels in the order of the classes. Raises UserError on a conflict.

    The task's list, else the one beside the weights, else the training file's.
    """
    beside = model.labels
    labels = list(files.labels)
    if not labels and beside is not None and not run.do_train:
        return beside
    if not labels and beside is not None and checkpoint.saved_steps(output_dir):
        return beside
    if not labels:
        source = builtin.split_path(files, str(run.data_dir), "train")
        examples = builtin.read_examples(
            files, source.path, source.split, with_label=True
        )
        labels = sorted({str(example.label) for example in examples})
    continues = checkpoint.saved_steps(output_dir) or not run.do_train
    same_words = beside is not None and set(beside) == set(labels)
    if beside is not None and beside != labels and (continues or same_words):
        raise UserError(
            f"labels of the task {files.name} are {_shown(labels)}, but those of"
            f" the trained model are {_shown(beside)}: pass the model's task and"
            " data, or train in another --output_dir"
        )
    return labels


def _shown(labels: list[str]) -> str:
    text = ", ".join(labels[:10])
    return f"{text}, ... ({len(labels)})" if len(labels) > 10 else text


@dataclasses.dataclass(frozen=True)
class _Data:
    """Reads the task's files as features, through the cache."""

    run: RunConfig
    files: builtin.TaskFiles
    model: Model
    labels: list[str]
    output_dir: pathlib.Path

    def load(
        self, split: str, keep: int | None, path: str | None = None
    ) -> tuple[Features, str]:
        """(features, fingerprint) of train, dev or test, or of the file `path`."""
        with_label = split != "test"
        if path is not None:
            columns = builtin.predict_file_split(self.files, path)
            source = builtin.Source(pathlib.Path(path), columns)
        else:
            source = builtin.split_path(self.files, str(self.run.data_dir), split)
        if source.note:
            say(source.note)
        run, files = self.run, self.files
        settings = {
            "data": records.file_hash(source.path),
            "columns": repr(files.columns_of(source.split)),
            "task": files.name,
            "labels": self.labels if with_label else None,
            "keep": [keep, run.seed] if keep is not None else None,
            "tokenizer": self.model.tokenizer.fingerprint,
            "max_seq_length": run.max_seq_length,
            "truncation": [run.truncation, run.head_tokens],
        }

        def make() -> Features:
            examples = builtin.read_examples(
                files,
                source.path,
                source.split,
                with_label=with_label,
                keep=keep,
                seed=run.seed,
            )
            return classification.featurise(
                examples,
                self.model.tokenizer,
                self.labels,
                run.max_seq_length,
                run.truncation,
                run.head_tokens,
            )

        cache = pathlib.Path(run.cache_dir or self.output_dir / "cache")
        features, key = records.cached(cache, f"{files.name}-{split}", settings, make)
        _say_lengths(split, source.path, features, run.max_seq_length)
        return features, key


def _say_lengths(
    split: str, path: pathlib.Path, features: Features, longest: int
) -> None:
    notes = features.notes
    share = notes["truncated"] / max(1, notes["rows"])
    lengths = notes["length_percentiles"]
    shown = ", ".join(f"{name} %: {lengths[name]}" for name in lengths)
    say(
        f"{split}: {notes['rows']} rows of {path}; tokens ({shown}); {share:.1%}"
        f" truncated at {longest}"
    )


# -- training ---------------------------------------------------------------


def _train(
    run: RunConfig,
    model: Model,
    task: classification.Classification,
    data: _Data,
    towers: Towers,
    output_dir: pathlib.Path,
) -> TrainState:
    features, key = data.load("train", run.max_train_examples)
    batch = run.train_batch_size * run.n_gpus
    say(
        f"effective batch: {run.train_batch_size} rows x {run.n_gpus} towers ="
        f" {batch} examples a step"
    )
    steps = schedule.total_steps(len(features), batch, run.num_train_epochs)
    if steps < 1:
        raise UserError(
            f"{len(features)} rows x {run.num_train_epochs:g} epochs are less than"
            f" one batch of {batch}: lower --train_batch_size or --n_gpus, or raise"
            " --num_train_epochs"
        )
    peak = schedule.scaled_rate(run.learning_rate, run.n_gpus, run.lr_scaling)
    identity = _identity(run, model, task, key, batch, peak)
    state = _start(run, task, identity, output_dir)
    plan = loop.Plan(
        steps,
        schedule.warmup_steps(steps, run.warmup_proportion),
        peak,
        batch,
        run.save_checkpoints_steps,
    )
    _write_run_files(run, model, task, identity, output_dir)
    towers.load(state.params, state.slots)
    if state.step >= steps:
        say(f"training is finished: step {state.step} of {steps}")
        return state
    say(
        f"training: steps {state.step + 1} to {steps}, {plan.warmup} of them warm-up,"
        f" learning rate up to {peak:g}, seed {run.seed}"
    )

    def batches() -> Iterator[dict[str, np.ndarray]]:
        for step in itertools.count(state.step):
            numbers = pipeline.rows_of_step(len(features), batch, step, run.seed)
            yield pipeline.collate(features, numbers, run.n_gpus, run.max_seq_length)

    recorder = Recorder(output_dir, state.step, steps, batch, run.log_steps)
    made = pipeline.ahead(batches())
    try:
        return loop.train(
            towers,
            state,
            plan,
            made,
            lambda s: checkpoint.save(output_dir, s, run.keep_checkpoint_max),
            recorder,
        )
    finally:
        made.close()
        recorder.close()


def _identity(
    run: RunConfig,
    model: Model,
    task: classification.Classification,
    data_key: str,
    batch: int,
    peak: float,
) -> dict[str, Any]:
    """What a run cannot change when it resumes, as JSON values."""
    flags = {f.name: getattr(run, f.name) for f in fields() if f.metadata["identity"]}
    return flags | {
        "train_batch_size x n_gpus": batch,
        "learning_rate": peak,
        "labels": list(task.labels),
        "bert_config_file": dataclasses.asdict(model.config),
        "vocab_file": model.tokenizer.fingerprint,
        "data": data_key,
    }


def _start(
    run: RunConfig,
    task: classification.Classification,
    identity: dict[str, Any],
    output_dir: pathlib.Path,
) -> TrainState:
    """The state to train from. Order matters: resume, else initialise."""
    specs = task.param_specs()
    random = params_lib.initialize(specs, 0.02, run.seed)
    found = checkpoint.newest(output_dir, say)
    if found is None:
        params = sources.first_weights(specs, random, run.init_checkpoint, say)
        return TrainState.fresh(params, identity)
    state, prefix = found
    _check_identity(state.identity, identity, output_dir)
    _check_params(state, task, prefix)
    zeros = checkpoint.zero_slots(state.params)
    lost = sorted(set(zeros) - set(state.slots))
    say(f"resuming from {prefix}: step {state.step}, weights, optimizer, data position")
    if state.identity is None:
        say("  written by other code: its data and settings cannot be compared")
    if lost:
        say(f"  {len(lost)} optimizer slots are not there and start from zero")
    if run.init_checkpoint:
        say("  --init_checkpoint is not read again")
    return dataclasses.replace(state, slots={**zeros, **state.slots}, identity=identity)


def _check_identity(
    old: dict[str, Any] | None, new: dict[str, Any], output_dir: pathlib.Path
) -> None:
    if old is None:
        return
    # Through JSON, as the old ones came: tuples are lists there.
    now = json.loads(json.dumps(new))
    changed = [name for name in now if name in old and old[name] != now[name]]
    if changed:
        shown = [
            f"{name} (was {old[name]}, is {now[name]})"
            if isinstance(now[name], (str, int, float)) and name != "data"
            else name
            for name in changed
        ]
        raise UserError(
            f"{output_dir} holds a run with other settings: {', '.join(shown)}: pass"
            " the old ones to resume it, or another --output_dir"
        )


def _check_params(
    state: TrainState, task: classification.Classification, prefix: str
) -> None:
    """Keeps the model's weights of a checkpoint; raises where they do not fit."""
    shapes = {name: shape for name, (shape, _) in task.param_specs().items()}
    for name, shape in shapes.items():
        found = state.params.get(name)
        if found is None or found.shape != shape:
            has = "none" if found is None else list(found.shape)
            raise UserError(
                f"{prefix}: {name}: the model wants shape {list(shape)}, there is"
                f" {has}: pass the config and the task that it was trained with"
            )
    state.params = {name: state.params[name] for name in shapes}


def _write_run_files(
    run: RunConfig,
    model: Model,
    task: classification.Classification,
    identity: dict[str, Any],
    output_dir: pathlib.Path,
) -> None:
    settings = {f.name: getattr(run, f.name) for f in fields()}
    settings["do_lower_case"] = model.do_lower_case
    facts = {
        "flags": settings,
        "identity": identity,
        "versions": {
            "bert_mgpu": bert_mgpu.__version__,
            "tensorflow": tf.__version__,
            "numpy": np.__version__,
            "python": platform.python_version(),
        },
    }
    write = results.write_text
    write(output_dir / sources.RUN_FILE, json.dumps(facts, indent=2) + "\n")
    write(output_dir / sources.LABELS_FILE, "".join(f"{x}\n" for x in task.labels))
    write(output_dir / sources.CONFIG_FILE, model.config.to_google_json())
    vocabulary = output_dir / sources.VOCAB_FILE
    if not vocabulary.exists() or not vocabulary.samefile(model.vocab_file):
        shutil.copyfile(model.vocab_file, vocabulary)


# -- evaluation, prediction -------------------------------------------------


def _trained(
    run: RunConfig,
    task: classification.Classification,
    output_dir: pathlib.Path,
) -> TrainState:
    """The trained model to use: of output_dir, else --init_checkpoint."""
    found = checkpoint.newest(output_dir, say)
    if found is not None:
        state, prefix = found
        _check_params(state, task, prefix)
        say(f"using {prefix}")
        return state
    if run.init_checkpoint is None:
        raise UserError(
            f"{output_dir}: no trained model: pass --do_train=true first, or"
            " --init_checkpoint"
        )
    specs = task.param_specs()
    unset = {name: np.full(shape, np.nan) for name, (shape, _) in specs.items()}
    params = sources.first_weights(specs, unset, run.init_checkpoint, say)
    blank = [name for name, value in params.items() if np.isnan(value).all()]
    if blank:
        raise UserError(
            f"{run.init_checkpoint}: {blank[0]} is not trained: pass --do_train=true"
            " or a fine-tuned model, else the predictions would be random"
        )
    return TrainState(params, {})


def _forward(
    run: RunConfig, features: Features, rows: int, towers: Towers, what: str
) -> dict[str, np.ndarray]:
    def shown(batches: Any) -> Any:
        return progress(batches, what)

    return pipeline.forward_all(
        features,
        towers.n_towers,
        rows,
        run.max_seq_length,
        towers.outputs,
        shown,
    )


def _evaluate(
    run: RunConfig,
    task: classification.Classification,
    data: _Data,
    towers: Towers,
    step: int,
    output_dir: pathlib.Path,
) -> None:
    features, _ = data.load("dev", run.max_eval_examples)
    outputs = _forward(run, features, run.eval_batch_size, towers, "evaluate")
    scores = task.score(outputs, features)
    results.write_evaluation(output_dir, scores, step)
    label_ids = features.dense["label_ids"]
    for line in results.evaluation_text(scores, label_ids, outputs, task.labels):
        say(line)


def _predict(
    run: RunConfig,
    task: classification.Classification,
    data: _Data,
    towers: Towers,
    output_dir: pathlib.Path,
) -> None:
    features, _ = data.load("test", run.max_predict_examples, run.predict_file)
    outputs = _forward(run, features, run.prediction_batch, towers, "predict")
    written = results.write_predictions(
        output_dir, outputs["logits"], features.lines, task.labels
    )
    say(f"predicted {len(features)} rows: {', '.join(written)} in {output_dir}")
