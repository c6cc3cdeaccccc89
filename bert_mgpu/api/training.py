"""`bert_mgpu.train`: trains in a separate process."""

from __future__ import annotations

import collections
import html
import json
import os
import pathlib
import signal
import subprocess
import sys
from typing import Any

from bert_mgpu.config import parsing
from bert_mgpu.config.finetuning import FinetuneConfig
from bert_mgpu.core import run_files
from bert_mgpu.core.errors import (
    Diverged,
    Interrupted,
    OutOfMemory,
    PeerLost,
    Preempted,
    RunError,
    UserError,
)

_ROOT = str(pathlib.Path(__file__).parents[2])
# Runs `bert_mgpu`, which gets SIGTERM, as from a scheduler, if this process ends first.
_COMMAND = """
import ctypes, runpy, signal
ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG
runpy.run_module("bert_mgpu", run_name="__main__", alter_sys=True)
"""
_ERRORS = {
    error.exit_code: error
    for error in (UserError, Diverged, OutOfMemory, PeerLost, Preempted, Interrupted)
}
_KEPT = 200  # lines of the log that an unexpected error shows
_HEIGHT = 600  # pixels of the report in a notebook


class Scores(dict[str, Any]):
    """The scores on the dev set, as in eval_results.txt.

    With `seeds`, the scores in seeds.json: those of each set, with mean and deviation.
    """

    def __init__(self, scores: dict[str, Any], output_dir: pathlib.Path):
        super().__init__(scores)
        self.output_dir = output_dir
        self.report = output_dir / run_files.REPORT_PAGE

    def _repr_html_(self) -> str:
        """The report, for notebooks."""
        if not self.report.is_file():
            return f"<pre>{html.escape(json.dumps(self, indent=2))}</pre>"
        page = html.escape(self.report.read_text("utf-8"), quote=True)
        return (
            f'<iframe srcdoc="{page}" sandbox style="width: 100%; height: {_HEIGHT}px;'
            ' border: 1px solid #ccc"></iframe>'
        )


def train(*, verbose: bool = False, **flags: Any) -> Scores:
    """Trains as run_classifier_mgpu.py does, and returns the scores on the dev set.

    flags: the script's flags, for instance `train(task_name="reviews",
    data_dir="data", init_checkpoint="model", output_dir="out", n_gpus=2)`. do_train and
    do_eval are True unless given. The same call resumes a training that was stopped.
    verbose: print the log; with `plan=True` it is always printed.

    The training runs in another process, and uses neither devices nor memory of this
    one. A KeyboardInterrupt, or the end of this process, stops it after it has saved.

    Raises:
      RunError: the subclass that belongs to the script's exit code (UserError,
        Diverged, OutOfMemory, ...), with the script's message.
    """
    values = {"do_train": True, "do_eval": True, **flags}
    arguments = [*parsing.arguments(values)]
    # Mistakes in flags are reported here, at once.
    try:
        config, _ = parsing.parse(["", *arguments], "", FinetuneConfig)
    except parsing.HelpRequested:
        raise UserError("help: `bert_mgpu train --help` shows the flags") from None
    command = [sys.executable, "-c", _COMMAND, "train", *arguments]
    _run(command, verbose or config.plan)
    folder = pathlib.Path(str(config.output_dir))
    return Scores(_scores(config, folder), folder)


def _run(command: list[str], verbose: bool) -> None:
    """Runs a command to its end. Raises RunError unless its exit code is 0."""
    # So that the command finds a clone that is not installed, too.
    paths = [_ROOT, *filter(None, [os.environ.get("PYTHONPATH")])]
    lines: collections.deque[str] = collections.deque(maxlen=_KEPT)
    process = subprocess.Popen(
        command,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
        errors="backslashreplace",
        # Else Ctrl-C would reach it twice: from the terminal or notebook and from here.
        start_new_session=True,
    )
    assert process.stdout
    with process:
        try:
            for line in process.stdout:
                lines.append(line)
                if verbose:
                    sys.stdout.write(line)
                    sys.stdout.flush()
        except BaseException:  # Ctrl-C, or a stop of the notebook's cell
            process.send_signal(signal.SIGINT)
            process.communicate()  # else its output would block it while it saves
            raise
    if process.returncode == 0:
        return
    error = _ERRORS.get(process.returncode)
    if error is None:
        raise RunError(f"the training ended unexpectedly:\n{''.join(lines)}".rstrip())
    label = f"{error.label}: "
    ends = [line.rstrip("\n") for line in lines if line.startswith(label)]
    raise error((ends or [*lines, ""])[-1].removeprefix(label))


def _scores(config: FinetuneConfig, folder: pathlib.Path) -> dict[str, Any]:
    if not config.do_eval or config.plan:
        return {}
    if config.seeds > 1:
        path = folder / run_files.SEEDS
        scores: dict[str, Any] = json.loads(path.read_text("utf-8"))["scores"]
        return scores
    from bert_mgpu.evaluation import result_files

    return {**result_files.read_evaluation(folder / result_files.evaluation_file())}
