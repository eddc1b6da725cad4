"""Who protects whom from having to go; others of the node (`beside`) may have been given away before."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tests.support.batch_accounts.jobs import READY, ROOM, Task, total
from tests.support.batch_accounts.session_model import SessionModel


def by_priority(stands: SessionModel, task: Task, other: Task, beside: Sequence[Task]) -> bool:
    if other.job is task.job:
        return other.priority >= task.priority
    return other.job.priority >= task.job.priority


def by_gang(stands: SessionModel, task: Task, other: Task, beside: Sequence[Task]) -> bool:
    job = other.job
    fellows = [each for each in beside if each.job is job]
    if job.count(*READY) - job.minimum <= len(fellows):
        return True
    of_role = sum(each.role == other.role for each in job.tasks if each.status in READY)
    same = sum(each.role == other.role for each in fellows)
    return job.minds_roles and other.role in job.roles and of_role - job.roles[other.role] <= same


def by_conformance(stands: SessionModel, task: Task, other: Task, beside: Sequence[Task]) -> bool:
    critical = ("system-cluster-critical", "system-node-critical")
    return other.pod.metadata.namespace == "kube-system" or other.pod.spec.priority_class_name in critical


def by_drf(stands: SessionModel, task: Task, other: Task, beside: Sequence[Task]) -> bool:
    gained = stands.dominant(total([task.job.sum(*ROOM, "Pipelined"), task.request]))
    rest = other.job.sum(*ROOM, "Pipelined")
    for each in (other, *(each for each in beside if each.job is other.job)):
        rest.sub(each.request)
    return bool(gained > stands.dominant(rest) + 1e-6)


def by_queue(stands: SessionModel, task: Task, other: Task, beside: Sequence[Task]) -> bool:
    queue, mine = other.job.queue, task.job.queue
    gone = [other, *(each for each in beside if each.job.queue == queue)]
    before = [each.status for each in gone]
    for each in gone:
        each.status = "Releasing"
    rest, due, least = stands.allocated(queue), stands.due[queue], stands.guarantee(queue)
    goes_before = stands.queue_key(mine)[:-2] < stands.queue_key(queue)[:-2]
    for each, status in zip(gone, before, strict=True):
        each.status = status
    held, wanted = other.request, task.request
    if any(rest.get(name, 0) < least.get(name, 0) for name in held):
        return True
    if any(name in due for name in held):
        spares = any(name in due and name in wanted and rest.get(name, 0) >= due[name] for name in held)
    else:
        spares = any(name in wanted for name in held)
    return not spares or stands.broken or (stands.fair == "capacity" and not goes_before)


PROTECTS: dict[str, Callable[[SessionModel, Task, Task, Sequence[Task]], bool]] = {
    "priority": by_priority,
    "gang": by_gang,
    "conformance": by_conformance,
    "drf": by_drf,
    "proportion": by_queue,
    "capacity": by_queue,
}

#: Who has no say in whom an action sends away.
SILENT = {"preempt": ("proportion", "capacity"), "reclaim": ("priority", "drf")}
