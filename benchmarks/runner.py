"""Tables of runs that take hours and may be killed at any time.

A table is planned as rows of settings. Each becomes a result, added to a JSON file as
soon as it is done; the same command continues with the rows that are missing.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import pathlib
import queue
import statistics
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent import futures
from typing import Any, NamedTuple

from benchmarks.harness import ROOT

Row = dict[str, Any]


class Table(NamedTuple):
    path: pathlib.Path  # the file of results
    planned: Sequence[Row]
    measured: Sequence[str]  # what a result has besides its row of the plan

    def results(self) -> list[Row]:
        return json.loads(self.path.read_text()) if self.path.exists() else []

    def missing(self) -> list[Row]:
        done = [self._settings(result) for result in self.results()]
        return [row for row in self.planned if row not in done]

    def add(self, result: Row) -> None:
        """Adds a result to the file, in the order of the plan."""
        found = [*self.results(), result]
        found.sort(key=lambda one: self.planned.index(self._settings(one)))
        self.path.write_text(json.dumps(found, indent=1) + "\n")

    def _settings(self, result: Row) -> Row:
        return {k: value for k, value in result.items() if k not in self.measured}


def name_of(row: Row) -> str:
    return "-".join(str(value) for value in row.values()).replace(" ", "_")


def scores(output_dir: pathlib.Path) -> dict[str, float]:
    """The numbers in eval_results.txt, by name."""
    text = (output_dir / "eval_results.txt").read_text()
    pairs = (line.split(" = ") for line in text.splitlines())
    return {name: float(value) for name, value in pairs}


def mean_and_error(values: Sequence[float], digits: int) -> str:
    """The mean and, of several values, its standard error."""
    mean = f"{statistics.mean(values):.{digits}f}"
    if len(values) == 1:
        return mean
    error = statistics.stdev(values) / math.sqrt(len(values))
    return f"{mean} ± {error:.{digits}f}"


def call(script: str | Sequence[str], flags: Mapping[str, Any]) -> None:
    """Runs a script of the repository, and ends with its exit code if that is not 0.

    script: or the arguments of Python instead.
    """
    given = [f"--{name}={value}" for name, value in flags.items()]
    program = [ROOT / script] if isinstance(script, str) else script
    code = subprocess.run([sys.executable, *program, *given], cwd=ROOT).returncode
    if code:  # its own message says why
        sys.exit(code)


def config_with(
    model: pathlib.Path, path: pathlib.Path, **changed: Any
) -> pathlib.Path:
    """Writes the config of a model with other values, once, and returns `path`.

    dropout: of the hidden vectors and of attention.
    """
    if not path.exists():
        names = ("bert_config.json", "config.json")  # Google's, Hugging Face's
        own = next(model / name for name in names if (model / name).exists())
        config = json.loads(own.read_text())
        if (dropout := changed.pop("dropout", None)) is not None:
            kinds = ("hidden_dropout_prob", "attention_probs_dropout_prob")
            config |= dict.fromkeys(kinds, dropout)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.with_suffix(".new").write_text(json.dumps(config | changed))
        path.with_suffix(".new").rename(path)
    return path


@contextlib.contextmanager
def picture(path: pathlib.Path, along: str, upwards: str) -> Iterator[Any]:
    """Axes to draw on, with these labels; the picture is written at the end."""
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6.4, 4.0), layout="constrained")
    yield axes
    axes.set_xlabel(along)
    axes.set_ylabel(upwards)
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(path, dpi=120)


def run(table: Table, work: Callable[[Row], Row], limit: int, workers: int) -> None:
    """Makes up to `limit` missing results, `workers` at a time, each on its own cores.

    work: a row of the plan -> its result.
    """
    cores = sorted(os.sched_getaffinity(0))
    rows: queue.SimpleQueue[Row] = queue.SimpleQueue()
    for row in table.missing()[:limit]:
        rows.put(row)
    lock = threading.Lock()

    def worker(number: int) -> None:
        # Applies to this thread and the processes that it starts.
        os.sched_setaffinity(0, cores[number::workers])
        while True:
            try:
                row = rows.get_nowait()
            except queue.Empty:
                return
            result = work(row)
            with lock:
                table.add(result)

    with futures.ThreadPoolExecutor(workers) as pool:
        for done in [pool.submit(worker, number) for number in range(workers)]:
            done.result()


def main(
    usage: str | None,
    table: Table,
    work: Callable[[Row], Row],
    show: Callable[[], None],
    prepare: Callable[[], None] = lambda: None,
) -> None:
    """The command line of a table: `run` makes what is missing, `show` shows it."""
    parser = argparse.ArgumentParser(
        description=usage, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("run", "show"))
    parser.add_argument("--limit", type=int, default=1000, help="rows at most")
    parser.add_argument("--workers", type=int, default=1, help="rows at a time")
    arguments = parser.parse_args()
    if arguments.what == "run":
        prepare()
        run(table, work, arguments.limit, arguments.workers)
    else:
        show()
