"""A training command: from its flags to its exit code."""

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

from bert_mgpu.cli import process
from bert_mgpu.config import parsing
from bert_mgpu.config.base import RunConfig
from bert_mgpu.core import files, log
from bert_mgpu.core.errors import (
    DoesNotFit,
    Interrupted,
    Preempted,
    RunError,
    UserError,
    memory_advice,
)
from bert_mgpu.distributed import launcher
from bert_mgpu.distributed.launcher import ProcessRank
from bert_mgpu.distributed.watchdog import Watchdog

_TENSORFLOW_LOG = "tensorflow.log"


@process.unbroken_log()
def run(
    argv: Sequence[str],
    usage: str,
    table: type[Any],
    *,
    check: Callable[[Any], None],
    load: Callable[[], Callable[..., None]],
    anew: Callable[[int], int] | None,
) -> int:
    """Runs a training script's command line; returns the exit code.

    table: of its flags; check: refuses what it can before anything is loaded; load:
    imports the work, a function of (settings, output_dir, world). anew: starts the
    same command anew with its batches cut into so many parts, where they do not fit;
    None: such a run ends.
    """
    watch = Watchdog(
        ProcessRank(), None, 0
    )  # of a process alone, until its place is known

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
        settings, remarks = parsing.parse(argv, usage, table)
        settings = in_parts(settings, launcher.parts())
        place = launcher.process_rank()
        folder = pathlib.Path(settings.output_dir) if settings.output_dir else None
        watch = Watchdog(place, folder, settings.peer_timeout)
        if launcher.is_elastic():  # a loss may come before the others are met
            towers = launcher.towers() or settings.n_gpus * place.size
            watch.rejoins = functools.partial(launcher.rejoin, towers)
        watch.open()
        check(settings)
        output_dir = pathlib.Path(str(settings.output_dir))
        with (
            _taken(output_dir, place, "cache" if settings.cache_dir else None),
            _tensorflow_log(output_dir, settings.tf_log, place),
        ):
            watch.begin()
            _work(
                settings,
                output_dir,
                remarks,
                load=load,
                place=place,
                watch=watch,
                preempt=preempt,
            )
        watch.close()
        return 0
    except parsing.HelpAsked as asked:
        return log.print_stdout(str(asked))
    except DoesNotFit as error:
        if anew is None or not place.is_single:
            return _fail(error, watch)
        print(error.notice, file=sys.stderr, flush=True)
        again = error.parts
    except RunError as error:
        return _fail(error, watch)
    except KeyboardInterrupt:
        return _fail(Interrupted("stopped by Ctrl-C"), watch)
    except OSError as error:  # what the checks could not look at
        return _fail(process.unusable(error, None, ""), watch)
    finally:
        signal.signal(signal.SIGTERM, before)
    return anew(again)


def in_parts(config: Any, parts: int) -> Any:
    """The same steps, made of so many times the parts, each of fewer rows."""
    if config.train_batch_size % parts:
        raise UserError(
            f"{launcher.PARTS}={parts} does not divide"
            f" --train_batch_size={config.train_batch_size}: unset it"
        )
    return dataclasses.replace(
        config,
        train_batch_size=config.train_batch_size // parts,
        gradient_accumulation_steps=config.gradient_accumulation_steps * parts,
    )


class _InternalError(RunError):
    """A fault of bert_mgpu: a traceback follows."""

    def __init__(self, error: Exception, output_dir: pathlib.Path):
        super().__init__(f"{type(error).__name__}: {error}")
        self.report = "".join(traceback.format_exception(error)) + (
            "this is a fault of bert_mgpu: please report it, with the file"
            f" {output_dir / _TENSORFLOW_LOG}"
        )


def _fail(error: RunError, watch: Watchdog) -> int:
    """Says why the run ends; the exit code."""
    ended = watch.end(error)
    if isinstance(ended, _InternalError):
        print(ended.report, file=sys.stderr)
        code = ended.exit_code
    else:
        code = process.fail(ended)
    watch.leave(code)
    return code


@contextlib.contextmanager
def _taken(
    output_dir: pathlib.Path, place: ProcessRank, unused: str | None
) -> Iterator[None]:
    """The first process takes the folder, for all of them."""
    if not place.is_first:
        yield
        return
    with files.locked(output_dir, f"--output_dir={output_dir}", "folder"):
        files.check_folders(output_dir, unused)
        yield


def _work(
    config: RunConfig,
    output_dir: pathlib.Path,
    remarks: list[str],
    *,
    load: Callable[[], Callable[..., None]],
    place: ProcessRank,
    watch: Watchdog,
    preempt: Callable[[int, object], None],
) -> None:
    """TensorFlow is imported here, when everything cheap has been checked."""
    import tensorflow as tf

    from bert_mgpu.checkpoints import pretrained
    from bert_mgpu.runs import init_distributed

    signal.signal(signal.SIGTERM, preempt)  # while training, the loop has its own
    if not config.tf_log:
        tf.get_logger().setLevel("ERROR")
    try:
        config, remembered = pretrained.as_trained(config, output_dir)
        topology = init_distributed.init_distributed(
            config, remarks + remembered, place, watch=watch
        )
        load()(config, output_dir, topology)
        topology.group.all_gather(b"")  # no process leaves while another one writes
    except (RunError, KeyboardInterrupt):
        raise
    except Exception as error:
        advice = memory_advice(config.do_train, config.recompute)
        if explained := process.explain(
            error, output_dir, "output_dir", smaller=advice
        ):
            raise explained from None
        if lost := watch.broke(error):
            raise lost from None
        raise _InternalError(error, output_dir) from error


@contextlib.contextmanager
def _tensorflow_log(
    output_dir: pathlib.Path, shown: bool, place: ProcessRank
) -> Iterator[None]:
    """TensorFlow's messages, unless they are to be shown, go to a file.

    Of several processes the first one alone has something to say, until one ends.
    """
    path = output_dir / _TENSORFLOW_LOG if place.is_first else pathlib.Path(os.devnull)
    try:
        if place.is_first and not shown:
            path.unlink(missing_ok=True)  # a link would lead elsewhere
        apart = process.redirect_native_stderr(None if shown else path, place.is_first)
        entered = contextlib.ExitStack()
        entered.enter_context(apart)
    except OSError as error:
        name = f"--output_dir={output_dir}"
        raise files.unwritable(name, "folder", error) from None
    with entered:
        yield
