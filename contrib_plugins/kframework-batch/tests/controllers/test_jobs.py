"""Jobs become pod groups and pods, and end as they should; a scheduler of three lines puts everything on one node."""

from __future__ import annotations

import asyncio

import pytest
from kframework_batch.objects import (
    DependsOn,
    Job,
    JobPolicy,
    JobState,
    JobStatus,
    NetworkPolicy,
    PodGroup,
    PodGroupStatus,
    Secret,
)
from kframework_batch.pod_templates import template_spec
from msgspec.structs import replace

from kframework.clock import VirtualTimeLoop
from kframework.in_memory.kubelet import EXIT_CODE
from kframework.objects import ConfigMap, ObjectMeta, OwnerReference, Pod, PriorityClass, Service
from kframework.testing import make_pod
from tests.support.volcano_jobs import job, on, running, task, template


@pytest.fixture(scope="module")
def anyio_backend() -> object:
    return "asyncio", {"loop_factory": VirtualTimeLoop}


async def test_pods_are_created_once_the_pod_group_is_inqueue() -> None:
    async with running(job(task("a", 1), task("b", 2))) as world:
        assert (world.phase, world.pods) == ("Pending", {})
        assert world.group is not None and world.group.spec.min_member == 3
        world.memory.merge(PodGroup, world.group.metadata.name, {"status": {"phase": "Pending"}}, "default")
        await world.settle()
        assert world.pods == {}
        world.memory.merge(PodGroup, world.group.metadata.name, {"status": {"phase": "Inqueue"}}, "default")
        await world.settle()
        assert world.pods == {"j-a-0": "Pending", "j-b-0": "Pending", "j-b-1": "Pending"}
        assert (world.phase, world.counts, world.status.min_available) == ("Pending", (3, 0, 0, 0, 0), 3)


async def test_job_completes_and_its_pod_group_is_deleted() -> None:
    async with running(job(task("a", 2, 10))) as world:
        await world.schedule()
        assert (world.phase, world.counts) == ("Running", (0, 2, 0, 0, 0))
        await world.settle(11)
        assert (world.phase, world.counts) == ("Completed", (0, 0, 2, 0, 0))
        assert world.pods == {"j-a-0": "Succeeded", "j-a-1": "Succeeded"}
        assert world.group is None


async def test_job_without_policies_fails_when_all_pods_have_ended() -> None:
    async with running(job(task("a", 2, 10))) as world:
        await world.schedule()
        await world.fail("j-a-0")
        assert (world.phase, world.counts) == ("Running", (0, 1, 0, 1, 0))
        await world.settle(11)
        assert (world.phase, world.counts) == ("Failed", (0, 0, 1, 1, 0))


async def test_restart_recreates_pod_group_and_pods() -> None:
    async with running(job(task("a", 2), policies=on("PodFailed", "RestartJob"))) as world:
        await world.schedule()
        before = world.group
        await world.fail("j-a-0")
        # The one that runs has its grace, the other is gone at once; both must be gone for both to be needed.
        assert (world.phase, world.counts, world.group) == ("Restarting", (0, 0, 0, 0, 1), None)
        await world.settle(6)
        assert (world.phase, world.pods) == ("Pending", {})
        assert world.group is not None and before is not None
        assert (world.group.metadata.name, world.group.status.phase) == (before.metadata.name, "")
        await world.schedule()
        assert (world.phase, world.counts) == ("Running", (0, 2, 0, 0, 0))
        assert (world.status.version, world.status.retry_count) == (1, 1)
        annotations = world.memory.read(Pod, "j-a-0").metadata.annotations
        assert (annotations["volcano.sh/job-version"], annotations["volcano.sh/job-retry-count"]) == ("1", "1")


async def test_job_fails_after_max_retry_restarts() -> None:
    async with running(job(task("a", 2), policies=on("PodFailed", "RestartJob"), max_retry=2)) as world:
        await world.schedule()
        await world.fail("j-a-0")
        await world.settle(6)
        await world.schedule()
        await world.fail("j-a-1")
        assert world.phase == "Failed"
        assert world.status.state.reason == "PodFailed"
        assert world.status.state.message == "pod j-a-1 has failed: RestartJob, but maxRetry is 2"
        await world.settle(6)
        assert world.pods == {"j-a-1": "Failed"}  # kept to be looked at
        assert (world.counts, world.group) == ((0, 0, 0, 1, 0), None)


