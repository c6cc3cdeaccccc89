"""The session of a training command, from its flags to its exit code."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pathlib
import signal
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from bert_mgpu.cli import script
from bert_mgpu.config import parsing
from bert_mgpu.config.base import RunConfig
from bert_mgpu.core import files, log, run_files, sweeping
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

if TYPE_CHECKING:  # it imports TensorFlow
    from bert_mgpu.distributed.topology import Topology


@script.fail_safe_stderr()
def run(
    argv: Sequence[str] | None,
    usage: str,
    table: type[Any],
    *,
    check: Callable[[Any], None],
    work: Callable[[Any, pathlib.Path, Topology], None],
) -> int:
    """Runs a training script's command line; returns the exit code.

    argv: None means sys.argv; the process then restarts with smaller batches if they do
    not fit into memory; with a given argv it fails. table: the flags; check: raises
    UserError before TensorFlow is loaded; work: takes (settings, output_dir, topology).
    """
    # The watchdog of a single process, until the rank is known.
    watchdog = Watchdog(ProcessRank(), None, 0)

    def preempt(number: int, frame: object) -> None:
        raise Preempted("run the same command again to resume from what is saved")

    def end(number: int, frame: object) -> None:
        """Ends at once while TensorFlow loads: its import swallows exceptions."""
        try:
            preempt(number, frame)
        except Preempted as stopped:
            os._exit(_fail(stopped, watchdog))

    before = signal.signal(signal.SIGTERM, end)
    try:
        command = sys.argv if argv is None else argv
        settings, remarks = parsing.parse(command, usage, table)
        settings = in_parts(settings, launcher.batch_parts())
        rank = launcher.process_rank()
        folder = pathlib.Path(settings.output_dir) if settings.output_dir else None
        watchdog = Watchdog(rank, folder, settings.peer_timeout)
        # A process may be lost before the first contact.
        watchdog.keep_towers(launcher.total_towers() or settings.n_gpus * rank.size)
        watchdog.open()
        settings, remembered = _as_trained(settings, folder)
        check(settings)
        output_dir = pathlib.Path(str(settings.output_dir))
        with (
            _locked(
                output_dir,
                rank,
                run_files.CACHE if settings.cache_dir else None,
                reads=not settings.do_train,
            ),
            _tensorflow_log(output_dir, settings.tf_log, rank),
        ):
            watchdog.begin()
            _load_tensorflow(settings.tf_log)
            signal.signal(signal.SIGTERM, preempt)  # the training loop sets its own
            with _explained(settings, output_dir, watchdog):
                topology = _topology(
                    settings, remarks + remembered, rank=rank, watchdog=watchdog
                )
                work(settings, output_dir, topology)
                topology.group.all_gather(b"")  # others may still be writing
        watchdog.close()
        return 0
    except parsing.HelpRequested as asked:
        return log.print_stdout(str(asked))
    except DoesNotFit as error:
        if argv is not None or not rank.is_single:
            return _fail(error, watchdog)
        print(error.notice, file=sys.stderr, flush=True)
        parts = error.parts
    except RunError as error:
        return _fail(error, watchdog)
    except KeyboardInterrupt:
        return _fail(Interrupted("stopped by Ctrl-C"), watchdog)
    except OSError as error:  # for a path that the checks could not read
        return _fail(script.unusable_path_error(error, None, ""), watchdog)
    finally:
        signal.signal(signal.SIGTERM, before)
    return launcher.restart_in_parts(parts)


def in_parts(config: Any, parts: int) -> Any:
    """The settings for the same steps, with each batch split into this many parts."""
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
    """A bug in bert_mgpu; a traceback is printed."""

    def __init__(self, error: Exception, output_dir: pathlib.Path):
        super().__init__(f"{type(error).__name__}: {error}")
        self.report = "".join(traceback.format_exception(error)) + (
            "this is a bug in bert_mgpu: please report it, with the file"
            f" {output_dir / run_files.TENSORFLOW_LOG}"
        )


def _fail(error: RunError, watchdog: Watchdog) -> int:
    """Prints why the run ends; returns the exit code."""
    ended = watchdog.end(error)
    if isinstance(ended, _InternalError):
        print(ended.report, file=sys.stderr)
        code = ended.exit_code
    else:
        code = script.fail(ended)
    watchdog.leave(code)
    return code


@contextlib.contextmanager
def _locked(
    output_dir: pathlib.Path, rank: ProcessRank, unused: str | None, *, reads: bool
) -> Iterator[None]:
    """Locks the folder; of several processes only the first does, for all of them.

    reads: whether the folder may be that of a model which is only used.
    """
    if not rank.is_first:
        yield
        return
    # A model's folder that cannot be written to can be read all the same.
    other = (
        f"folder, with --init_checkpoint={output_dir}"
        if reads and _has_run(output_dir)
        else "folder"
    )
    with files.locked(output_dir, f"--output_dir={output_dir}", other):
        run_files.check_folders(output_dir, unused)
        sweeping.sweep(output_dir, own_cache=unused is None)
        yield


def _has_run(output_dir: pathlib.Path) -> bool:
    return (output_dir / run_files.RUN).is_file()


def _load_tensorflow(shows_log: bool) -> None:
    """Imports TensorFlow, now that all cheap checks have passed."""
    import tensorflow as tf

    if not shows_log:
        tf.get_logger().setLevel("ERROR")


def _as_trained(
    config: RunConfig, output_dir: pathlib.Path | None
) -> tuple[RunConfig, list[str]]:
    """The settings, completed from the model's training, and notes for the log."""
    from bert_mgpu.checkpoints import pretrained  # not for --help

    return pretrained.as_trained(config, output_dir)


def _topology(
    config: RunConfig, remarks: list[str], *, rank: ProcessRank, watchdog: Watchdog
) -> Topology:
    """The processes and devices of the run."""
    from bert_mgpu.runs import init_distributed

    return init_distributed.init_distributed(config, remarks, rank, watchdog=watchdog)


@contextlib.contextmanager
def _explained(
    config: RunConfig, output_dir: pathlib.Path, watchdog: Watchdog
) -> Iterator[None]:
    """Turns unexpected errors of the work into RunErrors."""
    try:
        yield
    except (RunError, KeyboardInterrupt):
        raise
    except Exception as error:
        advice = memory_advice(config.do_train, config.recompute)
        if explained := script.explain(
            error, output_dir, "output_dir", memory_hint=advice
        ):
            raise explained from None
        if lost := watchdog.lost_peer(error):
            raise lost from None
        raise _InternalError(error, output_dir) from error


@contextlib.contextmanager
def _tensorflow_log(
    output_dir: pathlib.Path, shown: bool, rank: ProcessRank
) -> Iterator[None]:
    """Sends TensorFlow's messages to a file, unless they are to be shown.

    With several processes, only the first writes to the log until one of them ends.
    """
    path = pathlib.Path(os.devnull)
    if rank.is_first:
        path = output_dir / run_files.TENSORFLOW_LOG
    try:
        if rank.is_first and not shown:
            path.unlink(missing_ok=True)  # else a link would be followed
        redirect = script.redirect_native_stderr(None if shown else path, rank.is_first)
        entered = contextlib.ExitStack()
        entered.enter_context(redirect)
    except OSError as error:
        name = f"--output_dir={output_dir}"
        raise files.unwritable(name, "folder", error) from None
    with entered:
        yield
