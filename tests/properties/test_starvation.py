"""A crowd of important pods that fit nowhere keeps no other pod from its turn, whatever happens in the cluster.

The crowd is larger than what one rest lets through: were each event to wake all of it, some of it would always stand in
front. That is how kube-scheduler once was, and how plugins that register everything make it again.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterator
from itertools import count, islice

import msgspec
import pytest

from kframework import ActionType, ClusterEvent, EventResource, Plugin, hookimpl
from kframework.clock import VIRTUAL_EPOCH
from kframework.core.cycle.records import Decision
from kframework.core.cycle.results import Reservation
from kframework.core.host import Host
from kframework.core.pod_engine import PodEngine
from kframework.objects import Node, NodeCondition
from kframework.plugins.node_resources_fit.plugin import NodeResourcesFit
from kframework.state.cluster import ClusterState
from kframework.state.inbox import BindingEnded, BindingStarted, Deleted, Synced, Upserted
from kframework.testing import Scenario, make_node, make_pod
from kframework.testing.single_plugin import build_profiles

CROWD, CYCLES = 1000, 4000
#: A cycle takes so long, in seconds: the whole crowd takes twice the longest rest, or less than the shortest.
SLOW, FAST = 0.02, 0.0009

NODE = make_node("a", cpu=2)
LOW = make_pod("low", priority=0)


class Unregistered(NodeResourcesFit):
    """The same without `events_to_register`: woken by everything."""

    events_to_register = None  # type: ignore[assignment]  # takes the hook away


class AlwaysQueue(NodeResourcesFit):
    """The same, registered for everything and without hints."""

    @hookimpl
    def events_to_register(self) -> list[ClusterEvent]:
        return [ClusterEvent(EventResource.ANY, ActionType.ALL)]


class Crowded(Host):
    """An engine with a crowd of important pods that fit nowhere and one that does, and its clock."""

    def __init__(self, plugin: type[Plugin]) -> None:
        self.time = VIRTUAL_EPOCH
        self.tried: Counter[str] = Counter()
        #: After how many failed attempts the pod that fits was bound.
        self.bound_after: int | None = None
        profiles = functools.partial(build_profiles, plugin, {})
        self.engine = PodEngine(ClusterState(), self, self, profiles, verifying=False)
        for obj in (NODE, LOW, *(make_pod(f"high-{number}", priority=1000, cpu=64) for number in range(CROWD))):
            self.engine.offer(Upserted(obj))
        self.engine.offer(Synced())

    def run(self, events: Iterator[Upserted | Deleted], cycle: float = SLOW) -> None:
        """Run `cycles` cycles of some seconds each, with an event before each."""
        for event in islice(events, CYCLES):
            self.engine.offer(event)
            self.engine.step()
            self.time += cycle

    def now(self) -> float:
        return self.time

    def report_decision(self, decision: Decision) -> None:
        self.tried[decision.pod] += 1

    def bind(self, reservation: Reservation) -> None:
        self.bound_after = self.tried.total() - 1
        for message in (
            BindingStarted(reservation.pod.uid, reservation.attempt),
            BindingEnded(reservation.pod.uid, reservation.attempt, None),
        ):
            self.engine.offer(message)


def beating(node: Node) -> Iterator[Upserted]:
    """List the heartbeats of a node, which gets another label with every other one."""
    for turn in count(1):
        labels = node.metadata.labels | {"turn": str(turn // 2)}
        beat = NodeCondition(type="Ready", status="True", last_heartbeat_time=f"2026-01-01T00:00:{turn % 60:02}Z")
        yield Upserted(
            msgspec.structs.replace(
                node,
                metadata=msgspec.structs.replace(node.metadata, labels=labels),
                status=msgspec.structs.replace(node.status, conditions=(beat,)),
            )
        )


def ending(node: Node) -> Iterator[Upserted | Deleted]:
    """Let one small pod after the other start and end on a node: any of the crowd might take its place."""
    for number in count():
        pod = make_pod(f"small-{number}", node_name=node.metadata.name)
        yield Upserted(pod)
        yield Deleted(pod)


def test_unschedulable_crowd_is_tried_once_and_does_not_block_others() -> None:
    crowd = [make_pod(f"high-{number}", priority=1000, cpu=64) for number in range(CROWD)]
    result = Scenario(nodes=[NODE], pods=[LOW, *crowd]).run(until=200.0)
    assert result.node_of("low") == "a"
    tries = Counter(decision.pod for decision in result.decisions)
    assert len(tries) == CROWD + 1 and set(tries.values()) == {1}
    assert result.decisions[-1].pod == "default/low"


@pytest.mark.slow
def test_useless_events_requeue_no_pod() -> None:
    crowded = Crowded(NodeResourcesFit)
    crowded.run(beating(NODE))
    assert crowded.bound_after == CROWD
    assert len(crowded.tried) == CROWD + 1 and set(crowded.tried.values()) == {1}


def test_crowd_requeued_by_every_event_backs_off() -> None:
    crowded = Crowded(NodeResourcesFit)
    crowded.run(ending(NODE), FAST)
    assert crowded.bound_after == CROWD
    assert max(crowded.tried.values()) <= -(-CYCLES // CROWD)


@pytest.mark.long
@pytest.mark.parametrize("plugin", [Unregistered, AlwaysQueue])
def test_crowd_without_hints_starves_other_pods(plugin: type[Plugin]) -> None:
    crowded = Crowded(plugin)
    crowded.run(beating(NODE))
    assert crowded.bound_after is None
    assert crowded.tried.total() == CYCLES
    assert "default/low" not in crowded.tried