@pytest.mark.parametrize(
    ("action", "meanwhile", "end"),
    [
        ("AbortJob", "Aborting", "Aborted"),
        ("CompleteJob", "Completing", "Completed"),
        ("TerminateJob", "Terminating", "Terminated"),
    ],
)
async def test_policy_ends_a_job(action: str, meanwhile: str, end: str) -> None:
    async with running(job(task("a", 2, 10), task("b", 1), policies=on("TaskCompleted", action))) as world:
        await world.schedule()
        await world.settle(11)
        assert (world.phase, world.counts) == (meanwhile, (0, 0, 2, 0, 1))
        await world.settle(6)
        assert (world.phase, world.counts) == (end, (0, 0, 2, 0, 0))
        assert world.status.state.message == f"task a is completed: {action}"
        assert (world.pods, world.group) == ({"j-a-0": "Succeeded", "j-a-1": "Succeeded"}, None)
        await world.settle(100)
        assert world.phase == end


async def test_restart_task_leaves_other_tasks_running() -> None:
    failing = task("a", 2, None, *on("PodFailed", "RestartTask"))
    async with running(job(failing, task("b", 1))) as world:
        await world.schedule()
        uids = {pod.metadata.name: pod.metadata.uid for pod in world.memory.objects(Pod)}
        group = world.group
        await world.fail("j-a-1")
        await world.settle(6)
        await world.schedule()
        assert (world.phase, world.counts, world.status.retry_count) == ("Running", (0, 3, 0, 0, 0), 1)
        now = {pod.metadata.name: pod.metadata.uid for pod in world.memory.objects(Pod)}
        assert {name for name, uid in now.items() if uid == uids[name]} == {"j-b-0"}
        assert group is not None and world.group is not None and world.group.metadata.uid == group.metadata.uid


async def test_restart_pod_leaves_other_pods_running() -> None:
    async with running(job(task("a", 3), policies=on("PodFailed", "RestartPod"))) as world:
        await world.schedule()
        uids = {pod.metadata.name: pod.metadata.uid for pod in world.memory.objects(Pod)}
        await world.fail("j-a-1")
        await world.schedule()
        now = {pod.metadata.name: pod.metadata.uid for pod in world.memory.objects(Pod)}
        assert {name for name, uid in now.items() if uid != uids[name]} == {"j-a-1"}
        assert (world.phase, world.counts) == ("Running", (0, 3, 0, 0, 0))


async def test_evicted_pod_is_recreated_without_a_policy() -> None:
    async with running(job(task("a", 2))) as world:
        await world.schedule()
        world.memory.remove(Pod, "j-a-0")
        await world.settle()
        assert world.counts == (0, 1, 0, 0, 1)
        await world.settle(6)
        assert world.counts == (1, 1, 0, 0, 0)
        assert world.status.retry_count == 0
    async with running(job(task("a", 2), policies=on("PodEvicted", "TerminateJob"))) as world:
        await world.schedule()
        world.memory.remove(Pod, "j-a-0", grace=0)
        await world.settle(6)
        assert (world.phase, world.pods) == ("Terminated", {})


async def test_policy_restarts_a_broken_gang() -> None:
    async with running(job(task("a", 2), policies=on("Unknown", "RestartJob"))) as world:
        await world.schedule()
        assert world.group is not None
        world.memory.merge(PodGroup, world.group.metadata.name, {"status": {"phase": "Unknown"}}, "default")
        await world.settle(6)
        await world.schedule()
        assert (world.phase, world.status.retry_count, world.counts) == ("Running", 1, (0, 2, 0, 0, 0))


async def test_terminating_pod_group_is_not_used() -> None:
    restarted = job(task("a", 1), policies=on("Unknown", "RestartJob"))
    status = JobStatus(state=JobState(phase="Restarting"), version=1, retry_count=1)
    restarted = replace(restarted, metadata=replace(restarted.metadata, uid="u"), status=status)
    owner = OwnerReference(api_version="batch.volcano.sh/v1alpha1", kind="Job", name="j", uid="u", controller=True)
    metadata = ObjectMeta(
        name="j-u",
        namespace="default",
        annotations={"volcano.sh/job-version": "0"},
        owner_references=(owner,),
        finalizers=("somebody.com/waits",),
        deletion_timestamp="2026-01-01T00:00:00Z",
    )
    async with running(restarted, PodGroup(metadata=metadata, status=PodGroupStatus(phase="Unknown"))) as world:
        assert (world.phase, world.status.retry_count, world.pods) == ("Pending", 1, {})
        world.memory.merge(PodGroup, "j-u", {"metadata": {"finalizers": []}}, "default")
        await world.settle()
        assert world.group is not None and world.group.metadata.annotations == {"volcano.sh/job-version": "1"}


