"""With the gate WorkloadWithJob the Job controller creates the group of a job's pods."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from kframework import Simulation
from kframework.config.load import load_configuration
from kframework.objects import Job, Pod, PodGroup, PodSchedulingGroup, Workload
from kframework.objects.pod_groups import GangSchedulingPolicy, PodGroupSchedulingPolicy
from kframework.objects.workloads import JobScheduling
from kframework.testing import make_node
from tests.in_memory.workloads.workload_cluster import job

BOTH = ("GenericWorkload", "WorkloadWithJob")
WORK = job(parallelism=3, completions=3)
GANG = JobScheduling(scheduling_policy=PodGroupSchedulingPolicy(gang=GangSchedulingPolicy()))


def run(work: Job, *, cpu: int, gates: tuple[str, ...] = BOTH, **spec: object) -> Simulation:
    document = {"apiVersion": "kframework.dev/v1", "kind": "KFrameworkConfiguration"}
    config = load_configuration({**document, "featureGates": dict.fromkeys(gates, True)})
    containers = [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]
    template = replace(work.spec.template, spec={"containers": containers, **spec})
    work = replace(work, spec=replace(work.spec, template=template))
    simulation = Simulation([make_node("n", cpu=cpu), work], config=config)
    simulation.run(3)
    return simulation


def bound(simulation: Simulation) -> int:
    return sum(bool(pod.spec.node_name) for pod in simulation.cluster.objects(Pod))


def test_job_has_a_basic_group_and_its_workload() -> None:
    simulation = run(WORK, cpu=2)
    (group,), (workload,) = simulation.cluster.objects(PodGroup), simulation.cluster.objects(Workload)
    assert (group.metadata.name, group.spec.scheduling_policy.basic is not None) == ("work", True)
    assert [owner.kind for owner in group.metadata.owner_references] == ["Job"]
    assert group.spec.workload_ref is not None
    template = workload.spec.pod_group_templates[0]
    assert (group.spec.workload_ref.workload_name, group.spec.workload_ref.template_name) == ("work", template.name)
    named = {pod.spec.scheduling_group for pod in simulation.cluster.objects(Pod)}
    assert named == {PodSchedulingGroup(pod_group_name="work")}
    assert bound(simulation) == 2


def test_gang_of_a_job_needs_all_its_pods() -> None:
    work = replace(WORK, spec=replace(WORK.spec, scheduling=GANG))
    assert bound(run(work, cpu=2)) == 0
    assert bound(run(work, cpu=3)) == 3


def test_job_has_no_group_without_the_gate() -> None:
    simulation = run(WORK, cpu=2, gates=("GenericWorkload",))
    assert list(simulation.cluster.objects(PodGroup)) == []
    assert bound(simulation) == 2


def test_job_whose_pods_name_a_group_of_their_own_gets_none() -> None:
    simulation = run(WORK, cpu=3, schedulingGroup={"podGroupName": "mine"})
    assert [*simulation.cluster.objects(PodGroup), *simulation.cluster.objects(Workload)] == []
    named = {pod.spec.scheduling_group for pod in simulation.cluster.objects(Pod)}
    assert named == {PodSchedulingGroup(pod_group_name="mine")}


@pytest.mark.parametrize(
    ("work", "gates"),
    [
        pytest.param(replace(WORK, spec=replace(WORK.spec, scheduling=GANG)), BOTH, id="gang"),
        pytest.param(WORK, BOTH, id="without a minimum"),
        pytest.param(job(parallelism=1, completions=4), BOTH, id="one pod"),
        pytest.param(WORK, ("GenericWorkload",), id="jobs without groups"),
        pytest.param(WORK, (), id="no groups"),
    ],
)
def test_parallelism_of_a_job_may_change(work: Job, gates: tuple[str, ...]) -> None:
    simulation = run(work, cpu=2, gates=gates)
    simulation.patch(Job, "work", {"spec": {"parallelism": 2}})
    simulation.run(90)
    assert len(list(simulation.cluster.objects(Pod))) == 2
    assert len(list(simulation.cluster.objects(PodGroup))) == (gates == BOTH)
