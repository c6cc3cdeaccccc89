"""Puts a run together, from the flags to its exit code."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import pathlib
import signal
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from bert_mgpu import command, files, flags, launch
from bert_mgpu.data import readers
from bert_mgpu.errors import (
    DoesNotFit,
    Interrupted,
    Preempted,
    RunError,
    UserError,
    smaller,
)
from bert_mgpu.launch import Place
from bert_mgpu.run_config import FinetuneConfig, PretrainConfig, RunConfig
from bert_mgpu.tasks import custom, reading
from bert_mgpu.watch import Watch

_TENSORFLOW_LOG = "tensorflow.log"
_EXPORTS = "export_hf", "export_saved_model", "export_onnx"


def finetune(
    argv: Sequence[str], usage: str, anew: Callable[[int], int] | None = None
) -> int:
    """Runs the command line `argv` of run_classifier_mgpu.py; returns the exit code.

    anew: starts the same command anew with its batches cut into so many parts, where
    they do not fit; a script passes `launch.start_anew`. None: such a run ends.
    """

    def work() -> Callable[..., None]:
        from bert_mgpu import finetune

        return finetune.finetune

    return _main(argv, usage, FinetuneConfig, _check_finetuning, work, anew)


def pretrain(
    argv: Sequence[str], usage: str, anew: Callable[[int], int] | None = None
) -> int:
    """The same for run_pretraining_mgpu.py."""

    def work() -> Callable[..., None]:
        from bert_mgpu import pretrain

        return pretrain.pretrain

    return _main(argv, usage, PretrainConfig, _check_pretraining, work, anew)


@command.unbroken_log()
def _main(
    argv: Sequence[str],
    usage: str,
    table: type[Any],
    check: Callable[[Any], None],
    work: Callable[[], Callable[..., None]],
    anew: Callable[[int], int] | None,
) -> int:
    """check: refuses what it can before anything is loaded; work: loads the rest."""
    watch = Watch(Place(), None, 0)  # of a process alone, until its place is known

    def preempt(number: int, frame: object) -> None:
        raise Preempted("the same command goes on from what is saved")

    def end(number: int, frame: object) -> None:
        """The same at once, while TensorFlow loads: its import swallows exceptions."""
        try:
            preempt(number, frame)
        except Preempted as stopped:
            os._exit(_fail(stopped, watch))

    before = signal.signal(signal.SIGTERM, end)
    try:
        run, remarks = flags.parse(argv, usage, table)
        run = in_parts(run, launch.parts())
        place = launch.find()
        folder = pathlib.Path(run.output_dir) if run.output_dir else None
        watch = Watch(place, folder, run.peer_timeout)
        if launch.elastic():  # a loss may come before the others are met
            towers = launch.towers() or run.n_gpus * place.size
            watch.rejoins = functools.partial(launch.rejoin, towers)
        watch.open()
        check(run)
        output_dir = pathlib.Path(str(run.output_dir))
        with (
            _taken(output_dir, place, "cache" if run.cache_dir else None),
            _tensorflow_log(output_dir, run.tf_log, place),
        ):
            watch.begin()
            _work(run, output_dir, remarks, work, place, watch, preempt)
        watch.close()
        return 0
    except flags.HelpAsked as asked:
        return command.show(str(asked))
    except DoesNotFit as error:
        if anew is None or not place.alone:
            return _fail(error, watch)
        print(error.going_on, file=sys.stderr, flush=True)
        again = error.parts
    except RunError as error:
        return _fail(error, watch)
    except KeyboardInterrupt:
        return _fail(Interrupted("stopped by Ctrl-C"), watch)
    except OSError as error:  # what the checks could not look at
        return _fail(command.unusable(error, None, ""), watch)
    finally:
        signal.signal(signal.SIGTERM, before)
    return anew(again)


def in_parts(run: Any, parts: int) -> Any:
    """The same steps, made of so many times the parts, each of fewer rows."""
    if run.train_batch_size % parts:
        raise UserError(
            f"{launch.PARTS}={parts} does not divide"
            f" --train_batch_size={run.train_batch_size}: unset it"
        )
    return dataclasses.replace(
        run,
        train_batch_size=run.train_batch_size // parts,
        gradient_accumulation_steps=run.gradient_accumulation_steps * parts,
    )


class _Fault(RunError):
    """Ours; its traceback is printed."""

    def __init__(self, error: Exception, output_dir: pathlib.Path):
        super().__init__(f"{type(error).__name__}: {error}")
        self.report = "".join(traceback.format_exception(error)) + (
            "this is a fault of bert_mgpu: please report it, with the file"
            f" {output_dir / _TENSORFLOW_LOG}"
        )


def _fail(error: RunError, watch: Watch) -> int:
    """Says why the run ends; the exit code."""
    ended = watch.end(error)
    if isinstance(ended, _Fault):
        print(ended.report, file=sys.stderr)
        code = ended.exit_code
    else:
        code = command.fail(ended)
    watch.leave(code)
    return code


@contextlib.contextmanager
def _taken(
    output_dir: pathlib.Path, place: Place, unused: str | None
) -> Iterator[None]:
    """The first process takes the folder, for all of them."""
    if not place.leads:
        yield
        return
    with files.locked(output_dir, f"--output_dir={output_dir}", "folder"):
        files.check_folders(output_dir, unused)
        yield


def _work(
    run: RunConfig,
    output_dir: pathlib.Path,
    remarks: list[str],
    work: Callable[[], Callable[..., None]],
    place: Place,
    watch: Watch,
    preempt: Callable[[int, object], None],
) -> None:
    """TensorFlow is imported here, when everything cheap has been checked."""
    import tensorflow as tf

    from bert_mgpu import opening, sources

    signal.signal(signal.SIGTERM, preempt)  # while training, the loop has its own
    if not run.tf_log:
        tf.get_logger().setLevel("ERROR")
    try:
        run, remembered = sources.as_trained(run, output_dir)
        world = opening.open_world(run, remarks + remembered, place, watch)
        work()(run, output_dir, world)
        world.group.gather(b"")  # no process leaves while another one writes
    except (RunError, KeyboardInterrupt):
        raise
    except Exception as error:
        advice = smaller(run.do_train, run.recompute)
        if explained := command.explain(error, output_dir, "output_dir", advice):
            raise explained from None
        if lost := watch.broke(error):
            raise lost from None
        raise _Fault(error, output_dir) from error


def _check_asked(run: RunConfig, needed: Sequence[str]) -> None:
    for name in (*needed, "output_dir"):
        if getattr(run, name) is None:
            raise UserError(f"--{name} is missing (--help lists all flags)")
    asked = "do_train", "do_eval", "do_predict", *_EXPORTS
    if not any(getattr(run, name, None) for name in asked):
        raise UserError(
            "nothing to do: pass --do_train=true, --do_eval=true or --do_predict=true"
        )
    if run.allreduce_dtype == "bfloat16":
        raise UserError(
            "--allreduce_dtype=bfloat16: gloo, which carries what processes say to each"
            " other, has no such type: pass float16"
        )
    if run.plan and not run.do_train:
        raise UserError("--plan is of a training: pass --do_train=true as well")
    if run.predict_file and not run.do_predict:
        raise UserError("--predict_file is given: pass --do_predict=true as well")


def _check_used(run: RunConfig, names: Sequence[str], needed: str) -> None:
    """A flag that would do nothing is a mistake. needed: what gives it a meaning."""
    for name in names:
        if name in run.given:
            raise UserError(f"--{name} does nothing without {needed}: pass both")


def _check_pretraining(run: PretrainConfig) -> None:
    reads = run.do_train or (run.do_eval and run.eval_input_file is None)
    _check_asked(run, ["input_file"] if reads else [])
    if run.eval_input_file and not run.do_eval:
        raise UserError("--eval_input_file is given: pass --do_eval=true as well")
    if run.do_predict and run.predict_file is None:
        raise UserError("--do_predict scores the lines of a file: pass --predict_file")
    if not run.dynamic_masking:
        _check_used(run, ["masking", "masked_lm_prob"], "--dynamic_masking=true")


def _check_finetuning(run: FinetuneConfig) -> None:
    _check_asked(run, ["task_name", "data_dir"])
    if run.truncation != "head_tail":
        _check_used(run, ["head_tokens"], "--truncation=head_tail")
    if not os.path.isdir(str(run.data_dir)):
        what = "a file" if os.path.exists(str(run.data_dir)) else "no such folder"
        raise UserError(
            f"--data_dir={run.data_dir}: {what}: pass the folder with the task's files"
        )
    custom.find(run)
    others = reading.named_files(run.eval_files)
    if others and not (run.do_eval or run.eval_steps):
        raise UserError(
            "--eval_files is given: pass --do_eval=true or --eval_steps as well"
        )
    if run.predict_file == readers.STANDARD_INPUT and (run.do_train or run.do_eval):
        raise UserError(
            "--predict_file=-: rows come to a trained model: leave --do_train and"
            " --do_eval out"
        )
    if run.predict_file == readers.STANDARD_INPUT and run.max_predict_examples:
        raise UserError("--max_predict_examples: --predict_file=- has no known number")
    if run.seeds > 1:
        _check_seeds(run)
    if run.eval_steps and not run.do_train:
        raise UserError("--eval_steps is of a training: pass --do_train=true as well")
    if not run.eval_steps:
        _check_used(run, ["early_stopping_patience", "best_metric"], "--eval_steps")
        if run.use_best and run.do_train:
            raise UserError("--use_best of a training needs --eval_steps: pass both")


def _check_seeds(run: FinetuneConfig) -> None:
    if not (run.do_train and run.do_eval):
        raise UserError("--seeds: pass --do_train=true and --do_eval=true")
    for name in (*_EXPORTS, "plan"):
        if getattr(run, name):
            raise UserError(f"--{name}: is of one model: leave --seeds out")


@contextlib.contextmanager
def _tensorflow_log(
    output_dir: pathlib.Path, shown: bool, place: Place
) -> Iterator[None]:
    """TensorFlow's messages, unless they are to be shown, go to a file.

    Of several processes the first one alone has something to say, until one ends.
    """
    path = output_dir / _TENSORFLOW_LOG if place.leads else pathlib.Path(os.devnull)
    try:
        if place.leads and not shown:
            path.unlink(missing_ok=True)  # a link would lead elsewhere
        apart = command.apart(None if shown else path, place.leads)
        entered = contextlib.ExitStack()
        entered.enter_context(apart)
    except OSError as error:
        name = f"--output_dir={output_dir}"
        raise files.unwritable(name, "folder", error) from None
    with entered:
        yield
