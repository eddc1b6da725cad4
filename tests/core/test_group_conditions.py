"""The conditions of PodGroups: each is written once it changes, and again if the API refused it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from msgspec.structs import replace

from kframework import ClusterError, Simulation, Status, unschedulable
from kframework.core.group_conditions import GroupConditions
from kframework.core.host import Host
from kframework.in_memory.cluster import Fault
from kframework.objects import PodGroup
from kframework.state.cluster import ClusterState
from kframework.testing import make_node
from kframework.testing.stubs import StubClock
from kframework.values.status import Code
from tests.core.groups.test_cycle import condition
from tests.support.groups import GROUPS, gang, members, nodes


class Writes(Host):
    """Counts what is written."""

    count = 0

    def write(self, key: str, call: Callable[[], Awaitable[object]], refused: Callable[[ClusterError], None]) -> None:
        self.count += 1


def conditions_of(group: PodGroup, host: Host, clock: StubClock) -> tuple[ClusterState, GroupConditions]:
    cluster = ClusterState(GROUPS.options.gates)
    cluster.objects(PodGroup).put(group.metadata, group)
    return cluster, GroupConditions(cluster, clock, lambda: host)


def test_time_of_a_condition_is_that_of_its_status() -> None:
    """Another reason or message is no transition."""
    group = gang("g", 2)
    group = replace(group, metadata=replace(group.metadata, generation=7))
    clock = StubClock()
    cluster, conditions = conditions_of(group, Writes(), clock)
    times = []
    for status in (unschedulable("a"), unschedulable("b"), Status(Code.ERROR, ("c",)), Status(Code.SUCCESS)):
        conditions.report_cycle(group, status)
        clock.advance(60)
        (known,) = cluster.objects(PodGroup)
        (written,) = known.status.conditions
        times.append(written.last_transition_time or "")
        assert written.observed_generation == 7
    assert times[0] == times[1] == times[2] < times[3]


def test_condition_is_written_when_it_changes_and_stays_true() -> None:
    host, group = Writes(), gang("g", 2)
    cluster, conditions = conditions_of(group, host, StubClock())
    conditions.report_binding_ended(group, "Bound")  # it never began
    for status in (unschedulable("a"), unschedulable("a"), unschedulable("b")):
        conditions.report_cycle(group, status)
    assert host.count == 2
    for _ in range(2):
        conditions.report_binding_began(group)
        conditions.report_cycle(group, Status(Code.SUCCESS))
    assert host.count == 4
    conditions.report_cycle(group, unschedulable("c"))
    for _ in range(2):
        conditions.report_binding_ended(group, "Bound")
    assert host.count == 5
    (known,) = cluster.objects(PodGroup)
    assert [(each.status, each.reason) for each in known.status.conditions] == [
        ("True", "Scheduled"),
        ("False", "Bound"),
    ]


def test_condition_that_the_api_refused_is_written_by_the_next_cycle() -> None:
    simulation = Simulation([*nodes(1), gang("g", 2), *members("g", 2, cpu="3")], config=GROUPS)
    refused = Fault(error=ClusterError("refused", status=403))
    simulation.cluster.faults.append(lambda method, *_: refused if method == "patch_status" else None)
    simulation.run(5)
    (group,) = simulation.objects(PodGroup)
    assert group.status.conditions == ()
    simulation.cluster.faults.clear()
    simulation.create(make_node("n1", cpu=4, unschedulable=True))  # the group is tried again, and waits as before
    simulation.run(20)
    assert condition(simulation, "g")[:2] == ("False", "Unschedulable")
