"""priority: the more important goes first, and may push the less important out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from kframework_batch.hookspecs import Key
from kframework_batch.job import JobInfo, SubJobInfo, TaskInfo
from kframework_batch.plugin import BatchPlugin, hookimpl
from kframework_batch.session_view import SessionView


class Priority(BatchPlugin):
    """Orders jobs by the PriorityClass of their group, and the subgroups and tasks of a job by the priority of pods.

    It does not affect what queues reclaim from each other: there fairness decides.
    """

    name: ClassVar[str] = "priority"

    @hookimpl
    def job_order(self, session: SessionView, job: JobInfo) -> Key:
        return -job.priority

    @hookimpl
    def subjob_order(self, session: SessionView, subjob: SubJobInfo) -> Key:
        return -subjob.priority

    @hookimpl
    def task_order(self, session: SessionView, task: TaskInfo) -> Key:
        return -task.priority

    @hookimpl
    def preemptable(self, session: SessionView, preemptor: TaskInfo, tasks: Sequence[TaskInfo]) -> Sequence[TaskInfo]:
        job, own, others = preemptor.job, preemptor.priority, preemptor.job.priority
        return [task for task in tasks if (task.priority < own if task.job is job else task.job.priority < others)]

    @hookimpl
    def job_starving(self, session: SessionView, job: JobInfo) -> bool:
        return job.ready_num + job.waiting_num < len(job.tasks)
