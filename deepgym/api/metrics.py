"""What the service counts, in Prometheus' text format."""

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from deepgym.integrations.grader import Graded
from deepgym.integrations.slots import Slots

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 150)


class Metrics:
    """The counters of one service, in a registry of their own."""

    def __init__(self, slots: Slots) -> None:
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        self._requests = Counter(
            "deepgym_http_requests", "Requests answered", ["path", "status"], registry=self._registry
        )
        self._samples = Counter(
            "deepgym_samples",
            "Samples graded: judged, masked (no verdict), or late (still running at the deadline, scored 0)",
            ["environment", "outcome", "error_type"],
            registry=self._registry,
        )
        self._score = Counter("deepgym_score", "Sum of the judged scores", ["environment"], registry=self._registry)
        self._wall = self._histogram("deepgym_run_wall_seconds", "Wall time of judged runs")
        self._cpu = self._histogram("deepgym_run_cpu_seconds", "CPU time of judged runs")
        self._gauge("deepgym_slots", "Runs that may go on at once", lambda: slots.count)
        self._gauge("deepgym_slots_in_use", "Runs going on", lambda: slots.in_use)
        self._gauge("deepgym_slots_waiting", "Runs waiting for a slot", lambda: slots.waiting)

    def observer(self, environment: str) -> Callable[[Graded], None]:
        """What a router of that environment calls with each graded sample."""

        def observe(graded: Graded) -> None:
            outcome = "masked" if graded.masked else "late" if graded.result is None else "judged"
            self._samples.labels(environment, outcome, str(graded.error_type or "none")).inc()
            if graded.result is not None:
                self._score.labels(environment).inc(graded.result.score)
                self._wall.labels(environment).observe(graded.result.wall_ms / 1000)
                self._cpu.labels(environment).observe(graded.result.cpu_ms / 1000)

        return observe

    def count_request(self, path: str, status: int) -> None:
        self._requests.labels(path, str(status)).inc()

    def text(self) -> bytes:
        return generate_latest(self._registry)

    def _histogram(self, name: str, text: str) -> Histogram:
        return Histogram(name, text, ["environment"], buckets=_SECONDS, registry=self._registry)

    def _gauge(self, name: str, text: str, read: Callable[[], float]) -> None:
        Gauge(name, text, registry=self._registry).set_function(read)


class CountRequests:
    """ASGI middleware: counts answers by route, so that paths nobody serves share one label."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def counting_send(message: Message) -> None:
            if message["type"] == "http.response.start":
                route = scope.get("route")
                self._metrics.count_request(route.path if route else "none", message["status"])
            await send(message)

        await self._app(scope, receive, counting_send)
