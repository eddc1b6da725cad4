"""What a plugin traces of itself is a child of its hook's span if the attempt is sampled; else nothing is called."""

from __future__ import annotations

import asyncio
from typing import ClassVar

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import Tracer, get_current_span

from kframework.config.load import parse
from kframework.core.runtime.registry import Registry
from kframework.framework.cycle_state import CycleState
from kframework.framework.plugin import Plugin, hookimpl
from kframework.observe.tracing.spans import SAMPLE_ALL, Tracing
from kframework.simulation.simulation import Simulation
from kframework.state.nodes import NodeInfo
from kframework.state.pods import PendingPod
from kframework.testing import make_node, make_pod
from kframework.values.status import Status
from tests.extension_points.scripted import alone


class Traced(Plugin):
    """Begins a span in every hook, in the asynchronous ones around a wait."""

    name = "Traced"
    tracer: ClassVar[Tracer]

    def _span(self, hook: str) -> None:
        with self.tracer.start_as_current_span(f"in {hook}"):
            pass

    async def _waiting(self, hook: str) -> None:
        await asyncio.sleep(1)
        self._span(hook)

    @hookimpl
    def filter(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> Status | None:
        self._span("filter")
        return None

    @hookimpl
    def score(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> int:
        self._span("score")
        return 1

    @hookimpl
    def permit(self, state: CycleState, pod: PendingPod, node_name: str) -> Status | None:
        self._span("permit")
        return None

    @hookimpl
    async def pre_bind(self, state: CycleState, pod: PendingPod, node_name: str) -> Status | None:
        await self._waiting("pre_bind")
        return None

    @hookimpl
    async def post_bind(self, state: CycleState, pod: PendingPod, node_name: str) -> None:
        await self._waiting("post_bind")


def traced(monkeypatch: pytest.MonkeyPatch, rate: int, pods: int = 3) -> tuple[InMemorySpanExporter, Tracing]:
    """Simulate with the plugin, its spans and ours exported to one place."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(Traced, "tracer", provider.get_tracer("plugin"), raising=False)
    tracing = Tracing(SimpleSpanProcessor(exporter), rate_per_million=rate, seed=0)
    Simulation(
        [make_node("a"), make_node("b"), *(make_pod(f"pod-{number}") for number in range(pods))],
        parse(alone(Traced)),
        registry=Registry.with_plugins(Traced),
        observers=[tracing],
        timed_share=1.0,
    ).run()
    assert not get_current_span().get_span_context().is_valid
    return exporter, tracing


@pytest.mark.parametrize(
    ("hook", "cycle"),
    [
        ("filter", "scheduling_cycle"),
        ("score", "scheduling_cycle"),
        ("permit", "scheduling_cycle"),
        ("pre_bind", "binding_cycle"),
        ("post_bind", "binding_cycle"),
    ],
)
def test_span_of_a_hook_is_current_inside_it(monkeypatch: pytest.MonkeyPatch, hook: str, cycle: str) -> None:
    exporter, _ = traced(monkeypatch, SAMPLE_ALL)
    spans = {span.context.span_id: span for span in exporter.get_finished_spans() if span.context is not None}
    inner = [span for span in spans.values() if span.name == f"in {hook}"]
    assert len({span.context.trace_id for span in inner if span.context is not None}) == 3
    for span in inner:
        lineage = [span.name]
        while span.parent is not None:
            parent = spans[span.parent.span_id]
            assert span.context is not None and parent.context is not None
            assert span.context.trace_id == parent.context.trace_id
            span = parent
            lineage.append(span.name)
        assert lineage == [f"in {hook}", hook, cycle, "scheduling_attempt"]


def test_unsampled_attempt_has_no_hook_context(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[object] = []
    monkeypatch.setattr("kframework.observe.tracing.spans.use_span", lambda *arguments, **_: calls.append(arguments))
    exporter, tracing = traced(monkeypatch, 1)
    assert calls == []
    assert tracing.hook_context(1, 0.5) is None
    assert all(span.parent is None for span in exporter.get_finished_spans())
