"""Metrics for Prometheus: the controller's, and the server's own.

Names carry base units (seconds, bytes), as its guidelines ask. The labels of requests are route
templates, never paths, so that clients cannot make the number of series grow.
"""

import asyncio
from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.types import Scope

from treadle.control.api import LiveService
from treadle.core.ports import Clock

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
LAG_EVERY_S = 1.0
METHODS = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"})
# What sits on a stream is not a slow request.
STREAMS = "/stream"


class ServerMetrics:
    """One registry for each app, so that two in one process do not share figures."""

    def __init__(self, service: LiveService) -> None:
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(_Figures(service))
        self._requests = Histogram(
            "treadle_http_request_duration_seconds",
            "Time from a request's head to the end of its answer, streams left out.",
            ("method", "route", "status"),
            buckets=BUCKETS_S,
            registry=self._registry,
        )
        self._lag = Gauge(
            "treadle_event_loop_lag_seconds",
            "How late the event loop woke the last time it was asked to.",
            registry=self._registry,
        )
        self.streams = Gauge(
            "treadle_http_streams", "Streams of events and logs open.", registry=self._registry
        )

    def request(self, scope: Scope, status: int, took_s: float) -> None:
        route = getattr(scope.get("route"), "path", "(none)")
        if route.endswith(STREAMS):
            return
        method = scope["method"] if scope["method"] in METHODS else "(other)"
        self._requests.labels(method, route, str(status)).observe(took_s)

    def text(self) -> bytes:
        return generate_latest(self._registry)

    async def watch_lag(self, clock: Clock) -> None:
        """Measure the event loop until cancelled."""
        while True:
            due_at = clock.now() + LAG_EVERY_S
            await clock.sleep_until(due_at)
            self._lag.set(max(0.0, clock.now() - due_at))
            await asyncio.sleep(0)


class _Figures(Collector):
    """The controller's figures, taken at the moment they are asked for."""

    def __init__(self, service: LiveService) -> None:
        self._service = service

    def collect(self) -> Iterable[Metric]:
        families: dict[str, Metric] = {}
        for name, labels, value in self._service.figures():
            family = families.get(name)
            if family is None:
                kind = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
                family = kind(name, "See docs/operations.md.", labels=tuple(labels))
                families[name] = family
            # Labels of one name are the same everywhere; the order may differ.
            assert isinstance(family, CounterMetricFamily | GaugeMetricFamily)
            family.add_metric([labels[label] for label in family._labelnames], value)
        return families.values()
