"""Binding cycles of tasks: how they begin, what their end means, and what becomes of gangs that lost a member by it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from time import perf_counter_ns

from kframework import Clock, PendingPod, QueuedPod, Status
from kframework.clock import Seeds
from kframework.engine import (
    Attempt,
    AttemptTrace,
    BindingEnded,
    ClusterState,
    Decision,
    Host,
    PodEvent,
    Profile,
    Reservation,
    Result,
    Run,
    RunBinding,
    ScheduleResult,
    run_unreserve,
)
from kframework_batch.core_plugins import CorePlugins, Cycle
from kframework_batch.job import JobInfo, TaskInfo
from kframework_batch.placement import Choice
from kframework_batch.session import Session
from kframework_batch.task_status import ALLOCATED, PREEMPTABLE, TaskStatus


class Bindings:
    """The tasks that are being bound, and their Decisions."""

    def __init__(self, cluster: ClusterState, clock: Clock, host: Host, seeds: Seeds) -> None:
        self._cluster = cluster
        self._clock = clock
        self._host = host
        self._draw_sample = seeds.generator("sampling").random
        #: The binding cycles that are under way, by the pod's uid; and how many runs are being bound.
        self._reservations: dict[str, Reservation] = {}
        self._runs = 0
        #: The number of attempts of all tasks; of each task that still waits, and when it was first tried, by uid.
        self.attempts: int = 0
        self._pod_attempts: dict[str, int] = {}
        self._first_attempts: dict[str, float] = {}

    @property
    def is_busy(self) -> bool:
        return bool(self._reservations) or self._runs > 0

    def bind_run(self, run: Run) -> None:
        """Bind the tasks of a run, for which no plugin has anything left to do, at once."""
        self._runs += 1
        self._host.bind_run(run)

    def bind_each(self, run: Run) -> None:
        for index in range(len(run)):
            self._host.report_decision(run[index])
        self._start_cycles(run)

    def rebind_each(self, run: Run) -> None:
        self._runs -= 1
        self._start_cycles(run)

    def _start_cycles(self, run: Run) -> None:
        for index in range(len(run)):
            reservation = run.reservation(index)
            self._cluster.waiting.add(reservation.reserved)
            self._reservations[reservation.pod.uid] = reservation
            self._host.bind(reservation)
        run.end()

    def create_run(self, tasks: Sequence[TaskInfo], cycles: Sequence[Cycle], choices: dict[str, Choice]) -> Run:
        """Return the attempts of tasks that have their nodes; what was chosen for each is taken out of `choices`."""
        run, now, nodes = Run(len(tasks)), self._clock.now(), len(self._cluster.nodes)
        for task, (plan, state) in zip(tasks, cycles, strict=True):
            pod = CorePlugins.pending(task)
            queued = QueuedPod(pod, now)
            queued.attempts, queued.initial_attempt = self._count_attempt(task, now)
            trace = AttemptTrace(pod, self.attempts, self._draw_sample())
            attempt = Attempt(self._cluster, plan.profile, queued, self._clock, now, trace)
            run.add(attempt, state, _result(task.node_name, nodes, choices.pop(task.uid, None)))
        return run

    def _count_attempt(self, task: TaskInfo, now: float) -> tuple[int, float]:
        self.attempts += 1
        attempts = self._pod_attempts[task.uid] = self._pod_attempts.get(task.uid, 0) + 1
        return attempts, self._first_attempts.setdefault(task.uid, now)

    def record_unschedulable(self, task: TaskInfo, message: str) -> None:
        now, nodes = self._clock.now(), len(self._cluster.nodes)
        attempts, first_tried = self._count_attempt(task, now)
        decision = Decision(
            attempt=self.attempts,
            pod_attempts=attempts,
            pod=task.key,
            uid=task.uid,
            profile=task.object.spec.scheduler_name,
            initial_attempt_at=first_tried,
            queued_at=now,
            popped_at=now,
            started=perf_counter_ns(),
            result=Result.UNSCHEDULABLE,
            nodes=nodes,
            evaluated=nodes,
            message=message,
            sample_value=self._draw_sample(),
        )
        self._host.report_decision(decision)

    def end_binding(self, message: BindingEnded) -> tuple[PendingPod, Status | None] | None:
        """Account for the end of a binding cycle; return the pod with what went wrong, None if it is not known.

        Where it failed, what was reserved is given back and the pod taken off its node, unless the API has bound it
        all the same.
        """
        reservation = self._reservations.get(message.uid)
        if reservation is None or reservation.attempt != message.attempt:
            return None
        del self._reservations[message.uid]
        self._cluster.waiting.remove(message.uid)
        if message.status is not None:
            run_unreserve(reservation.profile, reservation.state, reservation.pod, reservation.node_name)
        return self._end(reservation.pod, reservation.node_name, reservation.profile, message.status)

    def end_run(self, bound: RunBinding) -> Iterator[tuple[PendingPod, Status | None]]:
        """Account for the end of a run; yields each pod with what went wrong."""
        self._runs -= 1
        for index, (attempt, found) in enumerate(zip(bound.run.attempts, bound.run.results, strict=True)):
            yield self._end(attempt.pod, found.node, attempt.profile, bound.errors.get(index))
        bound.run.end()

    def _end(
        self, pod: PendingPod, node_name: str, profile: Profile, status: Status | None
    ) -> tuple[PendingPod, Status | None]:
        if status is None:
            self.forget(pod.uid)
            note = f"Successfully assigned {pod.key} to {node_name}"
            self._host.record(PodEvent(profile.name, pod, "Scheduled", "Binding", note))
        else:
            self._cluster.forget(pod.uid)
        return pod, status

    def forget(self, uid: str) -> None:
        """Forget how often a task was tried, and since when: it waits no more."""
        self._pod_attempts.pop(uid, None)
        self._first_attempts.pop(uid, None)


def _result(node: str, nodes: int, choice: Choice | None) -> ScheduleResult:
    """Return what was found for a task; nothing was chosen for one that came by its node some other way."""
    if choice is None:
        return ScheduleResult(node, 0, 0, nodes, 0)
    score = round(choice.score)
    best = ((choice.node, score),) if choice.feasible >= 2 else ()
    return ScheduleResult(node, score, choice.ties, nodes, choice.feasible, best)


class BrokenGangs:
    """The jobs with a task that failed to bind while the others were bound; `timeout` is in seconds.

    They are completed in time, or deleted as a whole. Volcano leaves such a gang as it is: its members wait for the
    missing one and keep their room indefinitely.
    """

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        #: Until when each is to be complete, in seconds since 1970.
        self._deadlines: dict[JobInfo, float] = {}

    def add(self, job: JobInfo, now: float) -> None:
        if not job.is_ready and _has_bound_tasks(job):
            self._deadlines.setdefault(job, now + self._timeout)

    @property
    def deadline(self) -> float | None:
        """When the first of them is due, in seconds since 1970."""
        return min(self._deadlines.values(), default=None)

    def repair(self, session: Session) -> None:
        """Forget those that are complete again, and send those away whose time is up.

        That includes gangs that cannot be scheduled any more, as those of a queue that is gone.
        """
        for job, deadline in list(self._deadlines.items()):
            if not job.has_group or job.is_ready or not _has_bound_tasks(job):
                del self._deadlines[job]
            elif deadline <= session.now:
                reason = f"a member of the gang was not bound, and it was not complete again within {self._timeout:g} s"
                # Members that are just being bound follow.
                for status in sorted(PREEMPTABLE, key=lambda status: status.value):
                    for task in list(job.with_status(status).values()):
                        session.evict(task, reason)
                session.record_warning(job, "GangBroken", reason)


def _has_bound_tasks(job: JobInfo) -> bool:
    return any(job.with_status(status) for status in ALLOCATED if status is not TaskStatus.ALLOCATED)
