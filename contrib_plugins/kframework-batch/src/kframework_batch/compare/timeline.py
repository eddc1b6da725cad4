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
from kframework_batch.controllers.job_admission import admitted
from kframework_batch.controllers.job_members import ENDED
from kframework_batch.controllers.job_phases import ALIVE
from kframework_batch.groups import QUEUE_NAME
from kframework_batch.objects import Job
from kframework_batch.queue import DEFAULT_QUEUE
from kframework_batch.resource import Resource
from kframework_batch.task_status import has_ended


class What(StrEnum):
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


class Moment(msgspec.Struct, frozen=True):
    """Something happened: `at` in seconds since the start, to a gang, or to a pod of it, by its uid."""

    at: float
    what: What
    gang: str
    pod: str = ""


class Gang(msgspec.Struct):
    """A job, or a pod of no job: a number of pods in a queue, with a `minimum` that must run together."""

    name: str
    queue: str
    minimum: int
    pods: int
    wanted: Resource
    finished: float = inf
    phase: str = ""


class Member(msgspec.Struct, frozen=True):
    """A pod, by `namespace/name` and its gang's name, and what it asks for."""

    name: str
    gang: str
    requests: Resource


class Timeline(Observer):
    """Keeps moments in order, gangs by `namespace/name`, and pods by their uid."""

    def __init__(self) -> None:
        self.moments: list[Moment] = []
        self.gangs: dict[str, Gang] = {}
        self.members: dict[str, Member] = {}
        self._now: Callable[[], float] = lambda: 0.0
        self._over: set[str] = set()  # uids of pods that hold nothing any more
        self._evicted: set[str] = set()

    def follow(self, cluster: MemoryCluster, clock: Clock) -> None:
        """Record what happens in a cluster from now on, in addition to what an engine reports."""
        began = clock.now()
        self._now = lambda: clock.now() - began
        for obj in (*cluster.objects(Job), *cluster.objects(Pod)):
            self._changed(Change(0, None, obj))
        cluster.subscribe([Job, Pod], self._changed)

    def on_decision(self, decision: Decision) -> None:
        if decision.node:
            self._note(What.PLACED, decision.uid)

    def on_binding(self, binding: object) -> None:
        if getattr(binding, "message", "") and (uid := getattr(binding, "uid", "")):
            self._note(What.RELEASED, uid)

    def _changed(self, change: Change) -> None:
        if isinstance(change.subject, Pod):
            self._pod(change.subject, change.new is None)
        if not isinstance(change.subject, Job):
            return
        job, gone = change.subject, change.new is None
        name, phase = _place(job), job.status.state.phase
        gang = self.gangs.get(name)
        if gang is None:
            gang = self.gangs[name] = gang_of(job)
            self.moments.append(Moment(self._now(), What.ARRIVED, name))
        gang.phase = "Deleted" if gone and phase not in ENDED else phase
        if (gone or phase in ENDED) and gang.finished == inf:
            gang.finished = self._now()
            self.moments.append(Moment(gang.finished, What.FINISHED, name))

    def _pod(self, pod: Pod, gone: bool) -> None:
        uid = pod.metadata.uid
        if uid not in self.members:
            self._meet(pod)
        if uid in self._over:
            return
        phase = self.gangs[self.members[uid].gang].phase
        leaving = gone or pod.metadata.deletion_timestamp is not None
        if leaving and phase in ALIVE and pod.spec.node_name and not has_ended(pod):
            self._note(What.EVICTED, uid)
        # How far a pod has come may have been noted before.
        if gone or pod.status.phase == "Failed":
            self._note(What.GONE, uid)
        elif pod.status.phase == "Succeeded":
            self._note(What.SUCCEEDED, uid)
        elif pod.spec.node_name:
            self._note(What.BOUND, uid)

    def _meet(self, pod: Pod) -> None:
        owner = next((each.name for each in pod.metadata.owner_references if each.kind == "Job"), None)
        gang = f"{pod.metadata.namespace}/{owner}" if owner else _place(pod)
        requests = Resource(on_node_requests(pod))
        if gang not in self.gangs:
            queue = pod.metadata.annotations.get(QUEUE_NAME) or DEFAULT_QUEUE
            self.gangs[gang] = Gang(gang, queue, 1, 1, requests)
            self.moments.append(Moment(self._now(), What.ARRIVED, gang))
        self.members[pod.metadata.uid] = Member(_place(pod), gang, requests)
        self._note(What.MADE, pod.metadata.uid)

    def _note(self, what: What, uid: str) -> None:
        if uid in self._over or (what is What.EVICTED and uid in self._evicted):
            return
        if what is What.EVICTED:
            self._evicted.add(uid)
        if what in (What.SUCCEEDED, What.GONE):
            self._over.add(uid)
        self.moments.append(Moment(self._now(), what, self.members[uid].gang, uid))


def gang_of(job: Job) -> Gang:
    """Return the gang that a job is, with the defaults of admission."""
    job = admitted(job, job.spec.scheduler_name)
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
    return Gang(_place(job), job.spec.queue, job.spec.min_available, pods, wanted)


def _place(obj: Job | Pod) -> str:
    return f"{obj.metadata.namespace or 'default'}/{obj.metadata.name}"
