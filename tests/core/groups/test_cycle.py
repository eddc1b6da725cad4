"""The pods of a PodGroup get their nodes in one walk, and all are bound or none."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from random import Random

import pytest
from msgspec.structs import replace

from kframework import (
    ClusterError,
    CycleState,
    PendingPod,
    Plugin,
    Simulation,
    Status,
    hookimpl,
    unschedulable,
)
from kframework.config.configuration import Configuration
from kframework.config.load import load_configuration, parse
from kframework.core.cycle.records import Binding, Decision, Observer
from kframework.core.cycle.run import Run, RunBinding
from kframework.core.cycle.suspendable import TURN
from kframework.core.groups.cycle import PODS_PER_TURN
from kframework.in_memory.cluster import Fault
from kframework.objects import ApiObject, Pod, PodGroup
from kframework.objects.pod_groups import PodGroupSpec
from kframework.scheduler.scheduler import BINDINGS_PER_TURN, Scheduler
from kframework.testing import make_pod
from tests.plugins.dynamic_resources.claiming import GPUS, gpus, wanting
from tests.support.devices import with_claim
from tests.support.extenders import ExtenderServer, accept_except
from tests.support.groups import GROUPS, basic, gang, members, nodes, on_nodes, simulate, with_gates

#: Groups whose gangs may not stay bound in part, so that each pod waits for the others.
LIMITED = parse("""
apiVersion: kframework.dev/v1
kind: KFrameworkConfiguration
gangBindingTimeout: 1m
featureGates: {GenericWorkload: true}
""")

#: How the message of a rejected group ends if there is nothing to preempt.
NO_VICTIMS = "pod group preemption: No preemption victims found for incoming preemptor"


def places(simulation: Simulation) -> dict[str, str | None]:
    return {outcome.pod.removeprefix("default/"): outcome.node for outcome in simulation.outcomes}


def messages(simulation: Simulation) -> dict[str, str]:
    return {decision.pod.removeprefix("default/"): decision.message for decision in simulation.decisions}


def condition(simulation: Simulation, name: str) -> tuple[str, str, str]:
    (group,) = (each for each in simulation.objects(PodGroup) if each.metadata.name == name)
    (found,) = group.status.conditions
    assert found.type == "PodGroupInitiallyScheduled"
    return found.status, found.reason, found.message


def test_gang_that_fits_is_bound_as_a_whole() -> None:
    simulation = simulate([*nodes(3), gang("g", 3), *members("g", 3, cpu="3")])
    assert sorted(filter(None, places(simulation).values())) == ["n0", "n1", "n2"]
    assert condition(simulation, "g") == ("True", "Scheduled", "")


def test_extenders_are_asked_about_each_pod_of_a_group() -> None:
    objects = [*nodes(3), gang("g", 3), *members("g", 3, cpu="1")]
    with ExtenderServer({"filter": accept_except("n2")}) as server:
        document = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
        settings = load_configuration(document | {"extenders": [{"urlPrefix": server.url, "filterVerb": "filter"}]})
        with Simulation(objects, dataclasses.replace(settings, options=GROUPS.options)) as simulation:
            found = places(simulation.run())
    assert found == dict.fromkeys(("g-0", "g-1", "g-2"), "n2")


def test_gang_that_does_not_fit_gives_all_its_room_back() -> None:
    simulation = simulate([*nodes(3), gang("g", 4), *members("g", 4, cpu="3")])
    simulation.create(make_pod("other", cpu="4"))
    simulation.run(1)
    found = places(simulation)
    assert found.pop("other") is not None and not any(found.values())
    text = f"pod group is unschedulable, minCount (4) cannot be satisfied: 3 scheduled, 0 remaining, {NO_VICTIMS}"
    assert condition(simulation, "g") == ("False", "Unschedulable", text)


def test_left_member_of_a_scheduled_gang_follows_when_there_is_room() -> None:
    simulation = simulate([*nodes(2), gang("g", 2), *members("g", 3, cpu="3")])
    simulation.create(nodes(3)[2])
    simulation.run(20)
    assert all(places(simulation).values())


def test_group_without_a_minimum_is_scheduled_with_one_member() -> None:
    simulation = simulate([*nodes(1), basic("g"), *members("g", 2, cpu="3")])
    assert sum(node is not None for node in places(simulation).values()) == 1
    assert condition(simulation, "g")[:2] == ("True", "Scheduled")


def test_gang_in_a_cluster_without_nodes_is_unschedulable() -> None:
    simulation = simulate([gang("g", 2), *members("g", 3)])
    assert set(messages(simulation).values()) >= {"no nodes available to schedule pods"}
    assert condition(simulation, "g")[:2] == ("False", "Unschedulable")


def test_rejected_gang_waits_for_an_event_and_then_fits() -> None:
    simulation = simulate([*nodes(2), gang("g", 3), *members("g", 3, cpu="3")])
    assert not any(places(simulation).values())
    attempts = len(simulation.decisions)
    simulation.run(60)
    assert len(simulation.decisions) == attempts
    simulation.create(nodes(3)[2])
    simulation.run(20)
    assert all(places(simulation).values())
    assert condition(simulation, "g") == ("True", "Scheduled", "")


def test_two_gangs_that_overfill_a_cluster_do_not_block_each_other() -> None:
    simulation = simulate([*nodes(3), gang("a", 2), gang("b", 2), *members("a", 2, cpu="3"), *members("b", 2, cpu="3")])
    assert [places(simulation)[name] is not None for name in ("a-0", "a-1", "b-0", "b-1")] == [True, True, False, False]


def test_members_see_what_members_before_them_take() -> None:
    simulation = simulate([*nodes(2), gang("g", 4), *members("g", 4, cpu="2")])
    assert sorted(filter(None, places(simulation).values())) == ["n0", "n0", "n1", "n1"]


def never(pod: Pod) -> Pod:
    return replace(pod, spec=replace(pod.spec, preemption_policy="Never"))


def with_scheduler(name: str, pod: Pod) -> Pod:
    return replace(pod, spec=replace(pod.spec, scheduler_name=name))


POLICIES = with_gates("GenericWorkload", "PodGroupPreemptionPolicy")
GANG_THAT_NEVER_PREEMPTS = PodGroupSpec(
    scheduling_policy=gang("g", 2).spec.scheduling_policy, preemption_policy="Never"
)


@pytest.mark.parametrize(
    ("config", "spec", "pods", "text"),
    [
        pytest.param(
            GROUPS,
            gang("g", 2).spec,
            members("g", 2, priority=5),
            "priority as the pod group's priority, got 5 and 0",
            id="priority",
        ),
        pytest.param(
            GROUPS,
            gang("g", 2).spec,
            [members("g", 1)[0], never(members("g", 2)[1])],
            "preemption policy, got Never and PreemptLowerPriority",
            id="policy",
        ),
        pytest.param(
            POLICIES,
            gang("g", 2).spec,
            [never(pod) for pod in members("g", 2)],
            "preemption policy as the pod group's preemption policy, got Never and PreemptLowerPriority",
            id="policy of pods and group",
        ),
        pytest.param(
            POLICIES,
            GANG_THAT_NEVER_PREEMPTS,
            members("g", 2),
            "preemption policy as the pod group's preemption policy, got PreemptLowerPriority and Never",
            id="policy of group and pods",
        ),
        pytest.param(
            GROUPS,
            gang("g", 2).spec,
            [*on_nodes(members("g", 1, priority=3)), *members("g", 3)[1:]],
            "priority as the pod group's priority, got 3 and 0",
            id="priority of a scheduled pod",
        ),
        pytest.param(
            GROUPS,
            gang("g", 2).spec,
            [*on_nodes([with_scheduler("other", members("g", 1)[0])]), *members("g", 3)[1:]],
            '.spec.schedulerName set, got: "other" and "default-scheduler"',
            id="scheduler name of a scheduled pod",
        ),
    ],
)
def test_group_of_unequal_pods_is_an_error(
    config: Configuration, spec: PodGroupSpec, pods: list[Pod], text: str
) -> None:
    simulation = Simulation([*nodes(2), replace(gang("g", 2), spec=spec), *pods], config=config)
    simulation.run(0.5)
    text = f"all pods in a single pod group should have the same {text}"
    assert set(messages(simulation).values()) == {text}
    assert condition(simulation, "g") == ("False", "SchedulerError", text)


def test_large_gang_lets_other_tasks_run_in_its_cycle(monkeypatch: pytest.MonkeyPatch) -> None:
    turns: list[None] = []

    def count(turn: object) -> Iterator[None]:
        turns.append(None)
        yield

    monkeypatch.setattr(type(TURN), "__await__", count)
    size = 2 * PODS_PER_TURN
    simulation = simulate([*nodes(2, cpu=100), gang("g", size), *members("g", size, cpu="1")])
    assert all(places(simulation).values())
    # Twice in each of the walk, the look at what its pods need, their runs and what is done about these, twice for the
    # first search, and six before and between them.
    assert len(turns) == 16


@pytest.mark.parametrize(
    ("config", "expected"),
    [(GROUPS, [1, 1, 1]), (LIMITED, [BINDINGS_PER_TURN, BINDINGS_PER_TURN, 1])],
    ids=["in runs", "one by one"],
)
def test_bindings_of_a_large_gang_begin_in_turns(
    config: Configuration, expected: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[int] = []
    begin = Scheduler._begin_bindings

    def noted(scheduler: Scheduler) -> bool:
        before = len(scheduler._reserved)
        more = begin(scheduler)
        begun.append(before - len(scheduler._reserved))
        return more

    monkeypatch.setattr(Scheduler, "_begin_bindings", noted)
    size = 2 * BINDINGS_PER_TURN + 1
    simulation = Simulation([*nodes(2, cpu=100), gang("g", size), *members("g", size, cpu="1")], config=config)
    simulation.run(5)
    assert all(places(simulation).values())
    assert [number for number in begun if number] == expected


@pytest.mark.parametrize("seed", range(3))
def test_groups_in_runs_get_the_nodes_and_records_that_they_would_get_one_by_one(seed: int) -> None:
    random, objects = Random(seed), list[ApiObject](nodes(6))
    for number in range(8):
        size = random.randint(1, 5)
        objects += [gang(f"g{number}", random.randint(1, size)), *members(f"g{number}", size, cpu=random.choice("12"))]
    together, alone = (Simulation(objects, config=GROUPS, seed=seed) for _ in range(2))
    alone.scheduler.is_stepping = True
    found = [
        [(each.pod, each.node, each.attempt, each.group_attempt, each.message) for each in simulation.run(60).decisions]
        for simulation in (together, alone)
    ]
    assert found[0] == found[1]
    bindings = [[(each.pod, each.node, each.group_attempt) for each in one.bindings] for one in (together, alone)]
    assert bindings[0] == bindings[1] != []


class SeesRuns(Observer):
    """Notes the pods of each run, and those that came alone."""

    def __init__(self) -> None:
        self.runs: list[list[str]] = []
        self.alone: list[str] = []

    def on_decision(self, decision: Decision) -> None:
        self.alone.append(decision.pod)

    def on_binding(self, binding: Binding) -> None: ...

    def on_run(self, run: Run) -> None:
        self.runs.append([f"{each.pod} {each.group_attempt}" for each in run])

    def on_run_binding(self, bound: RunBinding) -> None:
        assert [each.group_attempt for each in bound] == [each.group_attempt for each in bound.run]


@pytest.mark.parametrize(
    ("pods", "runs"),
    [
        (members("g", 3), [["default/g-0 1", "default/g-1 1", "default/g-2 1"]]),
        (members("g", 3, cpu="3"), []),  # one does not fit
        ([*members("g", 2), with_claim(members("g", 3)[2], claim="c")], []),  # one is to be prepared
    ],
)
def test_gang_is_bound_in_runs_if_all_its_pods_only_need_to_be_bound(pods: list[Pod], runs: list[list[str]]) -> None:
    seen = SeesRuns()
    devices = [GPUS, gpus("n0", "a"), wanting()]
    simulation = Simulation([*nodes(2), *devices, gang("g", 2), *pods], config=GROUPS, observers=[seen])
    simulation.run(5)
    assert seen.runs == runs
    assert bool(seen.alone) != bool(runs)
    assert sum(node is not None for node in places(simulation).values()) >= 2


def test_gang_whose_minimum_falls_is_tried_again() -> None:
    simulation = simulate([*nodes(2), gang("g", 3), *members("g", 3, cpu="3")])
    assert not any(places(simulation).values())
    policy = {"schedulingPolicy": {"gang": {"minCount": 2}}}
    simulation.patch(PodGroup, "g", {"spec": policy})
    simulation.run(20)
    assert sum(node is not None for node in places(simulation).values()) == 2


def test_deleted_group_is_scheduled_as_long_as_its_pods_keep_it() -> None:
    simulation = simulate([*nodes(2), gang("g", 3), *members("g", 3, cpu="3")])
    simulation.delete(PodGroup, "g")
    simulation.create(nodes(3)[2])
    simulation.run(20)
    assert all(places(simulation).values())


def test_pods_of_a_group_that_is_gone_wait_until_it_is_there_again() -> None:
    simulation = simulate([*nodes(2), gang("g", 3), *members("g", 3, cpu="3")])
    simulation.patch(PodGroup, "g", {"metadata": {"finalizers": None}})
    simulation.delete(PodGroup, "g")
    simulation.create(nodes(3)[2])
    simulation.run(20)
    assert not any(places(simulation).values())
    simulation.create(gang("g", 3))
    simulation.run(20)
    assert all(places(simulation).values())


class RejectsOne(Plugin):
    """Rejects a pod in Reserve."""

    name = "RejectsOne"

    @hookimpl
    def reserve(self, state: CycleState, pod: PendingPod, node_name: str) -> Status | None:
        return unschedulable("not here") if pod.name == "g-1" else None


REJECTING = parse("""
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{plugins: {multiPoint: {enabled: [{name: RejectsOne}]}}}]
---
apiVersion: kframework.dev/v1
kind: KFrameworkConfiguration
featureGates: {GenericWorkload: true}
""")


def rejecting(objects: list[ApiObject]) -> Simulation:
    simulation = Simulation(objects, config=REJECTING, plugins=[RejectsOne])
    simulation.run(0.5)
    return simulation


def test_member_that_reserve_rejects_fails_alone_and_gives_its_room_back() -> None:
    simulation = rejecting([*nodes(1), gang("g", 2), *members("g", 3, cpu="2")])
    assert [places(simulation)[name] for name in ("g-0", "g-1", "g-2")] == ["n0", None, "n0"]


def test_member_whose_binding_fails_keeps_its_room_until_the_gang_is_complete() -> None:
    simulation = Simulation([*nodes(2), gang("g", 2), *members("g", 2, cpu="3")], config=GROUPS)
    refused = Fault(error=ClusterError("refused", status=403))
    simulation.cluster.faults.append(
        lambda method, kind, namespace, name: refused if (method, name) == ("bind", "g-1") else None
    )
    simulation.run(0.2)
    simulation.create(make_pod("other", cpu="3"))
    simulation.run(5)
    assert [places(simulation)[name] is not None for name in ("g-0", "g-1", "other")] == [True, False, False]
    simulation.cluster.faults.clear()
    simulation.run(30)
    assert [places(simulation)[name] is not None for name in ("g-0", "g-1", "other")] == [True, True, False]


def test_deleted_member_is_left_out_and_the_others_are_scheduled() -> None:
    first, second = members("g", 2)
    kept = replace(first, metadata=replace(first.metadata, finalizers=("example.com/keep",)))
    simulation = simulate([*nodes(2), kept, second])
    simulation.delete(Pod, "g-0")  # it waits for its finalizer, and leads the group when that comes
    simulation.create(gang("g", 1))
    simulation.run(20)
    assert places(simulation) == {"g-0": None, "g-1": "n0"}


def test_group_whose_pods_are_all_being_deleted_is_not_tried() -> None:
    kept = [replace(pod, metadata=replace(pod.metadata, finalizers=("example.com/keep",))) for pod in members("g", 2)]
    simulation = simulate([*nodes(1), *kept])
    for pod in kept:
        simulation.delete(Pod, pod.metadata.name)
    simulation.create(gang("g", 2))
    simulation.run(20)
    (group,) = simulation.objects(PodGroup)
    assert not len(simulation.decisions) and group.status.conditions == ()
    assert not len(simulation.scheduler.engine.queue) and not len(simulation.scheduler.engine.queue.in_flight)
