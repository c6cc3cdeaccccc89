"""Logs a training in MLflow, with --mlflow: its settings, curves, scores and report.

A thread reads them from the files in output_dir, so the training never waits for the
MLflow store. What the store did not accept is logged later, or when the same command
runs again.
"""

from __future__ import annotations

import contextlib
import logging
import os
import pathlib
import threading
import time
from collections.abc import Iterator
from typing import Any

from bert_mgpu.config.base import RunConfig, fields
from bert_mgpu.core import files, run_files
from bert_mgpu.core.errors import Interrupted, Preempted, UserError, shortened
from bert_mgpu.core.log import say
from bert_mgpu.evaluation import history, result_files
from bert_mgpu.runs import mlflow_state
from bert_mgpu.runs.run import Run
from bert_mgpu.training import recorder

_SECONDS = 30.0  # from one reading of the files to the next
_MOST_METRICS, _MOST_PARAMS = 1000, 100  # in one request
_LONGEST = 500 - len("...")  # characters of a value: older servers accept 500
_EXPERIMENT = "bert_mgpu"  # unless MLflow's own variable names another
# Values of MLflow's own variables, unless the user has set them.
_SETTINGS = {
    "MLFLOW_DISABLE_TELEMETRY": "true",  # nothing is sent to anyone but the store
    "MLFLOW_ALLOW_FILE_STORE": "true",  # the user asked for a folder
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",  # seconds
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",  # the next reading tries again
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
}
_FINISHED, _FAILED, _KILLED = "FINISHED", "FAILED", "KILLED"  # MLflow's names


@contextlib.contextmanager
def following(run: Run) -> Iterator[None]:
    """Logs the training that runs in this context, from the first process.

    Raises UserError if MLflow cannot use the URI of --mlflow.
    """
    config = run.config
    if not (config.mlflow and config.do_train) or run.topology.group.rank > 0:
        yield
        return
    log = MlflowLog(config.mlflow, config, run.output_dir)
    ended = threading.Event()

    def follow() -> None:
        pause = _SECONDS
        while not ended.wait(pause):
            began = time.thread_time()
            log.update()
            # Long files are read less often: reading takes at most 2 % of a core.
            pause = max(_SECONDS, 50 * (time.thread_time() - began))

    thread = threading.Thread(target=follow, daemon=True)
    thread.start()
    status = _FAILED
    try:
        yield
        status = _FINISHED
    except (Interrupted, Preempted, KeyboardInterrupt):
        status = _KILLED
        raise
    finally:
        ended.set()
        thread.join()
        log.end(status)


class MlflowLog:
    """The run in MLflow that belongs to the run of an output_dir.

    It is created, or continued, when there is something to log: a command that is
    refused leaves no trace.
    """

    def __init__(self, uri: str, config: RunConfig, output_dir: pathlib.Path):
        self._uri, self._config, self._output_dir = uri, config, output_dir
        self._client = _client(uri)
        self._before = _curves(output_dir)[-1:]  # of earlier commands
        self._run_id: str | None = None  # None until it is begun
        self._has_warned = False

    def update(self) -> None:
        """Logs the new records of the files."""
        with self._warn_on_failure(), mlflow_state.LOCK:
            self._log_own_curves()

    def end(self, status: str) -> None:
        """Logs the last records, a finished run's results and files, its status."""
        with self._warn_on_failure():
            if status != _FINISHED:
                self._log_own_curves()
            else:
                run_id = self._ensure_run()
                self._log(_curves(self._output_dir))
                self._log(_results(self._output_dir))
                report = getattr(self._config, "report", False)  # pretraining has none
                for path in _artifacts(self._output_dir, report=report):
                    self._client.log_artifact(run_id, str(path))
                say(f"logged in MLflow: {self._uri}, run {run_id}")
            if self._run_id:
                self._client.set_terminated(self._run_id, status)

    def _log_own_curves(self) -> None:
        """Logs the records of the files if this command has added any."""
        curves = _curves(self._output_dir)
        if self._run_id or curves[-1:] != self._before:
            self._log(curves)

    @contextlib.contextmanager
    def _warn_on_failure(self) -> Iterator[None]:
        """Keeps any failure inside from ending the training; warns of the first one."""
        try:
            yield
        except (Interrupted, Preempted):  # signals, which can arrive here too
            raise
        except Exception as error:
            if not self._has_warned:
                say(
                    f"WARNING: MLflow at {self._uri}: {_cause(error)}: training does"
                    " not need it; what is missing there is logged once it answers,"
                    " or when you run the same command again",
                    "yellow",
                )
            self._has_warned = True
            self._run_id = None  # it may have been deleted

    def _log(self, records: list[dict[str, Any]]) -> None:
        """Logs the records that come after those already logged."""
        from mlflow.entities import Metric

        logged = mlflow_state.read(self._output_dir, self._uri)["logged"]
        if all(row["step"] <= logged.get(row["set"], -1) for row in records):
            return
        run_id = self._ensure_run()  # if this is a new run, nothing is logged yet
        logged = mlflow_state.read(self._output_dir, self._uri)["logged"]
        metrics: list[Metric] = []
        when = time.time()
        for record in records:
            name, step = record["set"], record["step"]
            # An evaluation has no time: it gets that of the training record before it.
            when = record.get("time", when)
            if step <= logged.get(name, -1):
                continue
            values = {
                f"{name}/{key}": value
                for key, value in record.items()
                if key not in ("set", "step", "time") and value is not None
            }
            if len(metrics) + len(values) > _MOST_METRICS:
                self._send(run_id, metrics, logged)
                metrics = []
            stamp = int(1000 * when)  # in ms
            metrics += [Metric(key, v, stamp, step) for key, v in values.items()]
            logged[name] = step
        if metrics:
            self._send(run_id, metrics, logged)

    def _send(self, run_id: str, metrics: list[Any], logged: dict[str, int]) -> None:
        """Logs metrics; logged: the last step of each set after that."""
        self._client.log_batch(run_id, metrics)
        mlflow_state.write(self._output_dir, self._uri, run_id, logged=logged)

    def _ensure_run(self) -> str:
        """The id of the run, with its settings logged; a new run if the old is gone."""
        client, state = self._client, mlflow_state.read(self._output_dir, self._uri)
        run_id = state["run_id"]
        if run_id and run_id == self._run_id:
            return run_id
        if run_id and mlflow_state.is_there(client, run_id):
            client.update_run(run_id, status="RUNNING")
        else:
            title = os.environ.get("MLFLOW_EXPERIMENT_NAME", _EXPERIMENT)
            found = client.get_experiment_by_name(title)
            experiment = (
                found.experiment_id if found else client.create_experiment(title)
            )
            name = str(self._output_dir)
            run_id = client.create_run(experiment, run_name=name).info.run_id
            mlflow_state.write(self._output_dir, self._uri, run_id, logged={})
        self._describe(run_id)
        self._run_id = run_id
        return run_id

    def _describe(self, run_id: str) -> None:
        """Logs flags as params, and other facts of run.json as tags."""
        from mlflow.entities import Param, RunTag

        facts = files.read_json(self._output_dir / run_files.RUN)
        # MLflow does not allow a param to change: those of the first command stay.
        known = self._client.get_run(run_id).data.params
        params = [
            Param(name, value)
            for name, value in _params(self._config, facts["flags"]).items()
            if name not in known
        ]
        tags = [RunTag(*pair) for pair in _tags(facts, self._output_dir).items()]
        self._client.log_batch(run_id, tags=tags)
        for start in range(0, len(params), _MOST_PARAMS):
            part = params[start : start + _MOST_PARAMS]
            self._client.log_batch(run_id, params=part)


