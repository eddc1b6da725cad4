"""A cluster with kubelets and the controller of Volcano's Jobs, and the Jobs that it is tried with."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from kframework_batch.controllers.jobs import VolcanoJobController
from kframework_batch.objects import Job, JobPolicy, JobSpec, JobStatus, PodGroup, TaskSpec
from kframework_batch.pod_templates import PodTemplateSpec, template_spec
from msgspec.structs import replace

from kframework.clock import LoopClock
from kframework.in_memory.cluster import MemoryCluster
from kframework.in_memory.kubelet import RUN_SECONDS, Kubelet
from kframework.objects import ApiObject, ObjectMeta, Pod
from kframework.testing import make_pod


class JobWorld:
    """A cluster with kubelets and the controller; `schedule` does what a scheduler would."""

    def __init__(self, memory: MemoryCluster, controller: VolcanoJobController) -> None:
        self.memory = memory
        self.controller = controller

    async def settle(self, seconds: float = 0.01) -> None:
        await asyncio.sleep(seconds)
        assert self.controller.idle

    async def schedule(self) -> None:
        """Put all pod groups into the queue, then all pods on a node."""
        for group in self.memory.objects(PodGroup):
            if group.status.phase in ("", "Pending"):
                self.memory.merge(PodGroup, group.metadata.name, {"status": {"phase": "Inqueue"}}, "default")
        await self.settle()
        for pod in self.memory.objects(Pod):
            if not pod.spec.node_name:
                self.memory.assign("default", pod.metadata.name, pod.metadata.uid, "node")
        await self.settle()

    @property
    def status(self) -> JobStatus:
        return self.memory.read(Job, "j", "default").status

    @property
    def phase(self) -> str:
        return self.status.state.phase

    @property
    def counts(self) -> tuple[int, ...]:
        status = self.status
        return status.pending, status.running, status.succeeded, status.failed, status.terminating

    @property
    def pods(self) -> dict[str, str]:
        return {pod.metadata.name: pod.status.phase for pod in self.memory.objects(Pod)}

    @property
    def group(self) -> PodGroup | None:
        found = self.memory.objects(PodGroup)
        assert len(found) < 2
        return found[0] if found else None

    async def fail(self, name: str) -> None:
        pod = self.memory.read(Pod, name)
        self.memory.set_status(pod, replace(pod.status, phase="Failed"))
        await self.settle()


@asynccontextmanager
async def running(*objects: ApiObject) -> AsyncIterator[JobWorld]:
    clock = LoopClock(asyncio.get_running_loop())
    memory = MemoryCluster(clock, objects)
    controller = VolcanoJobController(memory, clock, "volcano")
    tasks = [asyncio.ensure_future(each.run()) for each in (controller, Kubelet(memory, clock))]
    world = JobWorld(memory, controller)
    await world.settle()
    yield world
    for task in tasks:
        assert not task.done(), task.exception()
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def template(seconds: int | None = None) -> PodTemplateSpec:
    annotations = {} if seconds is None else {RUN_SECONDS: str(seconds)}
    spec = replace(make_pod(scheduler_name="", memory=None).spec, termination_grace_period_seconds=5)
    return PodTemplateSpec(metadata=ObjectMeta(annotations=annotations), spec=template_spec(spec))


def task(name: str, replicas: int, seconds: int | None = None, *policies: JobPolicy) -> TaskSpec:
    return TaskSpec(name=name, replicas=replicas, template=template(seconds), policies=policies)


def job(*tasks: TaskSpec, **spec: object) -> Job:
    return Job(metadata=ObjectMeta(name="j", namespace="default"), spec=replace(JobSpec(tasks=tasks), **spec))


def on(event: str, action: str) -> tuple[JobPolicy, ...]:
    return (JobPolicy(event=event, action=action),)
