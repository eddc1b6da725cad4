"""gang: a job runs with its minimum of tasks or not at all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import ClassVar

from kframework import Status, unschedulable
from kframework_batch.hookspecs import Key
from kframework_batch.job import GangInfo, JobInfo, SubJobInfo, TaskInfo
from kframework_batch.plugin import BatchPlugin, Vote, hookimpl
from kframework_batch.session_view import SessionView
from kframework_batch.task_status import READY, TaskStatus

_VALID = (*READY, TaskStatus.PIPELINED, TaskStatus.PENDING)


class Gang(BatchPlugin):
    """Lets a job be bound once its minimum has room, and protects the minimum of jobs that run.

    Beside the minimum of the job those of roles count, where it is at least their sum, and of subgroups. Unlike in
    Volcano they protect a running job too: its only master is not what it can spare, nor half of a
    subgroup that it needs.
    """

    name: ClassVar[str] = "gang"

    @hookimpl
    def job_valid(self, session: SessionView, job: JobInfo) -> Status | None:
        there = job.count_roles(*_VALID) if job.has_role_minimums else {}
        if job.has_role_minimums and any(there.get(role, 0) < minimum for role, minimum in job.role_minimums.items()):
            return unschedulable("Not enough valid pods of each task for gang-scheduling")
        if job.missing_subgroups(lambda subjob: True):
            return unschedulable("Not enough valid subGroups of each task for gang-scheduling")
        if job.valid_num < job.min_available:
            counts = f"valid: {job.valid_num}, min: {job.min_available}"
            return unschedulable(f"Not enough valid tasks for gang-scheduling, {counts}")
        return None

    @hookimpl
    def job_order(self, session: SessionView, job: JobInfo) -> Key:
        return job.is_ready

    @hookimpl
    def subjob_order(self, session: SessionView, subjob: SubJobInfo) -> Key:
        return subjob.is_ready

    @hookimpl
    def job_ready(self, session: SessionView, job: JobInfo) -> bool:
        return job.is_ready

    @hookimpl
    def subjob_ready(self, session: SessionView, subjob: SubJobInfo) -> bool:
        return subjob.is_ready

    @hookimpl
    def job_pipelined(self, session: SessionView, job: JobInfo) -> Vote:
        return _pipelined_vote(job)

    @hookimpl
    def subjob_pipelined(self, session: SessionView, subjob: SubJobInfo) -> Vote:
        return _pipelined_vote(subjob)

    @hookimpl
    def job_starving(self, session: SessionView, job: JobInfo) -> bool:
        return job.is_starving

    @hookimpl
    def preemptable(self, session: SessionView, preemptor: TaskInfo, tasks: Sequence[TaskInfo]) -> Sequence[TaskInfo]:
        return _surplus_tasks(tasks)

    @hookimpl
    def reclaimable(self, session: SessionView, reclaimer: TaskInfo, tasks: Sequence[TaskInfo]) -> Sequence[TaskInfo]:
        return _surplus_tasks(tasks)


def _pipelined_vote(gang: GangInfo) -> Vote:
    return Vote.PERMIT if gang.is_pipelined else Vote.REJECT


class _Surplus:
    """The dispensable part of a job: tasks, those of roles and subgroups beyond their minimum, and whole subgroups."""

    def __init__(self, job: JobInfo) -> None:
        self._tasks = job.ready_num - job.min_available
        self._roles: dict[str, int] = {}
        if job.has_role_minimums:
            ready = job.count_roles(*READY)
            self._roles = {role: ready.get(role, 0) - minimum for role, minimum in job.role_minimums.items()}
        whole = [subjob for subjob in job.subjobs.values() if subjob.policy is not None and subjob.is_ready]
        self._subjobs = {subjob.name: subjob.ready_num - subjob.min_available for subjob in whole}
        counts = Counter(subjob.policy for subjob in whole)
        self._wholes = {groups.name: counts[groups.name] - groups.minimum for groups in job.subgroups}

    def take(self, task: TaskInfo) -> bool:
        left, subjob = self._roles.get(task.role), task.subjob
        if self._tasks <= 0 or (left is not None and left <= 0):
            return False
        # A subgroup that the job can do without gives all, once it gives.
        if subjob is not None and subjob.policy is not None and subjob.name in self._subjobs:
            if self._subjobs[subjob.name] > 0:
                self._subjobs[subjob.name] -= 1
            elif self._wholes[subjob.policy] > 0:
                self._wholes[subjob.policy] -= 1
                del self._subjobs[subjob.name]
            else:
                return False
        self._tasks -= 1
        if left is not None:
            self._roles[task.role] = left - 1
        return True


def _surplus_tasks(tasks: Sequence[TaskInfo]) -> Sequence[TaskInfo]:
    surpluses: dict[str, _Surplus] = {}
    spared: list[TaskInfo] = []
    for task in tasks:
        surplus = surpluses.get(task.job.uid)
        if surplus is None:
            surplus = surpluses[task.job.uid] = _Surplus(task.job)
        if surplus.take(task):
            spared.append(task)
    return spared