def _client(uri: str) -> Any:
    """MLflow's client. Raises UserError if MLflow does not accept the URI."""
    for name, value in _SETTINGS.items():
        os.environ.setdefault(name, value)
    from mlflow import MlflowClient  # takes seconds to import

    logging.getLogger("mlflow").setLevel(logging.ERROR)
    try:
        return MlflowClient(tracking_uri=uri)
    except Exception as error:  # of MLflow, a disk or a database
        raise UserError(
            f"--mlflow={uri}: {_cause(error)}: pass a folder, or the address of a"
            " server, such as http://localhost:5000"
        ) from None


def _cause(error: BaseException) -> str:
    """An error in one short line; if OSErrors led to it, the innermost of them."""
    told, inner = error, error.__context__
    while inner:
        told = inner if isinstance(inner, OSError) else told
        inner = inner.__context__
    return shortened(f"{type(told).__name__}: {' '.join(str(told).split())}", 200)


def _params(config: RunConfig, flags: dict[str, Any]) -> dict[str, str]:
    """The flags of run.json that were given or differ from their defaults."""
    defaults = {field.name: field.default for field in fields(type(config))}
    chosen = {
        name: value
        for name, value in flags.items()
        if name in config.given or value != defaults.get(name)
    }
    return {
        name: shortened(
            str(value).lower() if isinstance(value, bool) else value, _LONGEST
        )
        for name, value in chosen.items()
        if value is not None
    }


def _tags(facts: dict[str, Any], output_dir: pathlib.Path) -> dict[str, str]:
    """The versions, host, devices, task and folder of a run; facts: from run.json."""
    training = facts["training"]
    tags = facts["versions"] | {
        "host": training["host"],
        "devices": ", ".join(training["devices"]),
        "task": facts["identity"]["task_name"],
        "output_dir": output_dir.absolute(),
    }
    return {name: shortened(value, _LONGEST) for name, value in tags.items()}


def _curves(output_dir: pathlib.Path) -> list[dict[str, Any]]:
    """The records of the training and of the evaluations during it, sorted by step."""
    training = recorder.read_records(output_dir / run_files.METRICS)
    records = [{"set": "train", **record} for record in training]
    records += history.read(output_dir)
    return sorted(records, key=lambda record: record["step"])


def _results(output_dir: pathlib.Path) -> list[dict[str, Any]]:
    """The scores of each eval_results*.txt, as records; the set is the file's name."""
    records = []
    for path in _evaluations(output_dir):
        scores = result_files.read_evaluation(path)
        step = int(scores.pop("global_step"))
        records.append({"set": path.stem, "step": step, **scores})
    return records


def _artifacts(output_dir: pathlib.Path, *, report: bool) -> list[pathlib.Path]:
    """The files that are stored with the run in MLflow: its settings and its scores.

    report: whether the report, which has texts of the data, is one of them; it may be
    there from an earlier command.
    """
    names = [run_files.RUN, *[run_files.REPORT_PAGE] * report]
    paths = [output_dir / name for name in names]
    return [path for path in paths if path.is_file()] + _evaluations(output_dir)


def _evaluations(output_dir: pathlib.Path) -> list[pathlib.Path]:
    """The files of scores, one for each evaluated set."""
    stem = pathlib.Path(result_files.evaluation_file()).stem
    return sorted(output_dir.glob(f"{stem}*.txt"))
