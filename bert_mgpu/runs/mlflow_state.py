"""mlflow.json: the run in MLflow of an output_dir, and what is already logged there."""

from __future__ import annotations

import contextlib
import json
import pathlib
import threading
from typing import Any

from bert_mgpu.core import files, run_files
from bert_mgpu.core.errors import UserError

# Held from reading what is logged to noting what has been sent, since a training that
# goes back to an earlier step changes both from another thread.
LOCK = threading.Lock()


def read(output_dir: pathlib.Path, uri: str) -> dict[str, Any]:
    """The id of the run in this store, and the last step logged there for each set."""
    state: dict[str, Any] = {"uri": uri, "run_id": None, "logged": {}}
    with contextlib.suppress(UserError):
        found = files.read_json(output_dir / run_files.MLFLOW)
        if found.keys() == state.keys() and found["uri"] == uri:
            return found
    return state


def write(
    output_dir: pathlib.Path, uri: str, run_id: str, *, logged: dict[str, int]
) -> None:
    state = {"uri": uri, "run_id": run_id, "logged": logged}
    files.write_text(output_dir / run_files.MLFLOW, json.dumps(state) + "\n")


def go_back(output_dir: pathlib.Path, step: int) -> None:
    """Forgets what is logged of later steps, so that what replaces it will be logged.

    MLflow keeps both values of such a step, and draws the newer one.
    """
    with contextlib.suppress(UserError, KeyError, TypeError, AttributeError):
        found = files.read_json(output_dir / run_files.MLFLOW)
        logged = {name: min(last, step) for name, last in found["logged"].items()}
        write(output_dir, found["uri"], found["run_id"], logged=logged)


def is_there(client: Any, run_id: str) -> bool:
    """Whether MLflow has the run and nobody has deleted it."""
    try:
        return client.get_run(run_id).info.lifecycle_stage == "active"
    except Exception as error:  # an MlflowException or a network error
        if getattr(error, "error_code", None) != "RESOURCE_DOES_NOT_EXIST":
            raise
        return False
