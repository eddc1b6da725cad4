"""A log of what a session does, from which its account is made at its end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from time import perf_counter_ns
from typing import NamedTuple

import msgspec

from kframework import Clock
from kframework_batch.account import (
    DeletedJob,
    JobSummary,
    Part,
    ProtectedTasks,
    QueueState,
    RejectedHypernode,
    SessionAccount,
    SubJobTurn,
    TaskVerdict,
    Turn,
    TurnOutcome,
    Victim,
)
from kframework_batch.job import JobInfo, TaskInfo
from kframework_batch.membership import GroupObject, owner_of, ref_of
from kframework_batch.placement import Choice
from kframework_batch.queue import QueueAccount, QueueInfo
from kframework_batch.resource import Resource, dominant_share
from kframework_batch.task_status import TaskStatus

#: The number of protected tasks that are named.
_MAX_PROTECTED = 5

#: The number of hypernodes tried without success that are named.
_MAX_HYPERNODES = 8


class TurnRejections(NamedTuple):
    """The rejections of a try."""

    rejected: tuple[TaskVerdict, ...]
    subjobs: tuple[SubJobTurn, ...]

    @property
    def message(self) -> str:
        """Why the first task found no room, or the first subgroup; "" if all did that were tried."""
        messages = (*(each.message for each in self.rejected), *(each.message for each in self.subjobs))
        return next(filter(None, messages), "")


NO_REJECTIONS = TurnRejections((), ())


class SessionLog:
    """Notes what one session does. `action` is the one that is running."""

    def __init__(self, uid: str, clock: Clock) -> None:
        self.uid: str = uid
        self.at: float = clock.now()
        self._clock = clock
        self.action: str = ""
        self.started: int = perf_counter_ns()
        self._turns: list[Turn] = []
        #: How long each turn took; when what runs now began, and what went before of the turn that is under way.
        self._durations: list[int] = []
        self._resumed: int = 0
        self._elapsed: int = 0
        self._queues: list[QueueState] = []
        self._jobs: dict[str, JobSummary] = {}
        self._gone: list[DeletedJob] = []
        self._bound: list[tuple[str, str]] = []
        self._evicted: list[tuple[str, str]] = []
        self._parts: dict[tuple[str, str], int] = {}
        #: The rejections of the current turn.
        self._rejected: list[TaskVerdict] = []
        self._subjobs: list[SubJobTurn] = []
        self._protected: dict[str, dict[str, TaskInfo]] = {}

    def run_action(self, action: str, steps: Iterator[None]) -> Iterator[None]:
        """Go through the steps of an action; what runs between them is not of its time, nor of that of its turns."""
        self.action, self._elapsed, took = action, 0, 0
        try:
            while True:
                began = self._resumed = perf_counter_ns()
                try:
                    next(steps)
                except StopIteration:
                    return
                finally:
                    ended = perf_counter_ns()
                    took += ended - began
                    self._elapsed += ended - self._resumed
                yield
        finally:
            self.add_duration("action", action, took)

    # -- while a turn is under way -----------------------------------------------------------------------------------

    def log_rejection(self, task: TaskInfo, message: str, plugin: str = "") -> None:
        self._rejected.append(TaskVerdict(task.key, task.uid, message=message, plugin=plugin))

    def log_protected(self, plugin: str, tasks: Iterable[TaskInfo]) -> None:
        self._protected.setdefault(plugin, {}).update((task.uid, task) for task in tasks)

    def log_subjob_turn(self, turn: SubJobTurn) -> None:
        self._subjobs.append(
            msgspec.structs.replace(turn, rejected_hypernodes=turn.rejected_hypernodes[:_MAX_HYPERNODES])
        )

    def mark(self) -> tuple[int, int]:
        """Return how many rejections there are, of tasks and of subgroups, before a try that may be rolled back."""
        return len(self._rejected), len(self._subjobs)

    def take_since(self, mark: tuple[int, int]) -> TurnRejections:
        rejected, subjobs = mark
        rejections = TurnRejections(tuple(self._rejected[rejected:]), tuple(self._subjobs[subjobs:]))
        del self._rejected[rejected:], self._subjobs[subjobs:]
        return rejections

    def restore(self, rejections: TurnRejections) -> None:
        self._rejected.extend(rejections.rejected)
        self._subjobs.extend(rejections.subjobs)

    # -- how turns end -----------------------------------------------------------------------------------------------

    def log_turn(
        self,
        job: JobInfo,
        outcome: TurnOutcome,
        choices: Mapping[str, Choice],
        *,
        placed: Sequence[TaskInfo] = (),
        promised: Sequence[TaskInfo] = (),
        victims: Sequence[TaskInfo] = (),
        message: str = "",
        hypernode: str = "",
        tried: Sequence[RejectedHypernode] = (),
    ) -> None:
        """Record how the turn of a job ended, before its tasks change again.

        `placed` are those of its tasks that have room, `promised` those that are promised it; `choices` has their
        choices of nodes.
        """
        turn = msgspec.structs.replace(
            self._new_turn(job, outcome, message=message),
            verdicts=(
                *(_placement_verdict(task, choices.get(task.uid), promised=False) for task in placed),
                *(_placement_verdict(task, choices.get(task.uid), promised=True) for task in promised),
                *self._rejected,
            ),
            victims=tuple(Victim(task.key, task.uid, task.job.uid, task.pod.node_name) for task in victims),
            protected=tuple(
                ProtectedTasks(plugin, len(tasks), tuple(task.key for task in islice(tasks.values(), _MAX_PROTECTED)))
                for plugin, tasks in self._protected.items()
            ),
            hypernode=hypernode,
            rejected_hypernodes=tuple(tried[:_MAX_HYPERNODES]),
            subjobs=tuple({each.subjob: each for each in self._subjobs}.values()),
        )
        self._append_turn(turn)
        self._rejected.clear()
        self._subjobs.clear()
        self._protected.clear()

    def log_outcome(self, job: JobInfo, outcome: TurnOutcome, plugin: str = "", message: str = "") -> None:
        """Note that a job had no turn, or that nothing but a yes or no came of it."""
        self._append_turn(self._new_turn(job, outcome, plugin, message))

    def _append_turn(self, turn: Turn) -> None:
        now = perf_counter_ns()
        self._turns.append(turn)
        self._durations.append(self._elapsed + now - self._resumed)
        self._resumed, self._elapsed = now, 0

    def _new_turn(self, job: JobInfo, outcome: TurnOutcome, plugin: str = "", message: str = "") -> Turn:
        return Turn(
            action=self.action,
            job=job.uid,
            queue=job.queue,
            outcome=outcome,
            had=job.allocated_num,
            minimum=job.min_available,
            plugin=plugin,
            message=message,
            at=self._clock.now(),
        )

    # -- the session as a whole --------------------------------------------------------------------------------------

    def log_queue(self, queue: QueueInfo, plugin: str, account: QueueAccount | None) -> None:
        """Record a queue after the plugins have opened the session; call it in the order of queues."""
        state = QueueState(queue=queue.name, weight=queue.weight, plugin=plugin)
        if account is not None:
            state = msgspec.structs.replace(
                state,
                allocated=_amounts(account.allocated),
                requested=_amounts(account.requested),
                deserved=dict(account.deserved),
                share=account.share,
            )
        self._queues.append(state)

    def log_bound(self, tasks: Iterable[TaskInfo]) -> None:
        self._bound += [(task.key, task.node_name) for task in tasks]

    def log_eviction(self, task: TaskInfo, reason: str) -> None:
        self._evicted.append((task.key, reason))

    def log_job(self, job: JobInfo, phase: str, message: str) -> None:
        self._jobs[job.uid] = JobSummary(
            job=job.uid,
            queue=job.queue,
            owner="" if job.object is None else owner_of(job.object),
            priority=job.priority,
            phase=phase,
            next_phase=job.phase,
            minimum=job.min_available,
            tasks=_counts(job),
            message=message,
        )

    def log_deleted_job(self, group: GroupObject, phase: str, job: JobInfo | None) -> None:
        """Note that a pod group is gone which had this phase; `job` has the tasks that are left."""
        tasks = {} if job is None else _counts(job)
        self._gone.append(DeletedJob(job=ref_of(group).uid, owner=owner_of(group), phase=phase, tasks=tasks))

    def add_duration(self, kind: str, name: str, nanoseconds: int) -> None:
        self._parts[kind, name] = self._parts.get((kind, name), 0) + nanoseconds

    def build_account(
        self, *, nodes: int, capacity: Resource, held: Mapping[str, Resource], sample_value: float, failure: str = ""
    ) -> SessionAccount:
        """Make the account; `held` is what each queue holds in the end."""
        queues = list(self._queues)
        for index, state in enumerate(queues):
            if not (amounts := held.get(state.queue, Resource())).is_empty:
                dominant = dominant_share(amounts, capacity)
                queues[index] = msgspec.structs.replace(state, held=_amounts(amounts), dominant=dominant)
        return SessionAccount(
            uid=self.uid,
            at=self.at,
            nodes=nodes,
            capacity=dict(capacity),
            queues=tuple(queues),
            turns=tuple(self._turns),
            jobs=tuple(self._jobs.values()),
            gone=tuple(self._gone),
            bound=tuple(self._bound),
            evicted=tuple(self._evicted),
            failure=failure,
            sample_value=sample_value,
            started=self.started,
            parts=tuple(Part(kind, name, took) for (kind, name), took in self._parts.items()),
            took=tuple(self._durations),
        )


def _counts(job: JobInfo) -> dict[str, int]:
    return {status.value: job.count(status) for status in TaskStatus if job.with_status(status)}


def _placement_verdict(task: TaskInfo, choice: Choice | None, *, promised: bool) -> TaskVerdict:
    if choice is None or choice.node != task.node_name:
        return TaskVerdict(task.key, task.uid, task.node_name, promised)
    return TaskVerdict(task.key, task.uid, task.node_name, promised, choice.score, choice.ties, choice.feasible)


def _amounts(resource: Mapping[str, int]) -> dict[str, int]:
    """Leave out what is nothing: sums keep that of what was only tried."""
    return {name: amount for name, amount in resource.items() if amount}
