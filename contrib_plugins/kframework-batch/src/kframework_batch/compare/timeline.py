"""The events of jobs and pods, observed from outside, so that every engine is measured alike."""

from __future__ import annotations

from collections import Counter
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
from kframework_batch.groups import QUEUE_NAME, Priorities, apply_group
from kframework_batch.job import JobInfo
from kframework_batch.membership import GROUP_KINDS, GroupObject, GroupRef, group_of, ref_of
from kframework_batch.objects import Job, KubePodGroup, PodGroup, SigsPodGroup
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
    """A job, a pod group or a single pod: a number of pods in a queue, with a `minimum` that must run together."""

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
        self._groups: dict[str, GroupObject] = {}  # by the uid of their job
        #: Of gangs without a Job: the number of pods that have not ended, those with a failed pod, the names of pods.
        self._left: Counter[str] = Counter()
        self._failed: set[str] = set()
        self._names: set[str] = set()
        self._ended: set[str] = set()  # uids of pods that hold nothing any more
        self._evicted: set[str] = set()

    def follow(self, cluster: MemoryCluster, clock: Clock) -> None:
        """Record what happens in a cluster from now on, in addition to what an engine reports."""
        began = clock.now()
        self._now = lambda: clock.now() - began
        kinds = (*GROUP_KINDS, Job, Pod)
        for obj in (each for kind in kinds for each in cluster.objects(kind)):
            self._on_change(Change(0, None, obj))
        cluster.subscribe(kinds, self._on_change)

    def on_decision(self, decision: Decision) -> None:
        if decision.node:
            self._append(EventKind.PLACED, decision.uid)

    def on_binding(self, binding: object) -> None:
        if getattr(binding, "message", "") and (uid := getattr(binding, "uid", "")):
            self._append(EventKind.RELEASED, uid)

    def _on_change(self, change: Change) -> None:
        gone = change.new is None
        match change.subject:
            case Pod() as pod:
                self._on_pod(pod, gone)
            case Job() as job:
                self._on_job(job, gone)
            case PodGroup() | SigsPodGroup() | KubePodGroup() as group:
                self._groups[ref_of(group).uid] = group
                self._update_group(ref_of(group))

    def _on_job(self, job: Job, gone: bool) -> None:
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
        requests, ref = Resource(on_node_requests(pod)), group_of(pod)
        gang = f"{pod.metadata.namespace}/{owner}" if owner else _key(pod) if ref is None else _group_key(ref)
        if gang not in self.gangs:
            queue = pod.metadata.annotations.get(QUEUE_NAME) or DEFAULT_QUEUE
            self.gangs[gang] = GangSummary(gang, queue, 1, 0, Resource())
            if ref is not None:
                self._update_group(ref)
            self.events.append(TimelineEvent(self._now(), EventKind.ARRIVED, gang))
        if owner is None:
            summary = self.gangs[gang]
            summary.finished, summary.phase = inf, ""
            self._left[gang] += 1
            if _key(pod) not in self._names:
                self._names.add(_key(pod))
                summary.pods += 1
                summary.wanted.add(requests)
        self.members[pod.metadata.uid] = GangPod(_key(pod), gang, requests)
        self._append(EventKind.MADE, pod.metadata.uid)

    def _append(self, what: EventKind, uid: str) -> None:
        if uid in self._ended or (what is EventKind.EVICTED and uid in self._evicted):
            return
        if what is EventKind.EVICTED:
            self._evicted.add(uid)
        if what in (EventKind.SUCCEEDED, EventKind.GONE):
            self._ended.add(uid)
        gang = self.gangs[self.members[uid].gang]
        self.events.append(TimelineEvent(self._now(), what, gang.name, uid))
        if what is EventKind.GONE:
            self._failed.add(gang.name)
        if uid in self._ended and gang.name in self._left:
            self._left[gang.name] -= 1
            if not self._left[gang.name]:
                gang.phase = "Failed" if gang.name in self._failed else "Completed"
                gang.finished = self._now()
                self.events.append(TimelineEvent(gang.finished, EventKind.FINISHED, gang.name))

    def _update_group(self, ref: GroupRef) -> None:
        """Set queue and minimum of the gang of a pod group, if that has pods already."""
        gang, group = self.gangs.get(_group_key(ref)), self._groups.get(ref.uid)
        if gang is not None and group is not None:
            job = JobInfo(ref.namespace, ref.name)
            apply_group(job, group, Priorities(), DEFAULT_QUEUE)
            gang.queue, gang.minimum = job.queue, max(job.min_available, 1)


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


def _group_key(ref: GroupRef) -> str:
    return f"podgroup {ref.uid}"  # no job or pod has a blank in its key


def _key(obj: Job | Pod) -> str:
    return f"{obj.metadata.namespace or 'default'}/{obj.metadata.name}"
