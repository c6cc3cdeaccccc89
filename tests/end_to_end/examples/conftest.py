"""The scripts of examples/: with the arguments that they would pass, or as they are.

They run as they stand, but a recorder stands for Python: it writes down its arguments.
These then run in this process, which saves the start of TensorFlow; some scripts run
whole.
"""

import os
import shlex
import shutil
import subprocess

import pytest

from bert_mgpu.cli import serve
from bert_mgpu.cli.doctor import environment
from bert_mgpu.config.serve import ServeConfig
from tests.support import warm
from tests.support.paths import EXAMPLES

RECORDER = """#!/usr/bin/env bash
printf '%q ' "$@" >> {log}; echo >> {log}
"""


@pytest.fixture
def model(tiny):
    return tiny.model / "bert_model.ckpt"


@pytest.fixture
def settings(tiny, model, tmp_path):
    """Of a script, for the tiny workspace."""
    return {
        "DATA": tiny.data("own"),
        "TASK": "own",
        "MODEL": model,
        "OUT": tmp_path / "out",
    }


@pytest.fixture
def trained_own(trained, tmp_path):
    return shutil.copytree(trained("own"), tmp_path / "trained-own")


@pytest.fixture
def recorded(tmp_path, inside):
    """recorded(script, *arguments, **variables): runs what the script would run.

    Returns (exit code, stdout, stderr) of its last command; recorded.server has the
    model that it would serve.
    """
    log, recorder = tmp_path / "commands", tmp_path / "python"
    recorder.write_text(RECORDER.format(log=shlex.quote(str(log))))
    recorder.chmod(0o755)

    def run(script, *arguments, **variables):
        log.unlink(missing_ok=True)
        values = {name: str(value) for name, value in variables.items()}
        subprocess.run(
            ["bash", EXAMPLES / script, *map(str, arguments)],
            env={**os.environ, "PYTHON": str(recorder), **values},
            capture_output=True,
            timeout=60,
        )
        result = None
        for line in log.read_text().splitlines():
            program, *flags = shlex.split(line)
            if program == "-m" and flags[1] == "serve":
                assert flags[3:] == ["--port=0"]
                run.server = serve.LoadedModel(ServeConfig(output_dir=flags[2]))
                continue
            if program == "-m":
                assert flags[:3] == ["bert_mgpu", "doctor", "data"]
                assert environment.main(flags[2:]) == 0
                continue
            assert program == "run_classifier_mgpu.py"
            result = inside(flags)
            assert result[0] == 0, result[2]
        return result

    return run


@pytest.fixture
def real(tmp_path):
    """real(script, *arguments, settings=...): a subprocess.CompletedProcess."""
    warm.address()  # where PYTHON finds TensorFlow loaded
    shim = tmp_path / "python"
    shim.write_text(f'#!/bin/sh\nexec {" ".join(warm.PYTHON)} 0 "$@"\n')
    shim.chmod(0o755)

    def run(script, *arguments, settings, **options):
        env = {name: str(value) for name, value in settings.items()}
        return subprocess.run(
            ["bash", EXAMPLES / script, *arguments],
            env={**os.environ, "PYTHON": str(shim), "CUDA_VISIBLE_DEVICES": "", **env},
            capture_output=True,
            text=True,
            timeout=300,
            **options,
        )

    return run
