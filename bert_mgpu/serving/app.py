"""The HTTP application of a loaded model: TensorFlow Serving's REST API, and a page.

GET /v1/models/NAME returns its state; POST /v1/models/NAME:predict takes
{"instances": [...]} and returns {"predictions": [...]}, as TensorFlow Serving does for
the exported SavedModel (tensorflow.org/tfx/serving/api_rest, the row format).
POST /v1/embeddings returns vectors: see embeddings.py.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.resources
import time
from collections.abc import AsyncIterator, Collection, Iterator, Mapping, Sequence
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from bert_mgpu.core import log
from bert_mgpu.core.errors import Diverged, OutOfMemory, short_repr
from bert_mgpu.serving import bodies, embeddings
from bert_mgpu.serving.batcher import Batcher, QueueFull
from bert_mgpu.serving.bodies import Limits, RequestRow, ServedModel
from bert_mgpu.serving.exchange import Deadline, answer_of, read_body
from bert_mgpu.serving.guard import HEALTH, Guard
from bert_mgpu.serving.metrics import CONTENT_TYPE, Metrics

_MODELS, _VERSION = "/v1/models/", "1"
_RETRY_AFTER = "1"  # seconds
_STATIC = {
    "/": ("index.html", "text/html"),
    "/page.css": ("page.css", "text/css"),
    "/page.js": ("page.js", "text/javascript"),
}
# report.html has its style and pictures inline, and no scripts.
_REPORT_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:;"
    " frame-ancestors 'self'"
)


def make_app(model: ServedModel, limits: Limits, hosts: Collection[str]) -> Starlette:
    """Returns the application; hosts: names by which clients may call it."""
    server = _Server(model, limits)
    prefix = f"{_MODELS}{model.name}"
    version = f"{prefix}/versions/{_VERSION}"

    routes = [Route(path, server.static, methods=["GET"]) for path in _STATIC]
    routes += [
        Route("/favicon.ico", server.nothing, methods=["GET"]),
        Route("/page.json", server.page, methods=["GET"]),
        Route("/explain", server.explain, methods=["POST"]),
        Route("/report", server.report, methods=["GET"]),
        Route("/v1/embeddings", server.embeddings, methods=["POST"]),
        Route(HEALTH, server.healthy, methods=["GET"]),
        Route("/metrics", server.metrics_text, methods=["GET"]),
    ]
    for path in (prefix, version):
        routes += [
            Route(path, server.state, methods=["GET"]),
            Route(f"{path}/metadata", server.metadata, methods=["GET"]),
            Route(f"{path}:predict", server.predict, methods=["POST"]),
        ]

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        yield
        server.batcher.close()

    app = Starlette(
        routes=routes,
        middleware=[Middleware(Guard, hosts=hosts)],
        exception_handlers={HTTPException: _refused, Exception: _failed},
        lifespan=lifespan,
    )
    app.router.redirect_slashes = False
    app.state.name = model.name
    return app


def _answered(model: ServedModel, examples: Sequence[Any]) -> Sequence[Any]:
    return model.answer(examples)


def _explained(model: ServedModel, examples: Sequence[Any]) -> Sequence[Any]:
    return [model.explain(example) for example in examples]


class _Server:
    """The endpoints of a model."""

    def __init__(self, model: ServedModel, limits: Limits):
        self._model, self._limits = model, limits
        self.batcher = Batcher(self._answer, model.batch, limits.waiting)
        self._metrics = Metrics(lambda: self.batcher.waiting)

    def _answer(self, rows: Sequence[RequestRow]) -> list[Any]:
        """Answers rows; those whose `ask` is equal are answered together."""
        self._metrics.rows.observe(len(rows))
        answers: dict[int, Any] = {}
        for ask in dict.fromkeys(row.ask for row in rows):
            own = {n: row.example for n, row in enumerate(rows) if row.ask == ask}
            found = ask(self._model, [*own.values()])
            answers |= zip(own, found, strict=True)
        return [answers[number] for number in range(len(rows))]

    @contextlib.contextmanager
    def _counted(self) -> Iterator[None]:
        """Counts a request, its status and its time."""
        began, status = time.perf_counter(), 500
        try:
            yield
            status = 200
        except HTTPException as error:
            status = error.status_code
            raise
        finally:
            self._metrics.requests.labels(str(status)).inc()
            self._metrics.seconds.observe(time.perf_counter() - began)

    # -- TensorFlow Serving's API --------------------------------------------

    async def state(self, request: Request) -> Response:
        status = {"error_code": "OK", "error_message": ""}
        state = {"version": _VERSION, "state": "AVAILABLE", "status": status}
        return JSONResponse({"model_version_status": [state]})

    async def metadata(self, request: Request) -> Response:
        spec = {"name": self._model.name, "signature_name": "", "version": _VERSION}
        inputs = {name: {"dtype": "DT_STRING"} for name in self._model.inputs}
        signature = {"serving_default": {"inputs": inputs}}
        return JSONResponse(
            {
                "model_spec": spec,
                "metadata": {"signature_def": {"signature_def": signature}},
            }
        )

    async def predict(self, request: Request) -> Response:
        deadline = Deadline(self._limits.seconds)
        with self._counted():
            body = await self._json(request, deadline)
            rows = [RequestRow(example, _answered) for example in self._instances(body)]
            answers = await self._answers(rows, request, deadline)
            plain = [next(iter(a.values())) if len(a) == 1 else a for a in answers]
            return JSONResponse({"predictions": plain})

    async def embeddings(self, request: Request) -> Response:
        deadline = Deadline(self._limits.seconds)
        with self._counted():
            body = await self._json(request, deadline)
            texts, ask = embeddings.asked(body, self._model, self._limits)
            rows = [RequestRow(text, ask) for text in texts]
            answers = await self._answers(rows, request, deadline)
            # Formatting many numbers takes long: other requests are answered meanwhile.
            return await asyncio.to_thread(
                lambda: JSONResponse(embeddings.answer(body, self._model.name, answers))
            )

    async def _json(self, request: Request, deadline: Deadline) -> dict[str, Any]:
        raw = await read_body(request, self._limits.body, deadline)
        return bodies.read_object(raw)

    def _instances(self, body: Mapping[str, Any]) -> list[Any]:
        if body.get("signature_name", "serving_default") != "serving_default":
            raise HTTPException(400, "signature_name: only serving_default is served")
        instances = body.get("instances")
        if not isinstance(instances, list) or not instances:
            raise HTTPException(400, 'pass {"instances": [...]}, a list of rows')
        bodies.check_rows(len(instances), self._limits)
        return [self._example(row, index) for index, row in enumerate(instances)]

    def _example(self, instance: Any, index: int) -> Any:
        names = self._model.inputs
        if isinstance(instance, str) and len(names) == 1:
            instance = {names[0]: instance}
        fields = instance if isinstance(instance, dict) else {}
        texts = [text for name in names if isinstance(text := fields.get(name), str)]
        if not len(texts) == len(names) == len(fields):
            form = "{" + ", ".join(f'"{name}": "..."' for name in names) + "}"
            form = f"a text, or {form}" if len(names) == 1 else form
            raise HTTPException(
                400, f"instances[{index}]: {short_repr(instance)}: pass {form}"
            )
        bodies.check_texts(f"instances[{index}]", texts, self._limits)
        return self._model.example(*texts)

    async def _answers(
        self, rows: Sequence[RequestRow], request: Request, deadline: Deadline
    ) -> list[Any]:
        try:
            future = self.batcher.submit(rows)
        except QueueFull:
            raise HTTPException(
                429, "too many rows are waiting", {"Retry-After": _RETRY_AFTER}
            ) from None
        try:
            return await answer_of(future, request, deadline)
        except OutOfMemory as error:
            log.say(f"out of memory: {error}")
            raise HTTPException(503, "the model is out of memory") from None
        except Diverged as error:
            log.say(f"diverged: {error}")
            raise HTTPException(
                500, "the outputs of a row are not finite numbers"
            ) from None

    # -- the page ------------------------------------------------------------

    async def static(self, request: Request) -> Response:
        name, media_type = _STATIC[request.url.path]
        folder = importlib.resources.files("bert_mgpu.serving") / "page"
        return Response((folder / name).read_bytes(), media_type=media_type)

    async def nothing(self, request: Request) -> Response:
        return Response(status_code=204)

    async def page(self, request: Request) -> Response:
        report = self._model.report
        return JSONResponse(
            {
                "name": self._model.name,
                "inputs": self._model.inputs,
                "titles": self._model.titles,
                "report": bool(report and report.is_file()),
            }
        )

    async def explain(self, request: Request) -> Response:
        deadline = Deadline(self._limits.seconds)
        with self._counted():
            example = self._example(await self._json(request, deadline), 0)
            rows = [RequestRow(example, _explained)]
            (answer,) = await self._answers(rows, request, deadline)
            return JSONResponse(answer)

    async def report(self, request: Request) -> Response:
        report = self._model.report
        if not (report and report.is_file()):
            raise HTTPException(404, "this model has no report")
        headers = {"content-security-policy": _REPORT_POLICY}
        return Response(report.read_bytes(), media_type="text/html", headers=headers)

    # -- for operators -------------------------------------------------------

    async def healthy(self, request: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def metrics_text(self, request: Request) -> Response:
        return Response(self._metrics.text(), media_type=CONTENT_TYPE)


async def _refused(request: Request, error: Exception) -> Response:
    """The response to a refused request, as TensorFlow Serving's: {"error": "..."}."""
    assert isinstance(error, HTTPException)
    detail = error.detail
    if error.status_code == 404 and request.url.path.startswith(_MODELS):
        detail = f"no such model or path: {_MODELS}{request.app.state.name} is served"
    return JSONResponse({"error": detail}, error.status_code, headers=error.headers)


async def _failed(request: Request, error: Exception) -> Response:
    return JSONResponse({"error": "server error: see the server's log"}, 500)
