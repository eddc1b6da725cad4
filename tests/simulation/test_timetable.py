"""Objects arrive, nodes fail and are repaired at the seconds of their annotations; lost pods of a trace run again."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from kframework import CycleState, InputError, PendingPod, Plugin, Simulation, hookimpl
from kframework.objects import ApiObject, Node, Pod, Toleration, WorkloadPodTemplate
from kframework.objects.kinds import T
from kframework.simulation.records import PodOutcome
from kframework.simulation.timetable import ARRIVES_SECONDS, DOWN_SECONDS
from kframework.testing import RUN_SECONDS, make_node, make_pod
from tests.in_memory.workloads.workload_cluster import deployment, template


def annotated(subject: T, **annotations: str) -> T:
    names = {"arrives": ARRIVES_SECONDS, "down": DOWN_SECONDS, "runs": RUN_SECONDS}
    own = {names[name]: text for name, text in annotations.items()}
    return replace(subject, metadata=replace(subject.metadata, annotations=own))


def arriving(name: str, seconds: float = 0.0, runs: float | None = None, **more: Any) -> Pod:
    times = {"arrives": f"{seconds:g}"} | ({} if runs is None else {"runs": f"{runs:g}"})
    return annotated(make_pod(name, cpu=1, **more), **times)


def failing(name: str, down: str) -> Node:
    return annotated(make_node(name, cpu=1), down=down)


def placed(outcomes: tuple[PodOutcome, ...]) -> dict[str, tuple[str | None, str]]:
    return {each.pod.removeprefix("default/"): (each.node, each.phase) for each in outcomes}


def test_objects_arrive_at_their_second() -> None:
    objects = [arriving("first", runs=60), arriving("second", 30), annotated(make_node("b", cpu=1), arrives="40")]
    with Simulation([make_node("a", cpu=1), *objects]) as simulation:
        assert placed(simulation.run(29).result.outcomes) == {"first": ("a", "Running")}
        assert placed(simulation.run(10).result.outcomes) == {"first": ("a", "Running"), "second": (None, "Pending")}
        assert placed(simulation.run(2).result.outcomes) == {"first": ("a", "Running"), "second": ("b", "Running")}
        assert placed(simulation.run().result.outcomes) == {"first": ("a", "Succeeded"), "second": ("b", "Running")}
        assert simulation.seconds == pytest.approx(60, abs=1)


def test_simulation_waits_for_an_arrival_after_a_long_pause() -> None:
    with Simulation([make_node("a"), arriving("late", 9000)]) as simulation:
        assert placed(simulation.run().result.outcomes) == {"late": ("a", "Running")}


@pytest.mark.parametrize("text", ["soon", "-1", "nan", "inf", ""])
def test_arrival_must_be_a_number_of_seconds(text: str) -> None:
    with pytest.raises(InputError, match=f"Pod default/p: .*/arrives-seconds is '{text}', not a number of seconds"):
        Simulation([annotated(make_pod("p"), arrives=text)])


@pytest.mark.parametrize("text", ["", "600", "600-700,", "700-600", "1-9,8-10", "1-,5-6", "-1-5", "a-b"])
def test_times_of_failures_must_be_ascending_periods(text: str) -> None:
    with pytest.raises(InputError, match=r"Node a: .*/down-seconds is .*: write periods in ascending order"):
        Simulation([failing("a", text)])


def test_pods_of_a_failed_node_run_again_from_the_beginning_elsewhere() -> None:
    with Simulation([failing("a", "50-"), arriving("p", 0, 100)]) as simulation:
        assert placed(simulation.run(49).result.outcomes) == {"p": ("a", "Running")}
        (outcome,) = simulation.run(10).result.outcomes
        assert outcome.node is None
        assert outcome.message.startswith("0/1 nodes are available: 1 node(s) had untolerated taint(s).")
        simulation.create(make_node("b", cpu=1))
        assert placed(simulation.run().result.outcomes) == {"p": ("b", "Succeeded")}
        assert simulation.seconds == pytest.approx(159, abs=1)


def test_repaired_node_takes_pods_again() -> None:
    with Simulation([failing("a", "50-80,100-120"), arriving("p", 0, 30), arriving("q", 60, 30)]) as simulation:
        simulation.run()
        ended = {each.pod: each.ended_at - simulation.started_at for each in simulation.bindings}
        assert ended == {"default/p": 0, "default/q": pytest.approx(120, abs=1)}
        assert [decision.node for decision in simulation.decisions if decision.pod == "default/q"].count("a") == 2
        (node,) = simulation.objects(Node)
        assert (node.spec.taints, [(each.type, each.status) for each in node.status.conditions]) == (
            (),
            [("Ready", "True")],
        )


def test_pods_with_an_owner_are_replaced_by_it_and_bare_pods_are_gone() -> None:
    containers: dict[str, object] = {"containers": [{"name": "app", "image": "app:1"}]}
    web = deployment(1, template=WorkloadPodTemplate(metadata=template().metadata, spec=containers))
    objects: list[ApiObject] = [failing("a", "50-"), annotated(make_node("b"), arrives="40"), make_pod("bare"), web]
    with Simulation(objects) as simulation:
        before = {each.pod: each.node for each in simulation.run(30).outcomes}
        assert ("default/bare" in before, set(before.values())) == (True, {"a"})
        ((pod, node),) = ((each.pod, each.node) for each in simulation.run().outcomes)
        assert (pod in before, node) == (False, "b")


def test_pod_that_tolerates_the_taint_stays_on_a_failed_node() -> None:
    tolerant = make_pod("agent", tolerations=[Toleration(operator="Exists")])
    with Simulation([failing("a", "50-"), tolerant]) as simulation:
        assert placed(simulation.run(100).result.outcomes) == {"agent": ("a", "Running")}


def test_pod_that_has_ended_is_not_created_again() -> None:
    with Simulation([failing("a", "50-60"), arriving("p", 0, 20)]) as simulation:
        assert placed(simulation.run().result.outcomes) == {"p": ("a", "Succeeded")}
        assert len(simulation.bindings) == 1
        simulation.delete(Pod, "p")
        assert not simulation.run().outcomes


def test_preempted_pod_of_a_trace_waits_for_room_again() -> None:
    with Simulation(
        [make_node("a", cpu=1), arriving("low", 0, 50), arriving("high", 10, 50, priority=9)]
    ) as simulation:
        simulation.run()
        assert placed(simulation.result.outcomes) == {"low": ("a", "Succeeded"), "high": ("a", "Succeeded")}
        assert [decision.victims for decision in simulation.decisions if decision.victims] == [("default/low",)]


class Late(Plugin):
    """Takes its time to bind."""

    name = "Late"

    @hookimpl
    async def pre_bind(self, state: CycleState, pod: PendingPod, node_name: str) -> None:
        await asyncio.sleep(20.0)


def test_pod_that_is_bound_to_a_node_after_its_failure_is_lost_too() -> None:
    with Simulation([failing("a", "10-"), make_pod("p")], plugins=[Late]) as simulation:
        assert placed(simulation.run(15).result.outcomes) == {"p": (None, "Pending")}
        assert not simulation.run().outcomes
        assert len(simulation.bindings) == 1


def test_node_that_does_not_exist_does_not_fail() -> None:
    node = annotated(make_node("a"), arrives="50", down="10-20,60-70")
    with Simulation([node, make_pod("p")]) as simulation:
        assert placed(simulation.run(59).result.outcomes) == {"p": ("a", "Running")}
        assert not simulation.run().outcomes
