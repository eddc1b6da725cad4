"""The cost of metrics: per pod, per event and request of that pod, and per scrape.

Run with `python -m benchmarks.metrics`. The records are those of a real run in which plugins were timed as usual.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from time import process_time

from benchmarks.cycle import _node, make_engine
from benchmarks.timing import microseconds, show
from kframework.client.transport import Request, Response
from kframework.core.cycle.records import Binding, Decision
from kframework.observe.metrics.attempts import TIMED_SHARE, AttemptMetrics
from kframework.observe.metrics.endpoints import _in_slices
from kframework.observe.metrics.engine_metrics import engine_series, pod_resources
from kframework.observe.metrics.metrics import Metrics
from kframework.observe.metrics.requests import MeteredTransport, RequestMetrics
from kframework.observe.metrics.series import Series
from kframework.scheduler.gc_policy import collect
from kframework.simulation.simulation import Simulation
from kframework.testing import make_node, make_pod

NODES, PODS, RESIDENT = 200, 2_000, 50_000


class _Records:
    """Keeps decisions and bindings in the order in which they came."""

    def __init__(self) -> None:
        self.all: list[Decision | Binding] = []

    def on_decision(self, decision: Decision) -> None:
        """Keep a decision."""
        self.all.append(decision)

    def on_binding(self, binding: Binding) -> None:
        """Keep a binding."""
        self.all.append(binding)


def _record_pods() -> list[Decision | Binding]:
    """Schedule pods, and return the observer's calls."""
    records = _Records()
    nodes = [make_node(f"node-{n}", cpu=64, memory="256Gi", pods=100) for n in range(NODES)]
    pods = [make_pod(f"pod-{n}", cpu=1, labels={"app": f"app-{n % 20}"}) for n in range(PODS)]
    Simulation([*nodes, *pods], observers=[records], timed_share=TIMED_SHARE).run()
    return records.all


def _cost_per_pod(records: Sequence[Decision | Binding]) -> float:
    """Return the microseconds of processor time for all records of a pod.

    A hundred pods at a time, again and again: in a scheduler, too, records are looked at when they have just been made.
    """
    spent, attempts = 0.0, AttemptMetrics()
    for start in range(0, len(records), 200):
        calls = [(isinstance(record, Decision), record) for record in records[start : start + 200]]
        # Ten times over, so that sorting what waits into buckets is in each of these figures.
        spent += min(_record_all(attempts, calls * 10) for _ in range(10)) / 10
    return spent / PODS * 1e6


def _record_all(attempts: AttemptMetrics, calls: Iterable[tuple[bool, Decision | Binding]]) -> float:
    decided, bound = attempts.on_decision, attempts.on_binding
    began = process_time()
    for is_decision, record in calls:
        if is_decision:
            decided(record)  # type: ignore[arg-type]  # it is one
        else:
            bound(record)  # type: ignore[arg-type]  # it is one
    return process_time() - began


def _cost_per_event() -> float:
    """Return what is added to taking in the update of a node."""
    plain, _ = make_engine()
    timed, _ = make_engine()
    Metrics().attach(timed)
    node = _node(0)
    return microseconds(lambda: timed.handlers.upsert(node)) - microseconds(lambda: plain.handlers.upsert(node))


class _InstantTransport:
    """A transport that answers at once."""

    async def send(self, request: Request) -> Response:
        """Answer."""
        return Response(200, b"{}")


def _cost_per_request() -> float:
    """Return what is added to a request."""
    plain, request = _InstantTransport(), Request(method="POST", path="/", body=b"{}")
    metered = MeteredTransport(plain, RequestMetrics(), "localhost:6443")  # type: ignore[arg-type]  # it has all that is used

    def send_repeatedly(send: Callable[[Request], object]) -> Callable[[], None]:
        def call() -> None:
            try:
                send(request).send(None)  # type: ignore[attr-defined]  # a coroutine that never waits
            except StopIteration:
                pass

        return call

    return microseconds(send_repeatedly(metered.send)) - microseconds(send_repeatedly(plain.send))


def _scrape_cost(series: Iterable[Series]) -> tuple[float, float, int]:
    """Return the milliseconds of an answer, the longest for which it gives no way, and its bytes."""

    async def answer() -> tuple[float, float, int]:
        longest, size, began = 0.0, 0, process_time()
        last = began
        async for piece in _in_slices(series):
            longest, size = max(longest, process_time() - last), size + len(piece)
            last = process_time()
        return (process_time() - began) * 1e3, longest * 1e3, size

    return min((asyncio.run(answer()) for _ in range(5)), key=lambda answered: answered[1])


def main() -> None:
    """Print what metrics cost."""
    records = _record_pods()
    collect()
    show(
        ("microseconds", "measured", "budget"),
        [
            ("the records of a pod", _cost_per_pod(records), 5.0),
            ("an event", _cost_per_event(), None),
            ("a request", _cost_per_request(), None),
        ],
    )
    attempts = AttemptMetrics()
    for record in records:
        if isinstance(record, Decision):
            attempts.on_decision(record)
        else:
            attempts.on_binding(record)
    engine, _ = make_engine()
    for number in range(RESIDENT):
        engine.handlers.upsert(make_pod(f"pod-{number}", node_name=f"node-{number % 5000}"))
    collect()
    print()
    rows = [
        ("/metrics", *_scrape_cost((*attempts.series, *engine_series(engine)))),
        (f"/metrics/resources of {RESIDENT:,} pods", *_scrape_cost(pod_resources(engine))),
    ]
    show(("milliseconds", "in all", "at a time", "bytes"), rows)


if __name__ == "__main__":
    main()
