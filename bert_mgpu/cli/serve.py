"""Answers requests with a trained model: bert_mgpu serve FOLDER FLAGS

  bert_mgpu serve out_reviews
  curl -d '{"instances": ["a fine film"]}' \\
    http://127.0.0.1:8501/v1/models/reviews:predict

Open the address in a browser for a page to try it. On SIGTERM or Ctrl-C it
answers the requests it has accepted and stops; a second signal stops it at
once. Needs the extra serve: pip install -c constraints.txt -e '.[serve]' in the
clone. Exit codes: 0 stopped while serving; 2 wrong flags, no model, or no such
address; 4 out of memory; 75 and 130 stopped by SIGTERM or Ctrl-C before it was
serving.
"""

from __future__ import annotations

import logging
import os
import pathlib
import re
import signal
import socket
from collections.abc import Sequence
from typing import Any

import bert_mgpu
from bert_mgpu.cli import script
from bert_mgpu.cli.flag_checks import check_needed, check_trained
from bert_mgpu.config.finetuning import CHOICES
from bert_mgpu.config.serve import ServeConfig
from bert_mgpu.core import extras, log, run_files
from bert_mgpu.core.errors import UserError, short_repr
from bert_mgpu.core.log import say

_NAME = re.compile(r"[\w.-]+")
_HOST = "127.0.0.1"
_FLAGS = (  # that `bert_mgpu.load` takes
    *("use_best", "threshold", "predict_batch_size"),
    *("n_gpus", "device", "precision"),
    *CHOICES,
)


def main(argv: Sequence[str]) -> int:
    """Runs the command; returns the exit code."""
    flags = [*argv]
    if flags and not flags[0].startswith("-"):
        flags[0] = f"--output_dir={flags[0]}"
    with script.redirect_native_stderr(pathlib.Path(os.devnull)):
        return script.run(
            ["", *flags],
            str(__doc__),
            ServeConfig,
            work=_serve,
            output=lambda config: (pathlib.Path(str(config.output_dir)), "output_dir"),
            memory_hint="pass a lower --predict_batch_size, or --device=cpu",
            stopped="it was not serving yet",
        )


def _serve(config: ServeConfig) -> None:
    check_needed(config, ["output_dir"], "bert_mgpu serve FOLDER")
    check_trained(str(config.output_dir))
    if config.model_name:
        _check_name(config.model_name)
    named = _names(config.allowed_hosts)
    try:
        from bert_mgpu.serving.app import make_app
        from bert_mgpu.serving.bodies import Limits
        from bert_mgpu.serving.guard import LOOPBACK
        from bert_mgpu.serving.server import make_server
    except ImportError as error:
        raise UserError(f"serve needs {error.name}: {extras.advice('serve')}") from None
    host = config.host or _HOST  # None for an empty value
    listener = _listen(host, config.port)
    with listener:
        say(f"loading {config.output_dir}: takes from ten seconds to a minute")
        _configure_devices(config)
        model = LoadedModel(config)
        limits = Limits(
            body=config.max_body_bytes,
            rows=config.max_rows,
            characters=config.max_characters,
            waiting=max(config.max_waiting_rows, config.max_rows),
            seconds=config.timeout,
        )
        server = make_server(
            make_app(model, limits, {host, *LOOPBACK, *named}), config.timeout
        )
        _end_on_signals(server)
        address = _address(host, listener)
        say(f"serving {model.name} at {address} (Ctrl-C ends it)")
        say(f"  POST {address}/v1/models/{model.name}:predict")
        say(f"  POST {address}/v1/embeddings, for vectors")
        for remark in model.remarks:
            say(f"  {remark}")
        if host not in LOOPBACK and not named:
            say(
                f"WARNING: requests under a host name other than {host} are refused:"
                " pass --allowed_hosts"
            )
        server.run(sockets=[listener])
        if server.force_exit:
            say("stopped at once by a second signal: some requests may be unanswered")
        else:
            say("stopped: every accepted request has been answered")


