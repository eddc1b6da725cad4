"""The events of jobs and pods, observed from outside, so that every engine is measured alike."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from math import inf

import msgspec
from msgspec.structs import replace

from kframework import Clock
from kframework.engine import Decision, MemoryCluster, Observer
from kframework.objects import Pod, on_node_requests
from kframework.testing import Change
from kframework_batch.controllers.job_admission import with_defaults
from kframework_batch.controllers.job_phases import ALIVE
from kframework_batch.controllers.job_pods import ENDED
from kframework_batch.groups import QUEUE_NAME
from kframework_batch.objects import Job
from kframework_batch.queue import DEFAULT_QUEUE
from kframework_batch.resource import Resource
from kframework_batch.task_status import has_ended


class EventKind(StrEnum):
    """A kind of event of a job (the first two) or of a pod.

    A pod has its place from when an engine decides for a node, though it may wait in Permit then; it is released if it
    is not bound after all. It is gone when it failed, or was deleted. It is evicted if it is deleted on its node while
    its job lives: the job controller deletes pods only after it has written that the job ends or restarts.
    """

    ARRIVED = "arrived"
    FINISHED = "finished"
    MADE = "made"
    PLACED = "placed"
    RELEASED = "released"
    BOUND = "bound"
    SUCCEEDED = "succeeded"
    EVICTED = "evicted"
    GONE = "gone"


class TimelineEvent(msgspec.Struct, frozen=True):
    """Something happened: `at` in seconds since the start, to a gang, or to a pod of it, by its uid."""

    at: float
    kind: EventKind
    gang: str
    pod: str = ""


class GangSummary(msgspec.Struct):
    """A job, or a pod of no job: a number of pods in a queue, with a `minimum` that must run together."""

    name: str
    queue: str
    minimum: int
    pods: int
    wanted: Resource
    finished: float = inf
    phase: str = ""


class GangPod(msgspec.Struct, frozen=True):
    """A pod, by `namespace/name` and its gang's name, and what it asks for."""

    name: str
    gang: str
    requests: Resource


class RunTimeline(Observer):
    """Keeps moments in order, gangs by `namespace/name`, and pods by their uid."""

    def __init__(self) -> None:
        self.events: list[TimelineEvent] = []
        self.gangs: dict[str, GangSummary] = {}
        self.members: dict[str, GangPod] = {}
        self._now: Callable[[], float] = lambda: 0.0
        self._ended: set[str] = set()  # uids of pods that hold nothing any more
        self._evicted: set[str] = set()

    def follow(self, cluster: MemoryCluster, clock: Clock) -> None:
        """Record what happens in a cluster from now on, in addition to what an engine reports."""
        began = clock.now()
        self._now = lambda: clock.now() - began
        for obj in (*cluster.objects(Job), *cluster.objects(Pod)):
            self._on_change(Change(0, None, obj))
        cluster.subscribe([Job, Pod], self._on_change)

    def on_decision(self, decision: Decision) -> None:
        if decision.node:
            self._append(EventKind.PLACED, decision.uid)

    def on_binding(self, binding: object) -> None:
        if getattr(binding, "message", "") and (uid := getattr(binding, "uid", "")):
            self._append(EventKind.RELEASED, uid)

    def _on_change(self, change: Change) -> None:
        if isinstance(change.subject, Pod):
            self._on_pod(change.subject, change.new is None)
        if not isinstance(change.subject, Job):
            return
        job, gone = change.subject, change.new is None
        name, phase = _key(job), job.status.state.phase
        gang = self.gangs.get(name)
        if gang is None:
            gang = self.gangs[name] = gang_of(job)
            self.events.append(TimelineEvent(self._now(), EventKind.ARRIVED, name))
        gang.phase = "Deleted" if gone and phase not in ENDED else phase
        if (gone or phase in ENDED) and gang.finished == inf:
            gang.finished = self._now()
            self.events.append(TimelineEvent(gang.finished, EventKind.FINISHED, name))

    def _on_pod(self, pod: Pod, gone: bool) -> None:
        uid = pod.metadata.uid
        if uid not in self.members:
            self._add_pod(pod)
        if uid in self._ended:
            return
        phase = self.gangs[self.members[uid].gang].phase
        leaving = gone or pod.metadata.deletion_timestamp is not None
        if leaving and phase in ALIVE and pod.spec.node_name and not has_ended(pod):
            self._append(EventKind.EVICTED, uid)
        # How far a pod has come may have been noted before.
        if gone or pod.status.phase == "Failed":
            self._append(EventKind.GONE, uid)
        elif pod.status.phase == "Succeeded":
            self._append(EventKind.SUCCEEDED, uid)
        elif pod.spec.node_name:
            self._append(EventKind.BOUND, uid)

    def _add_pod(self, pod: Pod) -> None:
        owner = next((each.name for each in pod.metadata.owner_references if each.kind == "Job"), None)
        gang = f"{pod.metadata.namespace}/{owner}" if owner else _key(pod)
        requests = Resource(on_node_requests(pod))
        if gang not in self.gangs:
            queue = pod.metadata.annotations.get(QUEUE_NAME) or DEFAULT_QUEUE
            self.gangs[gang] = GangSummary(gang, queue, 1, 1, requests)
            self.events.append(TimelineEvent(self._now(), EventKind.ARRIVED, gang))
        self.members[pod.metadata.uid] = GangPod(_key(pod), gang, requests)
        self._append(EventKind.MADE, pod.metadata.uid)

    def _append(self, what: EventKind, uid: str) -> None:
        if uid in self._ended or (what is EventKind.EVICTED and uid in self._evicted):
            return
        if what is EventKind.EVICTED:
            self._evicted.add(uid)
        if what in (EventKind.SUCCEEDED, EventKind.GONE):
            self._ended.add(uid)
        self.events.append(TimelineEvent(self._now(), what, self.members[uid].gang, uid))


def gang_of(job: Job) -> GangSummary:
    job = with_defaults(job, job.spec.scheduler_name)
    wanted = Resource()
    for task in job.spec.tasks:
        # Requests default to the limits, as in the API server.
        containers = []
        for each in task.template.spec.containers:
            requests = {**each.resources.limits, **each.resources.requests}
            containers.append(replace(each, resources=replace(each.resources, requests=requests)))
        pod = Pod(spec=replace(task.template.spec, containers=tuple(containers)))
        wanted.add(Resource(on_node_requests(pod)).times(task.replicas))
    pods = sum(task.replicas for task in job.spec.tasks)
    return GangSummary(_key(job), job.spec.queue, job.spec.min_available, pods, wanted)


def _key(obj: Job | Pod) -> str:
    return f"{obj.metadata.namespace or 'default'}/{obj.metadata.name}"
