"""A run is a sequence of Decisions that are created on access, and its pods are bound at once or one by one."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from kframework import CycleState, NodeInfo, PendingPod, Plugin, Simulation, hookimpl
from kframework.client.event_record import RunEvents
from kframework.core.cycle.records import Binding, Decision
from kframework.core.cycle.run import Run, RunBinding, RunObserver
from kframework.errors import ClusterError
from kframework.in_memory.cluster import MemoryCluster
from kframework.objects import Event, Namespace, ObjectReference, Pod
from kframework.testing import make_node, make_pod

NODES = [make_node(f"n{number}", cpu=2) for number in range(4)]


class Whole(RunObserver):
    """Keeps the records it gets."""

    def __init__(self) -> None:
        self.runs: list[Run] = []
        self.bound_runs: list[RunBinding] = []
        self.single: list[Decision | Binding] = []

    def on_decision(self, decision: Decision) -> None:
        self.single.append(decision)

    def on_binding(self, binding: Binding) -> None:
        self.single.append(binding)

    def on_run(self, run: Run) -> None:
        self.runs.append(run)

    def on_run_binding(self, bound: RunBinding) -> None:
        self.bound_runs.append(bound)


def simulated(pods: Sequence[Pod], **more: object) -> tuple[Simulation, Whole]:
    whole = Whole()
    with Simulation([*NODES, *pods], observers=[whole], **more) as simulation:  # type: ignore[arg-type]  # as it is given
        simulation.run()
    return simulation, whole


def alike(count: int) -> list[Pod]:
    return [make_pod(f"p{number}", cpu="250m") for number in range(count)]


def test_pods_are_placed_in_runs_and_bound_at_once() -> None:
    simulation, whole = simulated(alike(12))
    assert max(len(run) for run in whole.runs) > 5
    told = [decision for run in whole.runs for decision in run]
    assert told == [*simulation.decisions]
    assert [each.pod for bound in whole.bound_runs for each in bound] == [decision.pod for decision in told]
    assert whole.single == []


def test_pods_that_a_new_node_wakes_are_placed_in_runs_although_they_back_off() -> None:
    whole = Whole()
    with Simulation([make_node("full", cpu=0), *alike(12)], observers=[whole]) as simulation:
        simulation.run(0.2)
        for node in NODES:
            simulation.create(node)
        assert all(outcome.node for outcome in simulation.run(0.2).outcomes)
    assert max(len(run) for run in whole.runs) > 5


def test_decision_of_a_run_is_made_once_and_has_the_phases_of_others() -> None:
    _, whole = simulated(alike(6))
    run = whole.runs[-1]
    assert len(run) > 2 and run[1] is run[1] and run[0:2] == [run[0], run[1]]
    phases = {tuple(point for point, _, _ in decision.timings) for run in whole.runs for decision in run}
    assert phases == {("sign", "pre_filter", "filter", "score", "assume", "reserve", "permit")}


def test_pod_that_fits_nowhere_ends_a_run_and_is_told_of_by_itself() -> None:
    simulation, whole = simulated(alike(40))
    assert sum(map(len, whole.runs)) == 32
    assert len(whole.single) == 8
    assert [each.node is None for each in simulation.outcomes] == [False] * 32 + [True] * 8


def test_each_pod_of_a_run_has_its_event() -> None:
    simulation, whole = simulated(alike(5))
    notes = [event.note for event in simulation.objects(Event)]
    assert notes == [f"Successfully assigned {each.pod} to {each.node}" for run in whole.runs for each in run]


def test_events_of_runs_are_those_of_their_pods_one_by_one() -> None:
    def events(simulation: Simulation) -> list[tuple[str, str, ObjectReference]]:
        return [(each.metadata.name, each.note, each.regarding) for each in simulation.objects(Event)]

    at_once, whole = simulated(alike(12))
    assert whole.runs
    with Simulation([*NODES, *alike(12)]) as simulation:
        while simulation.step() is not None:
            pass
        assert events(simulation) == events(at_once)


def test_events_of_a_run_whose_namespace_is_gone_are_not_written() -> None:
    objects = [*NODES, *(make_pod(f"p{number}", namespace="team", cpu="250m") for number in range(4))]
    with Simulation(objects) as simulation:
        assert isinstance(simulation.cluster, MemoryCluster)
        record = simulation.cluster.record_run

        def without_namespace(events: RunEvents) -> bool:
            simulation.cluster.remove(Namespace, "team")
            return record(events)

        simulation.cluster.record_run = without_namespace  # type: ignore[method-assign]  # for this test
        simulation.run()
        assert simulation.objects(Event) == []


class Reserving(Plugin):
    """Has something to say about each pod once it has its node."""

    name = "Reserving"

    @hookimpl
    def reserve(self, state: CycleState, pod: PendingPod, node_name: str) -> None:
        return None


class Scoring(Plugin):
    """Is called for each pod, without a cache."""

    name = "Scoring"

    @hookimpl
    def score(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> int:
        return len(node.pods)


def test_runs_are_not_formed_if_plugins_act_between_pods() -> None:
    _, whole = simulated(alike(5), plugins=[Reserving])
    assert whole.runs == []


def test_pods_of_different_kinds_share_a_run() -> None:
    pods = [make_pod(f"p{number}", cpu=f"{number + 1}00m") for number in range(6)]
    _, whole = simulated(pods)
    assert max(len(run) for run in whole.runs) > 2


def test_plugin_that_is_asked_about_each_pod_does_not_keep_pods_single() -> None:
    _, whole = simulated(alike(5), plugins=[Scoring])
    assert max(len(run) for run in whole.runs) > 2
    assert sorted(decision.node for run in whole.runs for decision in run)[:4] == ["n0", "n1", "n2", "n3"]


def test_plugins_that_are_timed_are_asked_about_one_pod_alone() -> None:
    _, whole = simulated(alike(5), timed_share=1.0)
    assert whole.runs == []


def test_refused_pod_is_requeued(monkeypatch: pytest.MonkeyPatch) -> None:
    assign, refusing = MemoryCluster.bind_run, [True]

    def refuse(self: MemoryCluster, run: Run) -> dict[int, ClusterError]:
        if not refusing or len(run) < 3:
            return assign(self, run)
        refusing.clear()
        rest = Run(0)
        rest.attempts, rest.results = run.attempts[1:], run.results[1:]
        assert assign(self, rest) == {}
        return {0: ClusterError("the server is tired", status=500)}

    monkeypatch.setattr(MemoryCluster, "bind_run", refuse)
    simulation, whole = simulated(alike(6))
    failed = [binding for bound in whole.bound_runs for binding in bound if binding.message]
    assert [binding.message for binding in failed] == ["the server is tired"]
    again = [decision for decision in simulation.decisions if decision.pod == failed[0].pod]
    assert [decision.pod_attempts for decision in again] == [1, 2]
    assert all(each.node for each in simulation.outcomes)
