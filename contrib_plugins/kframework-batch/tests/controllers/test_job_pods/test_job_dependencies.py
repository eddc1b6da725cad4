"""Tasks wait for those that they depend on."""

from __future__ import annotations

import pytest
from kframework_batch.controllers.job_admission import with_defaults
from kframework_batch.controllers.job_pods import VERSION, VolcanoJobPods, dependencies_met, is_acyclic
from kframework_batch.objects import DependsOn, Job, JobSpec, TaskSpec
from msgspec.structs import replace

from kframework.objects import ContainerStatus, ObjectMeta, Pod
from kframework.testing import make_pod


def task(name: str, *names: str, iteration: str = "", replicas: int = 2, least: int | None = None) -> TaskSpec:
    depends_on = DependsOn(name=names, iteration=iteration) if names or iteration else None
    return TaskSpec(name=name, replicas=replicas, min_available=least, depends_on=depends_on)


@pytest.mark.parametrize(
    ("tasks", "expected"),
    [
        ((task("a"), task("b")), True),
        ((task("b", "a"), task("a")), True),
        ((task("a"), task("b", "a"), task("c", "a", "b")), True),
        ((task("a", "a"),), False),
        ((task("a", "b"), task("b", "a")), False),
        ((task("a"), task("b", "nobody")), False),
        ((task("a", iteration="any"),), True),
    ],
)
def test_dependencies_must_be_acyclic_and_known(tasks: tuple[TaskSpec, ...], expected: bool) -> None:
    assert is_acyclic(tasks) is expected


def pod(name: str, phase: str = "Running", *, ready: bool | None = None) -> Pod:
    made = make_pod(f"j-{name}", annotations={VERSION: "0"})
    statuses = () if ready is None else (ContainerStatus(name="c", ready=ready),)
    return replace(made, status=replace(made.status, phase=phase, container_statuses=statuses))


BOTH = (pod("a-0"), pod("a-1"))


@pytest.mark.parametrize(
    ("waiting", "pods", "expected"),
    [
        (task("z"), (), True),
        (task("z", "a"), (), False),
        (task("z", "a"), (pod("a-0"),), False),
        (task("z", "a"), BOTH, True),
        (task("z", "a"), (pod("a-0"), pod("a-1", "Pending")), False),
        (task("z", "a"), (pod("a-0", "Succeeded"), pod("a-1")), True),
        (task("z", "a"), (pod("a-0", "Failed"), pod("a-1")), False),
        (task("z", "a"), (pod("a-0", ready=True), pod("a-1", ready=False)), False),
        (task("z", "a"), (pod("a-0", ready=True), pod("a-1", ready=True)), True),
        (task("z", "b"), (pod("b-0"),), True),  # the minimum of b is one
        (task("z", "a", "b"), BOTH, False),
        (task("z", "a", "b"), (*BOTH, pod("b-1")), True),
        (task("z", "a", "b", iteration="all"), BOTH, False),
        (task("z", "a", "b", iteration="any"), BOTH, True),
        (task("z", "a", "b", iteration="any"), (pod("a-0"),), False),
        (task("z", iteration="any"), (), True),
    ],
)
def test_task_starts_when_enough_pods_of_its_dependencies_run(
    waiting: TaskSpec, pods: tuple[Pod, ...], expected: bool
) -> None:
    spec = JobSpec(tasks=(task("a"), task("b", least=1), waiting))
    job = with_defaults(Job(metadata=ObjectMeta(name="j"), spec=spec), "volcano")
    assert dependencies_met(job, job.spec.tasks[2], VolcanoJobPods(job, pods)) is expected
