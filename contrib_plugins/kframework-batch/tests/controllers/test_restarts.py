"""A controller that is broken off before or after any of its calls, and started again, comes to the same end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple, TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kframework_batch.controllers.controller import Reconciler
from kframework_batch.controllers.jobs import VolcanoJobController
from kframework_batch.controllers.pod_groups import PodGroupController
from kframework_batch.controllers.queues import QueueController
from kframework_batch.objects import (
    Command,
    DependsOn,
    Job,
    JobPolicy,
    JobSpec,
    JobStatus,
    PodGroup,
    Queue,
    QueueSpec,
    TaskSpec,
)
from kframework_batch.pod_templates import PodTemplateSpec, template_spec
from msgspec.structs import replace

from kframework.client.cluster import Cluster
from kframework.clock import LoopClock, run_virtual
from kframework.engine import Message
from kframework.errors import ClusterError
from kframework.in_memory.cluster import MemoryCluster
from kframework.in_memory.kubelet import RUN_SECONDS, Kubelet
from kframework.objects import ApiObject, ConfigMap, ObjectMeta, OwnerReference, Pod, Service
from kframework.testing import make_pod

T = TypeVar("T", bound=ApiObject)

#: All that a user sees but uids: where jobs stand, pod groups and pods.
Seen = tuple[list[JobStatus], list[object], list[object]]


class BrokenOff(BaseException):
    """The process of the controller has ended."""


class Line:
    """What a controller has to a cluster; it breaks once, before or after the call of this number."""

    def __init__(self, memory: MemoryCluster, breaks_at: int, *, after: bool) -> None:
        self._memory = memory
        self._breaks_at = breaks_at
        self._after = after
        self.calls = 0

    def _count(self, *, after: bool) -> None:
        self.calls += not after
        if self.calls == self._breaks_at and after == self._after:
            self._breaks_at = 0
            raise BrokenOff

    async def watch(
        self, kinds: Collection[type[ApiObject]], offer: Callable[[Message], None], *, ended_pods: bool = False
    ) -> None:
        await self._memory.watch(kinds, offer, ended_pods=ended_pods)

    async def get(self, kind: type[T], name: str, namespace: str = "") -> T:
        self._count(after=False)
        found = await self._memory.get(kind, name, namespace)
        self._count(after=True)
        return found

    async def create(self, obj: T) -> T:
        self._count(after=False)
        made = await self._memory.create(obj)
        self._count(after=True)
        return made

    async def patch(self, kind: type[T], name: str, patch: Mapping[str, object], namespace: str = "") -> T:
        self._count(after=False)
        stored = await self._memory.patch(kind, name, patch, namespace)
        self._count(after=True)
        return stored

    async def patch_status(
        self,
        kind: type[T],
        name: str,
        patch: Mapping[str, object],
        namespace: str = "",
        *,
        uid: str = "",
        resource_version: str = "",
    ) -> T:
        self._count(after=False)
        stored = await self._memory.patch_status(
            kind, name, patch, namespace, uid=uid, resource_version=resource_version
        )
        self._count(after=True)
        return stored

    async def delete(self, kind: type[ApiObject], name: str, namespace: str = "", *, uid: str = "") -> None:
        self._count(after=False)
        await self._memory.delete(kind, name, namespace, uid=uid)
        self._count(after=True)


class Blow(NamedTuple):
    """What befalls a pod or the job, in one second of many."""

    second: int
    what: str
    pod: str


class Story(NamedTuple):
    """A job, and what befalls it."""

    job: Job
    blows: tuple[Blow, ...]


class Course(NamedTuple):
    """What there was second by second, and how many calls it took."""

    states: list[Seen]
    calls: int


def told(story: Story, breaks_at: int = 0, *, after: bool = True) -> Course:
    """Tell a story on virtual time."""

    async def tell() -> Course:
        clock = LoopClock(asyncio.get_running_loop())
        memory = MemoryCluster(clock, [story.job])
        line = Line(memory, breaks_at, after=after)
        kubelet = asyncio.ensure_future(Kubelet(memory, clock).run())
        controller = asyncio.ensure_future(
            kept_running(line, lambda line: VolcanoJobController(line, clock, "volcano"))
        )
        states: list[Seen] = []
        for second in range(40):
            await asyncio.sleep(0.25)
            schedule(memory)
            await asyncio.sleep(0.25)
            states.append(state(memory))
            for blow in story.blows:
                if blow.second == second:
                    strike(memory, blow)
            await asyncio.sleep(0.5)
        assert not controller.done(), controller.exception()
        for task in (kubelet, controller):
            task.cancel()
        await asyncio.gather(kubelet, controller, return_exceptions=True)
        return Course(states, line.calls)

    return run_virtual(tell)


async def kept_running(line: Line, make: Callable[[Cluster], Reconciler]) -> None:
    while True:
        try:
            await make(line).run()  # type: ignore[arg-type]  # as much of a cluster as it uses
        except* BrokenOff:
            pass


def schedule(memory: MemoryCluster) -> None:
    for group in memory.objects(PodGroup):
        if group.status.phase == "":
            memory.merge(PodGroup, group.metadata.name, {"status": {"phase": "Inqueue"}}, "default")
    for pod in memory.objects(Pod):
        if not pod.spec.node_name:
            memory.assign("default", pod.metadata.name, pod.metadata.uid, "node")


def strike(memory: MemoryCluster, blow: Blow) -> None:
    pod = memory.find(Pod, blow.pod, "default")
    job = memory.read(Job, "j", "default")
    match blow.what:
        case "command":
            target = OwnerReference(api_version="batch.volcano.sh/v1alpha1", kind="Job", name="j")
            metadata = ObjectMeta(generate_name="c-", namespace="default")
            memory.add(Command(metadata=metadata, action=blow.pod, target=target))
        case "fail" if pod is not None and pod.status.phase == "Running":
            memory.set_status(pod, replace(pod.status, phase="Failed"))
        case "evict" if pod is not None:
            memory.remove(Pod, blow.pod, "default")
        case "kill" if pod is not None:
            memory.remove(Pod, blow.pod, "default", grace=0)
        case "break":
            for group in memory.objects(PodGroup):
                memory.merge(PodGroup, group.metadata.name, {"status": {"phase": "Unknown"}}, "default")
        case "grow" | "shrink":
            first, *others = job.spec.tasks
            replicas = first.replicas + (1 if blow.what == "grow" else -1)
            tasks = (replace(first, replicas=replicas), *others)
            memory.replace(replace(job, spec=replace(job.spec, tasks=tasks)))


def state(memory: MemoryCluster) -> Seen:
    jobs = [job.status for job in memory.objects(Job)]
    owned: list[object] = [each.metadata.name for kind in (ConfigMap, Service) for each in memory.objects(kind)]
    owned += [each.action for each in memory.objects(Command)]
    groups: list[object] = [
        (group.metadata.annotations, group.spec, group.status.phase) for group in memory.objects(PodGroup)
    ]
    pods = sorted(
        (pod.metadata.name, pod.status.phase, pod.metadata.deletion_timestamp or "", str(pod.metadata.annotations))
        for pod in memory.objects(Pod)
    )
    return jobs, [*groups, *owned], [*pods]


_EVENTS = ("PodFailed", "PodEvicted", "TaskCompleted", "Unknown")
_ACTIONS = ("RestartJob", "RestartTask", "RestartPod", "AbortJob", "CompleteJob", "TerminateJob")
_POLICIES = st.dictionaries(st.sampled_from(_EVENTS), st.sampled_from(_ACTIONS), max_size=3).map(
    lambda actions: tuple(JobPolicy(event=event, action=action) for event, action in actions.items())
)


@st.composite
def _tasks(draw: st.DrawFn, name: str) -> TaskSpec:
    seconds = draw(st.sampled_from([None, 4, 9]))
    annotations = {} if seconds is None else {RUN_SECONDS: str(seconds)}
    grace = draw(st.sampled_from([0, 2]))
    spec = replace(make_pod(scheduler_name="").spec, termination_grace_period_seconds=grace)
    return TaskSpec(
        name=name,
        replicas=draw(st.integers(1, 3)),
        min_available=draw(st.sampled_from([None, 0, 1])),
        template=PodTemplateSpec(metadata=ObjectMeta(annotations=annotations), spec=template_spec(spec)),
        policies=draw(_POLICIES),
        depends_on=draw(st.sampled_from([None, DependsOn(name=("a",))])) if name != "a" else None,
    )


_COMMANDS = st.builds(
    Blow,
    st.integers(1, 20),
    st.just("command"),
    st.sampled_from(["AbortJob", "ResumeJob", "RestartJob", "TerminateJob", "CompleteJob"]),
)
_BLOWS = st.builds(
    Blow,
    st.integers(1, 20),
    st.sampled_from(["fail", "fail", "evict", "kill", "break", "grow", "shrink"]),
    st.sampled_from(["j-a-0", "j-a-1", "j-b-0"]),
)


@st.composite
def _stories(draw: st.DrawFn) -> Story:
    spec = JobSpec(
        tasks=(draw(_tasks("a")), draw(_tasks("b"))),
        policies=draw(_POLICIES),
        min_available=draw(st.sampled_from([0, 1])),
        max_retry=draw(st.sampled_from([1, 2, 9])),
        min_success=draw(st.sampled_from([None, 2])),
        plugins=draw(st.sampled_from([{}, {"svc": ()}])),
    )
    job = Job(metadata=ObjectMeta(name="j", namespace="default"), spec=spec)
    return Story(job, tuple(sorted(draw(st.lists(_BLOWS | _COMMANDS, max_size=5)))))


@settings(deadline=None)
@given(_stories(), st.data())
def test_controller_restarted_at_any_call_reaches_the_same_state(story: Story, data: st.DataObject) -> None:
    course = told(story)
    breaks_at = data.draw(st.integers(1, course.calls))
    after = data.draw(st.booleans())
    assert told(story, breaks_at, after=after).states == course.states


@pytest.mark.parametrize("after", [False, True])
def test_controller_restarted_at_each_call_of_a_job_restart_reaches_the_same_state(after: bool) -> None:
    policies = (JobPolicy(event="PodFailed", action="RestartTask"), JobPolicy(event="PodEvicted", action="RestartJob"))
    spec = replace(make_pod(scheduler_name="").spec, termination_grace_period_seconds=2)
    tasks = tuple(TaskSpec(name=name, replicas=2, template=PodTemplateSpec(spec=template_spec(spec))) for name in "ab")
    job = Job(metadata=ObjectMeta(name="j", namespace="default"), spec=JobSpec(tasks=tasks, policies=policies))
    story = Story(job, (Blow(3, "fail", "j-a-1"), Blow(12, "kill", "j-b-0"), Blow(20, "shrink", "")))
    course = told(story)
    assert course.calls > 20
    for number in range(1, course.calls + 1):
        assert told(story, number, after=after).states == course.states, f"call {number}"


def kept(breaks_at: int, *, after: bool) -> tuple[object, int]:
    """Have pods come and go, and queues close and open, each with what the controllers make of it."""

    async def keep() -> tuple[object, int]:
        clock = LoopClock(asyncio.get_running_loop())
        memory = MemoryCluster(clock, [queue("a"), queue("b", "a"), queue("c", "b")])
        line = Line(memory, breaks_at, after=after)

        def groups(line: Cluster) -> Reconciler:
            return PodGroupController(line, clock, frozenset({"volcano"}))

        tasks = [
            asyncio.ensure_future(kept_running(line, make))
            for make in (groups, lambda line: QueueController(line, clock))
        ]
        seen: list[object] = []
        for step in (
            lambda: memory.load([make_pod("x", scheduler_name="volcano"), make_pod("y", scheduler_name="volcano")]),
            lambda: memory.merge(Queue, "a", {"status": {"state": "Closed"}}),
            lambda: memory.remove(Pod, "x"),
            lambda: memory.merge(Queue, "a", {"status": {"state": "Open"}}),
            lambda: memory.remove(Queue, "default"),
        ):
            step()
            await asyncio.sleep(1)
            seen.append([(each.metadata.name, each.spec) for each in memory.objects(PodGroup)])
            seen.append([(each.metadata.name, each.metadata.annotations) for each in memory.objects(Pod)])
            seen.append(
                sorted(
                    (each.metadata.name, each.status.state, str(each.metadata.annotations))
                    for each in memory.objects(Queue)
                )
            )
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return seen, line.calls

    return run_virtual(keep)


@pytest.mark.parametrize("after", [False, True])
def test_pod_group_and_queue_controllers_restarted_at_any_call_reach_the_same_state(after: bool) -> None:
    seen, calls = kept(0, after=after)
    assert calls > 20
    for number in range(1, calls + 1):
        assert kept(number, after=after)[0] == seen, f"call {number}"


def queue(name: str, parent: str = "") -> Queue:
    return Queue(metadata=ObjectMeta(name=name), spec=QueueSpec(parent=parent))


def test_call_that_succeeded_with_an_error_does_no_harm() -> None:
    job = Job(
        metadata=ObjectMeta(name="j", namespace="default"),
        spec=JobSpec(
            tasks=(
                TaskSpec(
                    name="a", replicas=2, template=PodTemplateSpec(spec=template_spec(make_pod(scheduler_name="").spec))
                ),
            ),
            policies=(JobPolicy(event="PodFailed", action="RestartJob"),),
        ),
    )
    story = Story(job, (Blow(3, "fail", "j-a-1"),))
    calm = told(story)

    class Lossy(Line):
        """A line that loses every third answer."""

        def _count(self, *, after: bool) -> None:
            self.calls += not after
            if after and self.calls % 3 == 0:
                raise ClusterError("no answer", status=0, retryable=True)

    async def tell() -> Seen:
        clock = LoopClock(asyncio.get_running_loop())
        memory = MemoryCluster(clock, [story.job])
        line = Lossy(memory, 0, after=True)
        tasks = [
            asyncio.ensure_future(each)
            for each in (
                Kubelet(memory, clock).run(),
                kept_running(line, lambda line: VolcanoJobController(line, clock, "volcano")),
            )
        ]
        for second in range(60):
            schedule(memory)
            for blow in story.blows:
                if blow.second == second:
                    strike(memory, blow)
            await asyncio.sleep(1)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return without_times(state(memory))

    assert run_virtual(tell) == without_times(calm.states[-1])


def without_times(states: Seen) -> Seen:
    jobs, groups, pods = states
    return [replace(job, state=replace(job.state, last_transition_time=None)) for job in jobs], groups, pods