def _check_name(name: str) -> None:
    """Raises UserError unless an address can have the name of a model."""
    if not _NAME.fullmatch(name):
        raise UserError(f"--model_name={name}: pass letters, digits, _, . and - alone")


def _configure_devices(config: ServeConfig) -> None:
    """Configures the devices: no more GPUs than the one model uses."""
    from bert_mgpu.distributed import devices

    tf32 = config.precision == "tf32"
    devices.configure(config.device, 1, config.n_gpus, tf32=tf32)


def _end_on_signals(server: Any) -> None:
    """Makes SIGTERM and Ctrl-C end the server at any time; a second one at once."""

    def on_signal(number: int, frame: Any) -> None:
        if server.should_exit:
            logging.getLogger("uvicorn.error").disabled = True  # about cut-off requests
            server.force_exit = True
        server.should_exit = True

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, on_signal)


def _names(allowed_hosts: str | None) -> list[str]:
    """The names in --allowed_hosts. Raises UserError for an invalid one."""
    names = [name.strip() for name in (allowed_hosts or "").split(",")]
    names = [name for name in names if name]
    for name in names:
        if not _NAME.fullmatch(name) and not name.count(":") > 1:  # IPv6
            raise UserError(
                f"--allowed_hosts: {short_repr(name)}: pass a host's name or address,"
                " without a scheme, a port or a path"
            )
    return names


def _listen(host: str, port: int) -> socket.socket:
    """A listening socket. Raises UserError if the address is not available."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family, backlog=1024)
    except (OSError, UnicodeError) as error:
        why = getattr(error, "strerror", None) or error
        raise UserError(
            f"--host={host} --port={port}: cannot listen there: {why}: pass another"
            " --port, or --host"
        ) from None


def _address(host: str, listener: socket.socket) -> str:
    name = f"[{host}]" if ":" in host else host
    return f"http://{name}:{listener.getsockname()[1]}"


class LoadedModel:
    """A loaded model, for the application: implements `serving.bodies.ServedModel`."""

    def __init__(self, config: ServeConfig):
        folder = pathlib.Path(str(config.output_dir)).absolute()
        self._model = bert_mgpu.load(
            folder, **{name: getattr(config, name) for name in _FLAGS}
        )
        self._device, self._precision = config.device, config.precision
        self.name = config.model_name or self._model.task_name
        _check_name(self.name)
        self.inputs = ("text_a", "text_b")[: 1 + self._model.takes_pairs]
        self.titles = self._model.predictor.data.family.titles[: len(self.inputs)]
        self.batch = self._model.predictor.batch
        self.poolings = self._model.predictor.vectors.poolings
        self.width = self._model.predictor.vectors.width
        if folder.name == run_files.BEST:  # inside the folder of its run
            folder = folder.parent
        page = folder / run_files.REPORT_PAGE
        self.report = page if config.report and page.is_file() else None

    @property
    def remarks(self) -> list[str]:
        """Lines on the model's devices, with warnings of what users may not expect."""
        from bert_mgpu.distributed import devices

        towers = self._model.predictor.towers
        placed = devices.assign_towers(towers.n_towers, len(towers.devices))
        warning = devices.missing_gpus(self._device, has_log=False)
        return [
            devices.describe_placement(placed, towers.devices),
            *([warning] if warning else []),
            *devices.remarks(towers.devices, self._precision),
        ]

    def example(self, *texts: str) -> Any:
        return self._model.predictor.data.example(*texts)

    def answer(self, examples: Sequence[Any]) -> list[dict[str, Any]]:
        with log.quiet():
            return self._model.predictor.answers(examples)

    def encode(
        self, texts: Sequence[str], pooling: str, normalize: bool
    ) -> list[tuple[list[float], int]]:
        pairs = [(text, None) for text in texts]
        with log.quiet():
            found = self._model.predictor.vectors.encode(pairs, pooling, normalize)
        return [*zip(found.vectors.tolist(), found.lengths.tolist(), strict=True)]

    def explain(self, example: Any) -> dict[str, Any]:
        with log.quiet():
            return self._model.predictor.explain(example)
