"""Apply watched objects to the live tables and to jobs, tasks and queues.

Model: `kframework.core.event_handlers`, without a queue of pods and without events; each session looks at everything.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

from msgspec.structs import replace

from kframework import PendingPod, PodInfo
from kframework.engine import ClusterState
from kframework.objects import ApiObject, Node, Pod, PriorityClass, QuantityError
from kframework_batch.groups import Priorities, apply_group, group_fields, remove_group
from kframework_batch.job import JobInfo, TaskInfo
from kframework_batch.membership import GroupRef, group_of, ref_of
from kframework_batch.objects import KubePodGroup, PodGroup, Queue, QueueSpec, SigsPodGroup
from kframework_batch.queue import DEFAULT_QUEUE, QueueInfo
from kframework_batch.task_status import COMPLETED, TaskStatus, task_status

_log = logging.getLogger(__name__)


class JobCache:
    """The jobs, tasks and queues of the cluster, including what this scheduler assumes.

    `jobs` holds those that have a pod group (`has_group`) or tasks, by uid; `queues` those whose object can be decoded,
    by name; `tasks` all pods of ours in groups, by uid, until they are deleted; `pending` our unassigned pods, by uid.
    `evicting` are the uids of victims whose deletion has not been observed. `on_new_pod` gets each new unassigned pod.
    """

    def __init__(self, cluster: ClusterState, schedulers: frozenset[str], default_queue: str = DEFAULT_QUEUE) -> None:
        self.jobs: dict[str, JobInfo] = {}
        self.queues: dict[str, QueueInfo] = {}
        self.tasks: dict[str, TaskInfo] = {}
        self.pending: dict[str, PendingPod] = {}
        self.evicting: set[str] = set()
        self.on_new_pod: Callable[[Pod], None] = lambda pod: None
        self.cluster: ClusterState = cluster
        self._schedulers = schedulers
        self._default_queue = default_queue
        self._priorities = Priorities()
        #: Undecodable specs of queues, each of which is reported once.
        self._unreadable: dict[str, QueueSpec] = {}
        #: The uids of the pods on nodes that are being deleted.
        self._terminating: dict[str, None] = {}
        #: The uids of assumed pods that the API has bound, and that are not confirmed yet.
        self._bound: set[str] = set()

    def apply_upsert(self, obj: ApiObject) -> bool:
        """Apply a new or changed object; return whether a session may now have another result."""
        match obj:
            case Pod():
                return self._put_pod(obj)
            case Node():
                log = self.cluster.nodes.node_log
                end = log.end
                self.cluster.put_node(obj)
                return log.end != end  # of a heartbeat nothing is logged
        before = self.cluster.objects(type(obj)).put(obj.metadata, obj)
        match obj:
            case PodGroup() | SigsPodGroup() | KubePodGroup():
                job = self.job(ref_of(obj))
                had = group_fields(job)
                apply_group(job, obj, self._priorities, self._default_queue)
                return group_fields(job) != had
            case Queue():
                return self._put_queue(obj)
            case PriorityClass():
                return self._update_priorities()
            case _:
                if before is None:
                    return True
                # The version changes even if nothing else does.
                metadata = replace(obj.metadata, resource_version=before.metadata.resource_version)
                return before != replace(obj, metadata=metadata)

    def apply_deletion(self, obj: ApiObject) -> bool:
        """Apply the deletion of an object; return whether a session may now have another result."""
        match obj:
            case Pod():
                freed, task = self._forget_pod(obj.metadata.uid), self.tasks.pop(obj.metadata.uid, None)
                if task is None:
                    return freed
                task.job.remove(task.uid)
                self.drop_if_empty(task.job)
                return freed or task.job.has_group
            case Node():
                return self.cluster.remove_node(obj.metadata.name) is not None
        if self.cluster.objects(type(obj)).remove(obj.metadata) is None:
            return False
        match obj:
            case PodGroup() | SigsPodGroup() | KubePodGroup():
                job = self.jobs[ref_of(obj).uid]
                remove_group(job)
                self.drop_if_empty(job)
                return True
            case Queue():
                self._unreadable.pop(obj.metadata.name, None)
                return self.queues.pop(obj.metadata.name, None) is not None
            case PriorityClass():
                return self._update_priorities()
            case _:
                return True

    def job(self, group: GroupRef) -> JobInfo:
        job = self.jobs.get(group.uid)
        if job is None:
            job = self.jobs[group.uid] = JobInfo(group.namespace, group.name)
            job.uid = group.uid
        return job

    def drop_if_empty(self, job: JobInfo) -> None:
        if not job.has_group and not job.tasks:
            del self.jobs[job.uid]

    def status_write_failed(self, uid: str) -> None:
        """Record that the new status of the pod group or queue of this uid was not written: it is what it was."""
        for queue in self.queues.values():
            if queue.uid == uid:
                queue.status = queue.object.status
        for job in self.jobs.values():
            if job.object is not None and job.object.metadata.uid == uid:
                job.status = job.object.status

    def _put_queue(self, obj: Queue) -> bool:
        name = obj.metadata.name
        old = self.queues.get(name)
        try:
            new = QueueInfo(obj)
        except QuantityError as error:
            if self._unreadable.get(name) != obj.spec:
                _log.warning("ignoring queue %r: %s", name, error)
            self._unreadable[name] = obj.spec
            return self.queues.pop(name, None) is not None
        if old is not None and old.object.status == obj.status:
            new.status = old.status
        self.queues[name] = new
        return old is None or _queue_fields(old) != _queue_fields(new)

    def _update_priorities(self) -> bool:
        """Read all pod groups again; priority classes change too seldom for an index by class."""
        self._priorities = Priorities(self.cluster.objects(PriorityClass))
        differs = False
        for job in self.jobs.values():
            if job.object is not None:
                before = job.priority
                apply_group(job, job.object, self._priorities, self._default_queue)
                differs = differs or job.priority != before
        return differs

    def terminating_pods(self) -> Iterator[PodInfo]:
        """List the pods that are going but still take room on their nodes, whosever they are."""
        pods = self.cluster.pods
        return (pods[uid] for uid in {**self._terminating, **dict.fromkeys(sorted(self.evicting))} if uid in pods)

    # -- pods --------------------------------------------------------------------------------------------------------

    def _put_pod(self, pod: Pod) -> bool:
        if task_status(pod) in COMPLETED:
            # It takes no room any more, but its job still counts it.
            freed = self._forget_pod(pod.metadata.uid)
            return self._put_task(pod) or freed
        if pod.spec.node_name:
            uid = pod.metadata.uid
            before = self.cluster.put_pod(pod)
            now = self.cluster.pods[uid]
            self.pending.pop(uid, None)
            self._bound.discard(uid)
            if now.terminating:
                self.evicting.discard(uid)
                self._terminating[uid] = None
            task_differs = self._put_task(pod)
            return task_differs or before is None or _pod_fields(before) != _pod_fields(now)
        return self._is_ours(pod) and self._put_pending(pod)

    def _put_pending(self, pod: Pod) -> bool:
        uid = pod.metadata.uid
        old = self.pending.get(uid)
        if old is not None and old.object.metadata.resource_version == pod.metadata.resource_version != "":
            return False
        new = self.pending[uid] = PendingPod(pod, self.cluster.interner)
        if old is None:
            self.on_new_pod(pod)
        freed = False
        if new.terminating and (old is None or not old.terminating):
            freed = self._free_node(uid)
        return self._put_task(pod) or freed

    def _forget_pod(self, uid: str) -> bool:
        self.pending.pop(uid, None)
        self.evicting.discard(uid)
        self._terminating.pop(uid, None)
        return self._free_node(uid)

    def _free_node(self, uid: str) -> bool:
        """Take a terminating pod off its node; return whether it was on one and is not any more.

        The binding of an assumed pod may still be stopped: it then ends as failed, and the pod leaves its node.
        """
        if uid not in self.cluster.assumed:
            return self.cluster.remove_pod(uid) is not None
        self._bound.discard(uid)
        reserved = self.cluster.waiting.get(uid)
        if reserved is not None and reserved.reject("", "removed"):
            return False
        self.cluster.forget(uid)
        return True

    def _is_ours(self, pod: Pod) -> bool:
        return pod.spec.profile_name in self._schedulers

    # -- tasks -------------------------------------------------------------------------------------------------------

    def _put_task(self, pod: Pod) -> bool:
        """Replace the task of a pod, if it is one; return whether that makes a difference to a session."""
        old = self.tasks.pop(pod.metadata.uid, None)
        if old is not None:
            old.job.remove(old.uid)
        group = group_of(pod) if self._is_ours(pod) else None
        new = None
        if group is not None:
            uid, job = pod.metadata.uid, self.job(group)
            # In this order: an assumed pod counts on its node, in every case.
            info = self.cluster.pods.get(uid) or self.pending.get(uid) or PodInfo(pod, self.cluster.interner)
            new = self.tasks[uid] = TaskInfo(job, info, pod, self._status(pod))
            job.add(new)
        if old is not None:
            self.drop_if_empty(old.job)
        seen = [_task_fields(task) for task in (old, new) if task is not None and task.job.has_group]
        return len(seen) == 1 or (len(seen) == 2 and seen[0] != seen[1])

    def _status(self, pod: Pod) -> TaskStatus:
        """Return the status of a pod, from the watched object and from writes that are not observed yet."""
        uid, status = pod.metadata.uid, task_status(pod)
        if status in COMPLETED:
            return status
        if uid in self.evicting:
            return TaskStatus.RELEASING
        if uid in self.cluster.assumed:
            return TaskStatus.BOUND if uid in self._bound else TaskStatus.BINDING
        return status

    def _update_status(self, uid: str) -> None:
        task = self.tasks.get(uid)
        if task is not None:
            task.job.update_status(task, self._status(task.object))

    # -- what this scheduler does ------------------------------------------------------------------------------------

    def binding_succeeded(self, uid: str) -> bool:
        """Record that the API has bound an assumed pod; return whether the watch has not confirmed it yet.

        If so, that update will change nothing for a session that has accounted for this.
        """
        if uid not in self.cluster.assumed or uid in self._bound:
            return False
        self._bound.add(uid)
        self._update_status(uid)
        return True

    def binding_failed(self, uid: str) -> None:
        """Record that a pod was not bound, after it was forgotten: its task waits again."""
        self._bound.discard(uid)
        task = self.tasks.get(uid)
        if task is not None:
            self._put_task(task.object)

    def eviction_started(self, uid: str) -> None:
        self.evicting.add(uid)
        self._update_status(uid)

    def eviction_failed(self, uid: str) -> None:
        self.evicting.discard(uid)
        self._update_status(uid)


def _pod_fields(pod: PodInfo) -> tuple[object, ...]:
    individual = (pod.group, pod.priority, pod.claims, pod.claim_statuses)
    return (pod.node_name, pod.template, pod.label_class, pod.on_node, *individual)


def _task_fields(task: TaskInfo) -> tuple[object, ...]:
    metadata = task.object.metadata
    grouping = metadata.labels if task.job.subgroups else ()
    return (task.job, task.status, task.node_name, metadata.annotations, grouping, *_pod_fields(task.pod))


def _queue_fields(queue: QueueInfo) -> tuple[object, ...]:
    metadata = queue.object.metadata
    return (queue.uid, queue.created, metadata.labels, metadata.annotations, queue.object.spec, queue.is_open)
