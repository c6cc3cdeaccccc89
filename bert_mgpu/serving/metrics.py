"""The metrics of a server, in Prometheus' format."""

from __future__ import annotations

from collections.abc import Callable

import prometheus_client as prometheus

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_ROWS = tuple(2**power for power in range(11))
CONTENT_TYPE = prometheus.CONTENT_TYPE_LATEST


class Metrics:
    """The metrics of one server, in a registry of their own."""

    def __init__(self, waiting: Callable[[], int]):
        self._registry = prometheus.CollectorRegistry()
        prometheus.ProcessCollector(registry=self._registry)
        self.requests = prometheus.Counter(
            "bert_mgpu_requests",
            "requests that were answered, by status",
            ["status"],
            registry=self._registry,
        )
        self.seconds = prometheus.Histogram(
            "bert_mgpu_request_seconds",
            "time from the request to its answer",
            buckets=_SECONDS,
            registry=self._registry,
        )
        self.rows = prometheus.Histogram(
            "bert_mgpu_batch_rows",
            "rows of a batch",
            buckets=_ROWS,
            registry=self._registry,
        )
        gauge = prometheus.Gauge(
            "bert_mgpu_waiting_rows", "rows in no batch yet", registry=self._registry
        )
        gauge.set_function(waiting)

    def text(self) -> bytes:
        return prometheus.generate_latest(self._registry)
