"""The scripts as processes of their own, one or several."""

import os
import pathlib
import signal
import subprocess
import sys

from tests.support import warm
from tests.support.paths import ROOT
from tests.support.warm import Forked

SCRIPT = ROOT / "run_classifier_mgpu.py"
PRETRAINING = ROOT / "run_pretraining_mgpu.py"


def process(args, env=None, program=SCRIPT, anew=False, **options):
    """Starts a script without a GPU; its output is text.

    It has TensorFlow loaded; anew: it is a true start, as one with options of
    subprocess.Popen that a fork has not.
    """
    env = {**os.environ, "CUDA_VISIBLE_DEVICES": "", **(env or {})}
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    if not anew and not options.keys() - {"stdin", "stdout", "stderr"}:
        return Forked([program, *args], env, **options)
    return subprocess.Popen(
        [sys.executable, program, *args], env=env, text=True, **options
    )


def python(*command):
    """(exit code, stdout, stderr) of `-c CODE ARGUMENTS`, with TensorFlow loaded."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    run = Forked(command, {**os.environ, "CUDA_VISIBLE_DEVICES": ""}, **pipes)
    out, err = run.communicate(timeout=300)
    return run.returncode, out, err


class Cluster:
    """Runs of several processes, as horovodrun starts them on this machine."""

    def start(self, processes, args, program=SCRIPT, options=(), env=None):
        """horovodrun with options of its own; all processes have TensorFlow loaded."""
        launcher = pathlib.Path(sys.executable).with_name("horovodrun")
        where = [] if options else ["-H", f"localhost:{processes}"]
        command = [launcher, "-np", str(processes), *where, *options]
        command += [*warm.PYTHON, "0", program]
        warm.address()  # which the processes find in the environment
        env = {**os.environ, "CUDA_VISIBLE_DEVICES": "", **(env or {})}
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        return Forked([*command, *args], env, **pipes)

    def run(self, processes, args, timeout=240, **options):
        """(exit code, what all processes printed)."""
        started = self.start(processes, args, **options)
        try:
            out, _ = started.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            os.killpg(started.fork, signal.SIGKILL)
            raise
        return started.returncode, out
