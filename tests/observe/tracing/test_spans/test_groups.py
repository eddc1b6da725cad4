"""A group's attempt is one trace: its cycle with the placements, and the attempts and bindings of its pods."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from opentelemetry.sdk.trace import ReadableSpan

from kframework import Simulation
from kframework.observe.journal import Journal
from kframework.observe.tracing.spans import Tracing
from kframework.testing import make_node
from kframework.testing.spans import Spans
from kframework.verbosity import V2
from tests.support.groups import GROUPS, PLACEMENTS, gang, in_one, members, nodes


def traced(*, cpu: str = "1", racks: str = "ab") -> Spans:
    """Trace a group of two pods on nodes in these racks."""
    spans = Spans()
    machines = [make_node(f"n{number}", cpu=2, labels={"rack": rack}) for number, rack in enumerate(racks)]
    group = in_one("rack", gang("g", 2))
    with Simulation([*machines, group, *members("g", 2, cpu=cpu)], PLACEMENTS, observers=[spans.observer]) as run:
        run.run(1)
    return spans


def names_below(spans: Sequence[ReadableSpan], parent: ReadableSpan) -> list[str]:
    context = parent.get_span_context()
    assert context is not None
    return [each.name for each in spans if each.parent is not None and each.parent.span_id == context.span_id]


def attributes(span: ReadableSpan) -> dict[str, object]:
    return {name.removeprefix("kframework."): value for name, value in (span.attributes or {}).items()}


def test_spans_of_a_group_are_one_trace_with_unique_ids() -> None:
    contexts = [span.get_span_context() for span in traced()]
    assert len({context.trace_id for context in contexts if context is not None}) == 1
    assert len({context.span_id for context in contexts if context is not None}) == len(contexts)


def test_attempts_of_the_pods_are_children_of_the_attempt_of_the_group() -> None:
    spans = traced()
    (root,), (cycle,) = spans.with_name("group_attempt"), spans.with_name("group_cycle")
    assert root.parent is None
    below = ["scheduling_attempt", "scheduling_attempt", "queue_wait", "group_cycle"]
    assert sorted(names_below(spans, root)) == sorted(below)
    assert names_below(spans, cycle) == [
        "placement_generate",
        "placement",
        "placement",
        "placement_score",
        "placement_walk",
    ]
    for attempt in spans.with_name("scheduling_attempt"):
        assert sorted(names_below(spans, attempt)) == ["binding_cycle", "queue_wait", "scheduling_cycle"]


def test_rejected_placement_says_why() -> None:
    spans = traced(cpu="2")
    first, second = spans.with_name("placement")
    told = attributes(first)
    assert (told["placement"], told["placed"], told["status"]) == ("a", 1, "Unschedulable")
    assert (told["failed_first"], told["reason"]) == (
        "default/g-1",
        "0/1 nodes are available: 1 Insufficient cpu.",
    )
    assert attributes(second)["placement"] == "b"
    (cycle,) = spans.with_name("group_cycle")
    assert attributes(cycle)["result"] == "unschedulable"


def test_group_without_placements_searches_all_nodes() -> None:
    spans = Spans()
    with Simulation([*nodes(1), gang("g", 2), *members("g", 2)], GROUPS, observers=[spans.observer]) as run:
        run.run(1)
    (search,) = spans.with_name("placement")
    assert attributes(search) == {"placed": 2}


@pytest.mark.parametrize(("share", "attempts"), [(0.0, 0), (1.0, 2)])
def test_group_is_sampled_as_one(share: float, attempts: int, caplog: pytest.LogCaptureFixture) -> None:
    spans = Spans()
    tracing = spans.observer
    assert isinstance(tracing, Tracing)
    tracing.share = share
    objects = [*nodes(1), gang("g", 2), *members("g", 2)]
    journal = Journal(tracing.trace_id)
    with caplog.at_level(V2), Simulation(objects, GROUPS, observers=[tracing, journal]) as run:
        run.run(1)
    assert len(spans.with_name("scheduling_attempt")) == attempts
    named = [record.__dict__["trace_id"] for record in caplog.records if "trace_id" in record.__dict__]
    # Two pods are bound, in one group.
    assert named == [tracing.trace_id(1, 0.0)] * (attempts + (attempts > 0))