async def test_tasks_start_in_order_of_their_dependencies() -> None:
    second = replace(task("b", 2), depends_on=DependsOn(name=("a",)))
    third = replace(task("c", 1), depends_on=DependsOn(name=("b", "a"), iteration="all"))
    async with running(job(third, second, task("a", 1, 10), min_available=1)) as world:
        seen = [sorted(world.pods)]
        for _ in range(2):
            await world.schedule()
            seen.append(sorted(world.pods))
        assert seen == [[], ["j-a-0", "j-b-0", "j-b-1"], ["j-a-0", "j-b-0", "j-b-1", "j-c-0"]]


async def test_plugin_objects_exist_while_the_job_is_alive() -> None:
    plugins: dict[str, tuple[str, ...]] = {"svc": (), "env": (), "ssh": ()}
    async with running(job(task("a", 1, 10), plugins=plugins)) as world:
        owned = (ConfigMap, Secret, Service, NetworkPolicy)
        assert [len(world.memory.objects(kind)) for kind in owned] == [1, 1, 1, 1]
        assert world.status.controlled_resources == {f"plugin-{name}": name for name in plugins}
        await world.schedule()
        (claim,) = {volume.name for volume in world.memory.read(Pod, "j-a-0").spec.volumes} - {"j-ssh"}
        assert (claim, world.memory.read(Pod, "j-a-0").spec.hostname) == ("j-svc", "j-a-0")
        await world.settle(11)
        assert (world.phase, world.status.controlled_resources) == ("Completed", {})
        assert [len(world.memory.objects(kind)) for kind in owned] == [0, 0, 0, 0]


async def test_plugin_objects_are_deleted_with_the_job() -> None:
    async with running(job(task("a", 1), plugins={"svc": (), "ssh": ()})) as world:
        await world.schedule()
        world.memory.remove(Job, "j", "default")
        await world.settle(6)
        owned = (ConfigMap, Secret, Service, NetworkPolicy, Pod, PodGroup)
        assert [len(world.memory.objects(kind)) for kind in owned] == [0] * 6


async def test_action_runs_when_its_timeout_expires() -> None:
    policies = (JobPolicy(event="PodFailed", action="AbortJob", timeout="1m"),)
    async with running(job(task("a", 2), policies=policies)) as world:
        await world.schedule()
        pod = world.memory.read(Pod, "j-a-0")
        world.memory.set_status(pod, replace(pod.status, phase="Failed"))
        await asyncio.sleep(59)
        assert (world.phase, world.controller.idle) == ("Running", False)
        await world.settle(10)
        assert world.phase == "Aborted"


async def test_pod_pending_for_too_long_ends_its_job() -> None:
    policies = (JobPolicy(event="PodPending", action="TerminateJob", timeout="1m"),)
    async with running(job(task("a", 1), policies=policies)) as world:
        assert world.group is not None
        world.memory.merge(PodGroup, world.group.metadata.name, {"status": {"phase": "Inqueue"}}, "default")
        await asyncio.sleep(59)
        assert world.phase == "Pending"
        await world.settle(2)
        assert (world.phase, world.pods) == ("Terminated", {})


@pytest.mark.parametrize(("code", "end", "retries"), [(3, "Failed", 2), (4, "Terminated", 0)])
async def test_exit_code_of_a_pod_selects_the_action(code: int, end: str, retries: int) -> None:
    policies = (
        JobPolicy(exit_code=3, action="RestartJob"),
        JobPolicy(event="PodFailed", action="TerminateJob"),
    )
    failing = task("a", 1, 10)
    annotations = failing.template.metadata.annotations | {EXIT_CODE: str(code)}
    failing = replace(failing, template=replace(failing.template, metadata=ObjectMeta(annotations=annotations)))
    async with running(job(failing, policies=policies, max_retry=2)) as world:
        for _ in range(3):
            await world.schedule()
            await world.settle(20)
        assert (world.phase, world.status.retry_count) == (end, retries)
        assert world.status.state.message.startswith(f"pod j-a-0 has failed with exit code {code}: ")


