"""The controllers of a simulated cluster create pods of workloads, volumes of claims, and end what has run."""

from __future__ import annotations

from msgspec.structs import replace

from kframework.objects import Job, WorkloadPodTemplate
from kframework.simulation.simulation import Simulation, simulate
from kframework.simulation.timetable import ARRIVES_SECONDS
from kframework.testing import make_node
from tests.in_memory.workloads.workload_cluster import deployment, job, template

CONTAINERS: dict[str, object] = {"containers": [{"name": "app", "image": "app:1"}]}


def test_pods_of_a_deployment_in_a_file_are_scheduled() -> None:
    web = deployment(3, template=WorkloadPodTemplate(metadata=template().metadata, spec=CONTAINERS))
    result = simulate([make_node("n1", cpu=4), web]).result
    assert [outcome.node for outcome in result.outcomes] == ["n1"] * 3
    assert result.seconds < 60


def test_job_in_a_file_runs_to_its_end_and_is_deleted() -> None:
    work = job(40, completions=2, ttl_seconds_after_finished=30)
    with Simulation([make_node("n1"), work]) as run:
        run.run(60)
        assert [outcome.phase for outcome in run.result.outcomes] == ["Succeeded", "Running"]
        run.run()
        assert (run.result.outcomes, run.cluster.objects(Job)) == ((), [])
        assert 105 < run.seconds < 120


def test_workloads_without_controllers_have_no_pods() -> None:
    with Simulation([make_node("n1"), job(40)], workload_controllers=()) as simulation:
        assert not simulation.run().outcomes
        assert len(simulation.controllers) == 3


def test_no_workload_controllers_are_created_for_a_cluster_without_workloads() -> None:
    with Simulation([make_node("n1")]) as simulation:
        assert len(simulation.controllers) == 3


def test_deployment_that_arrives_later_gets_its_pods_then() -> None:
    web = deployment(2, template=WorkloadPodTemplate(metadata=template().metadata, spec=CONTAINERS))
    web = replace(web, metadata=replace(web.metadata, annotations={ARRIVES_SECONDS: "60"}))
    with Simulation([make_node("n1", cpu=4), web]) as simulation:
        assert not simulation.run(59).outcomes
        assert [outcome.node for outcome in simulation.run().outcomes] == ["n1"] * 2
