"""Binding cycles of tasks: how they begin, what their end means, and what becomes of gangs that lost a member by it."""

from __future__ import annotations

from time import perf_counter_ns

from kframework import Clock, QueuedPod, Status
from kframework.clock import Seeds
from kframework.engine import (
    BindingEnded,
    ClusterState,
    Decision,
    Host,
    PodEvent,
    Reservation,
    ReservedPod,
    Result,
    run_unreserve,
)
from kframework_batch.core_questions import CoreQuestions
from kframework_batch.job import JobInfo, TaskInfo
from kframework_batch.placement import Choice
from kframework_batch.session import Session
from kframework_batch.task_status import ALLOCATED, PREEMPTABLE, TaskStatus


class Bindings:
    """The binding cycles that are under way, by the pod's uid, and the Decisions that stand before them."""

    def __init__(self, cluster: ClusterState, clock: Clock, outside: Host, seeds: Seeds) -> None:
        self._cluster = cluster
        self._clock = clock
        self._outside = outside
        self._draw = seeds.generator("sampling").random
        self._under_way: dict[str, Reservation] = {}
        #: The number of attempts of all tasks; of each task that still waits, and when it was first tried, by uid.
        self.attempts: int = 0
        self._tries: dict[str, int] = {}
        self._first_tried: dict[str, float] = {}

    def __len__(self) -> int:
        return len(self._under_way)

    def begin(self, task: TaskInfo, core: CoreQuestions, choice: Choice | None) -> None:
        """Bind a task to the node that it is assumed on."""
        now, pod = self._clock.now(), core.pending(task)
        decision = self._decision(task, now, Result.SCHEDULED, choice)
        reserved = ReservedPod(pod, task.node_name, {}, now)
        self._cluster.waiting.put(reserved)
        queued = QueuedPod(pod, now)
        reservation = Reservation.from_decision(decision, core.profile(task), queued, core.state(task), reserved)
        self._under_way[task.uid] = reservation
        self._outside.decided(decision)
        self._outside.bind(reservation)

    def unfit(self, task: TaskInfo, message: str) -> None:
        """Account for a task that found no node."""
        self._outside.decided(self._decision(task, self._clock.now(), Result.UNSCHEDULABLE, None, message))

    def _decision(
        self, task: TaskInfo, now: float, result: Result, choice: Choice | None, message: str = ""
    ) -> Decision:
        self.attempts += 1
        tries = self._tries[task.uid] = self._tries.get(task.uid, 0) + 1
        nodes = len(self._cluster.nodes)
        return Decision(
            attempt=self.attempts,
            tries=tries,
            pod=task.key,
            uid=task.uid,
            profile=task.object.spec.scheduler_name,
            initial_attempt_at=self._first_tried.setdefault(task.uid, now),
            queued_at=now,
            popped_at=now,
            started=perf_counter_ns(),
            result=result,
            node=task.node_name if result is Result.SCHEDULED else "",
            score=0 if choice is None else round(choice.score),
            ties=0 if choice is None else choice.ties,
            nodes=nodes,
            evaluated=nodes,
            feasible=0 if choice is None else choice.feasible,
            top=() if choice is None or choice.feasible < 2 else ((choice.node, round(choice.score)),),
            message=message,
            draw=self._draw(),
        )

    def ended(self, message: BindingEnded) -> tuple[Reservation, Status | None] | None:
        """Account for the end of a binding cycle; return it with what went wrong, None if it is not known.

        Where it failed, what was reserved is given back and the pod taken off its node, unless the API has bound it
        all the same.
        """
        reservation = self._under_way.get(message.uid)
        if reservation is None or reservation.attempt != message.attempt:
            return None
        del self._under_way[message.uid]
        self._cluster.waiting.remove(message.uid)
        pod, status = reservation.pod, message.status
        if status is None:
            self.forget(message.uid)
            note = f"Successfully assigned {pod.key} to {reservation.node_name}"
            self._outside.record(PodEvent(reservation.profile.name, pod, "Scheduled", "Binding", note))
        else:
            run_unreserve(reservation.profile, reservation.state, pod, reservation.node_name)
            self._cluster.forget(message.uid)
        return reservation, status

    def forget(self, uid: str) -> None:
        """Forget how often a task was tried, and since when: it waits no more."""
        self._tries.pop(uid, None)
        self._first_tried.pop(uid, None)


class BrokenGangs:
    """The jobs of which a task was not bound although the others were; `timeout` is in seconds.

    They are completed in time, or they go as a whole. Volcano leaves such a gang as it is: members that wait for the
    missing one hold their room for ever.
    """

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        #: Until when each is to be complete, in seconds since 1970.
        self._deadlines: dict[JobInfo, float] = {}

    def broken(self, job: JobInfo, now: float) -> None:
        """Take note that a task of the job was not bound."""
        if not job.is_ready and _holds_room(job):
            self._deadlines.setdefault(job, now + self._timeout)

    @property
    def deadline(self) -> float | None:
        """When the first of them is due, in seconds since 1970."""
        return min(self._deadlines.values(), default=None)

    def mend(self, session: Session) -> None:
        """Forget those that are complete again, and send those away whose time is up.

        That includes gangs that cannot be scheduled any more, as those of a queue that is gone.
        """
        for job, deadline in list(self._deadlines.items()):
            if not job.known or job.is_ready or not _holds_room(job):
                del self._deadlines[job]
            elif deadline <= session.now:
                reason = f"a member of the gang was not bound, and it was not complete again within {self._timeout:g} s"
                # Members that are just being bound follow.
                for status in sorted(PREEMPTABLE, key=lambda status: status.value):
                    for task in list(job.with_status(status).values()):
                        session.send_away(task, reason)
                session.tell(job, "GangBroken", reason)


def _holds_room(job: JobInfo) -> bool:
    return any(job.with_status(status) for status in ALLOCATED if status is not TaskStatus.ALLOCATED)