async def test_job_can_be_scaled_up_and_down() -> None:
    async with running(job(task("a", 2), min_available=1)) as world:
        await world.schedule()

        def resized(replicas: int) -> Job:
            old = world.memory.read(Job, "j", "default")
            tasks = (replace(old.spec.tasks[0], replicas=replicas, min_available=0),)
            return replace(old, spec=replace(old.spec, tasks=tasks))

        world.memory.replace(resized(4))
        await world.settle()
        assert world.counts == (2, 2, 0, 0, 0)
        await world.schedule()
        world.memory.replace(resized(1))
        await world.settle()
        assert world.counts == (0, 1, 0, 0, 3)
        await world.settle(6)
        assert (world.phase, world.counts, [*world.pods]) == ("Running", (0, 1, 0, 0, 0), ["j-a-0"])
        assert world.group is not None
        assert world.group.spec.min_task_member == {"a": 0}
        world.memory.replace(resized(0))
        await world.settle(6)
        assert world.status.state.reason == "InvalidJob"  # it needs one to run
        assert [*world.pods] == ["j-a-0"]


async def test_pod_group_is_updated_with_its_job_and_recreated_after_deletion() -> None:
    async with running(job(task("a", 2))) as world:
        world.memory.merge(Job, "j", {"spec": {"minAvailable": 1}}, "default")
        await world.settle()
        assert world.group is not None
        assert (world.group.spec.min_member, world.group.spec.min_resources) == (1, {"cpu": "100m"})
        world.memory.remove(PodGroup, world.group.metadata.name, "default")
        await world.settle()
        assert world.group is not None


async def test_objects_of_a_deleted_job_are_deleted() -> None:
    async with running(job(task("a", 2))) as world:
        await world.schedule()
        world.memory.remove(Job, "j", "default")
        await world.settle()
        assert world.group is None
        await world.settle(6)
        assert world.pods == {}


async def test_pods_of_an_unknown_job_are_not_deleted() -> None:
    owner = OwnerReference(
        api_version="batch.volcano.sh/v1alpha1", kind="Job", name="j", uid="somewhere", controller=True
    )
    async with running(make_pod("mine", owner=owner)) as world:
        await world.settle(100)
        assert [*world.pods] == ["mine"]


async def test_finished_job_is_deleted_after_its_ttl() -> None:
    async with running(job(task("a", 1, 10), ttl_seconds_after_finished=60)) as world:
        await world.schedule()
        await world.settle(65)
        assert world.phase == "Completed"
        await world.settle(10)
        assert (world.memory.objects(Job), world.pods) == ([], {})


async def test_aborted_job_is_not_deleted_after_its_ttl() -> None:
    policies = on("TaskCompleted", "AbortJob")
    async with running(job(task("a", 1, 10), policies=policies, ttl_seconds_after_finished=60)) as world:
        await world.schedule()
        await world.settle(500)
        assert world.phase == "Aborted"


async def test_invalid_job_fails_without_affecting_others() -> None:
    other = replace(job(task("a", 1)), metadata=ObjectMeta(name="other", namespace="default"))
    async with running(job(task("a", 1), min_available=7), other) as world:
        assert (world.phase, world.status.state.reason) == ("Failed", "InvalidJob")
        assert "minAvailable" in world.status.state.message
        assert world.group is not None and world.group.metadata.name.startswith("other-")


async def test_unsupported_parts_of_a_job_are_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    async with running(job(task("a", 1), policies=on("PodPending", "AbortJob"))) as world:
        await world.schedule()
        assert world.phase == "Running"
    assert caplog.text.count("job default/j: spec.policies: event PodPending without a timeout is ignored") == 1


async def test_min_resources_count_tasks_of_highest_priority_first() -> None:
    important = replace(
        task("b", 1), template=replace(template(), spec=template_spec(make_pod(cpu=3, scheduler_name="").spec))
    )
    important = replace(
        important,
        template=replace(important.template, spec=replace(important.template.spec, priority_class_name="high")),
    )
    high = PriorityClass(metadata=ObjectMeta(name="high"), value=7)
    async with running(job(task("a", 5), important, min_available=2), high) as world:
        assert world.group is not None and world.group.spec.min_resources is not None
        assert world.group.spec.min_resources["cpu"] == "3100m"


async def test_pod_of_another_owner_with_the_same_name_is_unchanged() -> None:
    async with running(job(task("a", 2)), make_pod("j-a-0", labels={"mine": "yes"})) as world:
        await world.schedule()
        assert world.memory.read(Pod, "j-a-0").metadata.labels == {"mine": "yes"}
        assert (world.phase, world.counts) == ("Pending", (0, 1, 0, 0, 0))
