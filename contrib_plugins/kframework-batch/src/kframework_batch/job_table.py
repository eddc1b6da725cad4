"""Jobs by pod group, queues and priorities: what the cluster says of all kinds but pods and nodes."""

from __future__ import annotations

import logging

import msgspec

from kframework.engine import ClusterState
from kframework.objects import ApiObject, PriorityClass, QuantityError
from kframework_batch.groups import Priorities, describe, said, undescribe
from kframework_batch.job import JobInfo
from kframework_batch.membership import GroupObject, GroupRef, ref_of
from kframework_batch.objects import KubePodGroup, PodGroup, Queue, QueueSpec, SigsPodGroup
from kframework_batch.queue import QueueInfo

_log = logging.getLogger(__name__)


class JobTable:
    """The jobs that have a pod group or tasks, by uid, and the queues whose object can be read, by name."""

    def __init__(self, cluster: ClusterState, default_queue: str) -> None:
        self.jobs: dict[str, JobInfo] = {}
        self.queues: dict[str, QueueInfo] = {}
        self._cluster = cluster
        self._default_queue = default_queue
        self._priorities = Priorities()
        #: What queues say that cannot be read: it is told once.
        self._unreadable: dict[str, QueueSpec] = {}

    def upserted(self, obj: ApiObject) -> bool:
        """Take in an object that is new or changed; return whether a session may now come to another result."""
        before = self._cluster.objects(type(obj)).put(obj.metadata, obj)
        match obj:
            case PodGroup() | SigsPodGroup() | KubePodGroup():
                return self._group(obj)
            case Queue():
                return self._queue(obj)
            case PriorityClass():
                return self._rank_jobs()
            case _:
                return before is None or _versionless(before) != _versionless(obj)

    def deleted(self, obj: ApiObject) -> bool:
        """Take in that an object exists no more; return whether a session may now come to another result."""
        if self._cluster.objects(type(obj)).remove(obj.metadata) is None:
            return False
        match obj:
            case PodGroup() | SigsPodGroup() | KubePodGroup():
                job = self.jobs[ref_of(obj).uid]
                undescribe(job)
                self.drop_if_empty(job)
                return True
            case Queue():
                self._unreadable.pop(obj.metadata.name, None)
                return self.queues.pop(obj.metadata.name, None) is not None
            case PriorityClass():
                return self._rank_jobs()
            case _:
                return True

    def job(self, group: GroupRef) -> JobInfo:
        """Return the job of a pod group, a new one if nothing is known of it yet."""
        job = self.jobs.get(group.uid)
        if job is None:
            job = self.jobs[group.uid] = JobInfo(group.namespace, group.name)
            job.uid = group.uid
        return job

    def drop_if_empty(self, job: JobInfo) -> None:
        """Forget a job that has neither pod group nor tasks."""
        if not job.known and not job.tasks:
            del self.jobs[job.uid]

    def write_failed(self, uid: str) -> None:
        """Take note that the new status of the pod group or queue of this uid was not written: it is what it was."""
        for queue in self.queues.values():
            if queue.uid == uid:
                queue.status = queue.object.status
        for job in self.jobs.values():
            if job.object is not None and job.object.metadata.uid == uid:
                job.status = job.object.status

    def _group(self, group: GroupObject) -> bool:
        job = self.job(ref_of(group))
        before = said(job)
        describe(job, group, self._priorities, self._default_queue)
        return said(job) != before

    def _queue(self, obj: Queue) -> bool:
        name = obj.metadata.name
        old = self.queues.get(name)
        try:
            new = QueueInfo(obj)
        except QuantityError as error:
            if self._unreadable.get(name) != obj.spec:
                _log.warning("queue %r is left out: %s", name, error)
            self._unreadable[name] = obj.spec
            return self.queues.pop(name, None) is not None
        if old is not None and old.object.status == obj.status:
            new.status = old.status
        self.queues[name] = new
        return old is None or _terms(old) != _terms(new)

    def _rank_jobs(self) -> bool:
        """Read what all pod groups say anew; priority classes change too seldom for an index by class."""
        self._priorities = Priorities(self._cluster.objects(PriorityClass))
        differs = False
        for job in self.jobs.values():
            if job.object is not None:
                before = job.priority
                describe(job, job.object, self._priorities, self._default_queue)
                differs = differs or job.priority != before
        return differs


def _terms(queue: QueueInfo) -> tuple[object, ...]:
    """Return all that a session sees of a queue."""
    metadata = queue.object.metadata
    return (queue.uid, queue.created, metadata.labels, metadata.annotations, queue.object.spec, queue.open)


def _versionless(obj: ApiObject) -> ApiObject:
    """Return an object without its version, which changes even if nothing else does."""
    return msgspec.structs.replace(obj, metadata=msgspec.structs.replace(obj.metadata, resource_version=""))
