"""Replicas of the scheduler share a cluster: each pod is bound once, no node is overfilled, no pod is lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kframework import Simulation
from kframework.config.configuration import Configuration
from kframework.in_memory.kind_store import Change
from kframework.objects import ApiObject, Pod
from kframework.objects.requests import fit_requests
from kframework.simulation.controllers import STANDARD_CONTROLLERS
from kframework.simulation.replicas import NodeShards, PodShards, Replicas, Shards
from kframework.state.inbox import Upserted
from kframework.testing import make_node, make_pod
from tests.support.groups import gang, members, with_gates

SHARDS = pytest.mark.parametrize("shards", [NodeShards, PodShards])


def simulate(
    objects: Sequence[ApiObject], replicas: Replicas, configuration: Configuration | None = None
) -> Simulation:
    first, *others = replicas.engines
    controllers = [*STANDARD_CONTROLLERS, replicas.create_controller]
    return Simulation(objects, configuration, engine=first, replicas=others, controllers=controllers)


def nodes(count: int, cpu: int = 4) -> list[ApiObject]:
    return [make_node(f"node-{number}", cpu=cpu, memory="16Gi") for number in range(count)]


def pods(count: int) -> list[ApiObject]:
    return [make_pod(f"pod-{number}", cpu=1, priority=0) for number in range(count)]


@SHARDS
def test_one_replica_without_delays_is_a_plain_simulation(shards: type[Shards]) -> None:
    objects = [*nodes(5), *(make_pod(f"pod-{number}", cpu=number % 3 + 1, priority=number) for number in range(20))]
    plain, one = Simulation(objects).run(), simulate(objects, Replicas(1, shards)).run()
    for each in (plain, one):
        each.close()
    assert list(one.outcomes) == list(plain.outcomes)
    fields = ("attempt", "pod", "node", "message", "feasible", "popped_at", "victims")
    assert [[getattr(each, name) for name in fields] for each in one.decisions] == [
        [getattr(each, name) for name in fields] for each in plain.decisions
    ]
    assert one.seconds == plain.seconds


def test_attempts_take_virtual_time() -> None:
    with simulate([*nodes(3), *pods(10)], Replicas(1, decision_time=0.5)) as simulation:
        simulation.run()
        assert [each.ended_at - simulation.started_at for each in simulation.bindings] == [
            0.5 * number for number in range(1, 11)
        ]


def test_replicas_work_side_by_side() -> None:
    with simulate([*nodes(30), *pods(30)], Replicas(3, decision_time=0.5)) as simulation:
        simulation.run()
        assert all(each.node for each in simulation.outcomes)
        assert simulation.seconds < 10  # one scheduler takes 15 s


def test_bindings_are_seen_late_by_others_and_the_second_loses() -> None:
    replicas = Replicas(2, PodShards, decision_time=0.001, watch_delay=0.05)
    owners = {replicas.shards.owner("Pod", "default", f"pod-{number}"): f"pod-{number}" for number in range(20)}
    rivals = [make_pod(owners[number], cpu=1) for number in (0, 1)]
    with simulate([make_node("a", cpu=1), *rivals], replicas) as simulation:
        simulation.run()
        assert sorted(str(each.node) for each in simulation.outcomes) == ["None", "a"]
        assert replicas.admission is not None and replicas.admission.rejected == 1
        assert replicas.describe_conflicts().startswith("conflicts of replicas: 1 binding to nodes that others had")


def test_pod_goes_on_until_a_replica_has_room() -> None:
    replicas = Replicas(4, NodeShards, decision_time=0.001, watch_delay=0.05)
    last = make_node("large", cpu=16)
    fitting = make_pod("large", cpu=10)
    with simulate([*nodes(12), last, fitting], replicas) as simulation:
        simulation.run()
        (outcome,) = simulation.outcomes
        assert outcome.node == "large"
        (owner,) = (
            n for n, each in enumerate(simulation.schedulers) if each.engine.cluster.nodes.row("large") is not None
        )
        home = replicas.shards.owner("Pod", "default", "large")
        assert len(simulation.decisions) == (owner - home) % 4 + 1


def test_pod_that_no_replica_had_room_for_is_bound_where_room_appears() -> None:
    replicas = Replicas(3, NodeShards, watch_delay=0.05)
    with simulate([*nodes(9), make_pod("large", cpu=10)], replicas) as simulation:
        simulation.run()
        assert simulation.outcomes[0].node is None
        simulation.create(make_node("new", cpu=16))
        simulation.run()
        assert simulation.outcomes[0].node == "new"


@SHARDS
def test_pods_of_a_group_go_together(shards: type[Shards]) -> None:
    divided = shards(1000)

    def receivers(pod: Pod) -> list[int]:
        return [number for number in range(1000) if divided.narrow(number, Upserted(pod)) is not None]

    first, second = members("team", 2)
    assert receivers(first) == receivers(second) != receivers(make_pod(first.metadata.name))


@SHARDS
def test_group_is_placed_by_one_replica(shards: type[Shards]) -> None:
    objects = [*nodes(12, cpu=1), gang("team", 3), *members("team", 3)]
    with simulate(objects, Replicas(3, shards, watch_delay=0.05), with_gates("GenericWorkload")) as simulation:
        simulation.run()
        assert all(each.node for each in simulation.outcomes)


@pytest.mark.parametrize("delay", [0.0, 0.05])
@SHARDS
def test_preemption_makes_room(shards: type[Shards], delay: float) -> None:
    replicas = Replicas(3, shards, decision_time=0.001 if delay else 0.0, watch_delay=delay)
    objects = [*nodes(9, cpu=2), *pods(18), make_pod("urgent", cpu=2, priority=10)]
    with simulate(objects, replicas) as simulation:
        simulation.run()
        assert {each.pod: each.node for each in simulation.outcomes}["default/urgent"] is not None


def test_room_that_a_pod_makes_by_preemption_is_kept_from_the_pods_of_other_replicas() -> None:
    replicas = Replicas(2, PodShards, decision_time=0.001, watch_delay=0.05)
    owners = {replicas.shards.owner("Pod", "default", f"pod-{number}"): f"pod-{number}" for number in range(20)}
    urgent, other = make_pod(owners[0], cpu=1, priority=10), make_pod(owners[1], cpu=1, priority=0)
    with simulate([make_node("a", cpu=1), make_pod("old", cpu=1, priority=0, node_name="a")], replicas) as simulation:
        simulation.run()
        simulation.create(urgent)
        simulation.run(10)  # of the 30 seconds in which the victim ends
        simulation.create(other)
        simulation.run()
        nodes = {each.pod.removeprefix("default/"): each.node for each in simulation.outcomes}
        assert nodes == {owners[0]: "a", owners[1]: None}
        assert replicas.admission is not None and replicas.admission.rejected == 0
        assert simulation.explain(owners[1]).explanation.pod == f"default/{owners[1]}"


@given(
    shards=st.sampled_from([NodeShards, PodShards]),
    count=st.integers(2, 5),
    delays=st.sampled_from([(0.0, 0.0), (0.001, 0.0), (0.001, 0.05), (0.001, 3.0)]),
    sizes=st.lists(st.integers(1, 6), min_size=1, max_size=10),
    requests=st.lists(st.tuples(st.integers(1, 4), st.integers(0, 2), st.floats(0, 0.2)), max_size=30),
)
def test_every_pod_is_bound_once_within_its_node(
    shards: type[Shards],
    count: int,
    delays: tuple[float, float],
    sizes: list[int],
    requests: list[tuple[int, int, float]],
) -> None:
    decision_time, watch_delay = delays
    world: list[ApiObject] = [make_node(f"node-{number}", cpu=cpu) for number, cpu in enumerate(sizes)]
    world += [
        make_pod(
            f"pod-{number}", cpu=cpu, priority=priority, annotations={"kframework.dev/arrives-seconds": f"{seconds}"}
        )
        for number, (cpu, priority, seconds) in enumerate(requests)
    ]
    replicas = Replicas(min(count, len(sizes)), shards, decision_time=decision_time, watch_delay=watch_delay)
    room = {f"node-{number}": 1000 * cpu for number, cpu in enumerate(sizes)}
    bound, used = Counter[str](), Counter[str]()

    def receive(change: Change) -> None:
        old, new = change.old, change.new
        assert old is None or isinstance(old, Pod)
        if isinstance(new, Pod) and new.spec.node_name and (old is None or not old.spec.node_name):
            bound[new.metadata.uid] += 1
            node = new.spec.node_name
            used[node] += fit_requests(new.spec)["cpu"]
            assert used[node] <= room[node]
        if new is None and old is not None and old.spec.node_name:
            used[old.spec.node_name] -= fit_requests(old.spec)["cpu"]

    with simulate(world, replicas) as simulation:
        simulation.cluster.subscribe([Pod], receive)
        simulation.run()
        waiting = [each for each in simulation.objects(Pod) if not each.spec.node_name]
        pending = {uid for each in simulation.schedulers for uid in each.engine.pending}
    assert set(bound.values()) <= {1}
    assert {each.metadata.uid for each in waiting} == pending
    most_free = max(room[node] - used[node] for node in room)
    assert all(fit_requests(each.spec)["cpu"] > most_free for each in waiting)
