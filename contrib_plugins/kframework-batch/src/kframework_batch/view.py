"""The data of batch scheduling for the page and reports: the pods that wait by queue; queues, jobs and sessions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain, islice

from kframework import ExplainError, PendingPod, PodInfo
from kframework.engine import (
    BINDING,
    Cell,
    ColumnKind,
    DetailView,
    EngineView,
    History,
    PodView,
    Ref,
    Row,
    Section,
    Tone,
    creation_time,
    run_to_end,
)
from kframework_batch.account import QueueState, SessionAccount, SessionHistory
from kframework_batch.account_rows import (
    columns,
    format_had,
    format_reasons,
    job_turns,
    pod_verdicts,
    queue_section,
    rejecting_plugin,
    session_ref,
    session_sections,
    sessions_section,
    tone_of,
)
from kframework_batch.engine import BatchEngine
from kframework_batch.explain.explainer import explain_by_name
from kframework_batch.job import JobInfo, TaskInfo
from kframework_batch.task_status import TaskStatus

#: The number of jobs, and of pods, that are explained in a report.
_MAX_EXPLAINED = 20

#: The queue of pods that no session looks at, since they have no pod group.
NO_GROUP = "no pod group"

#: The tasks that wait for a node. While a session is open some of them are tried out on one.
_WAITING = (TaskStatus.PENDING, TaskStatus.ALLOCATED, TaskStatus.PIPELINED)


class BatchView(EngineView[BatchEngine]):
    """Shows pods by the queue of their job; `sessions` must be among the scheduler's observers, as the history is."""

    def __init__(self, engine: BatchEngine, history: History, sessions: SessionHistory) -> None:
        super().__init__(engine, history)
        self._sessions = sessions
        self._last: SessionAccount | None = None
        self._rejecting_plugins: dict[str, str] = {}

    # -- the pods that wait ------------------------------------------------------------------------------------------

    def count_by_queue(self) -> Mapping[str, int]:
        counts: Counter[str] = Counter()
        for job in self._jobs():
            if waiting := job.count(*_WAITING):
                counts[_queue_key(job)] += waiting
        ungrouped = counts.pop(NO_GROUP, 0) + sum(1 for _ in self._without_group())
        queues = dict(sorted(counts.items()))
        return {**queues, **({NO_GROUP: ungrouped} if ungrouped else {}), BINDING: len(self.engine.cluster.waiting)}

    def pods_in(self, queue: str) -> Iterable[PodView]:
        if queue == BINDING:
            return super().pods_in(queue)
        tasks = chain.from_iterable(map(self._tasks, (job for job in self._jobs() if _queue_key(job) == queue)))
        ungrouped = (self._pod(pod, NO_GROUP, pod.priority, "") for pod in self._without_group())
        return chain(tasks, ungrouped) if queue == NO_GROUP else tasks

    def queue_of(self, pod: PodInfo) -> str:
        if self.engine.cluster.waiting.get(pod.uid) is not None:
            return BINDING
        task = self.engine.cache.tasks.get(pod.uid)
        if task is None:
            return NO_GROUP if pod.uid in self.engine.pending else ""
        return _queue_key(task.job) if task.status in _WAITING else ""

    def count_by_plugin(self) -> Mapping[tuple[str, str], int]:
        counts: Counter[tuple[str, str]] = Counter()
        for uid, plugin in self._rejecting_plugin_by_job().items():
            for task in self._first_waiting(uid):
                counts[task.object.spec.scheduler_name, plugin] += task.job.count(*_WAITING)
        return counts

    def pods_held_by(self, holder: tuple[str, str]) -> Iterable[PodView]:
        profile, plugin = holder
        for uid, found in self._rejecting_plugin_by_job().items():
            for task in self._first_waiting(uid) if found == plugin else ():
                if task.object.spec.scheduler_name == profile:
                    yield from self._tasks(task.job)

    def _first_waiting(self, uid: str) -> Iterator[TaskInfo]:
        """List the first waiting task of a job, whose profile counts for all; none if no task waits."""
        job = self.engine.cache.jobs.get(uid)
        return islice(_waiting_tasks(job), 1) if job is not None else iter(())

    def _rejecting_plugin_by_job(self) -> Mapping[str, str]:
        """Name by job the first plugin that stood against it in the last session; worked out once for each session."""
        last = self._sessions.last
        if last is not None and last is not self._last:
            self._last = last
            self._rejecting_plugins = {
                turn.job: plugin for turn in reversed(last.turns) if (plugin := rejecting_plugin(turn))
            }
        return self._rejecting_plugins

    def _jobs(self) -> Iterable[JobInfo]:
        return self.engine.cache.jobs.values()

    def _without_group(self) -> Iterator[PendingPod]:
        tasks = self.engine.cache.tasks
        return (pod for uid, pod in self.engine.pending.items() if uid not in tasks)

    def _tasks(self, job: JobInfo) -> Iterator[PodView]:
        plugin = self._rejecting_plugin_by_job().get(job.uid, "")
        for task in _waiting_tasks(job):
            yield self._pod(self.engine.core.pending(task), _queue_key(job), task.priority, plugin)

    def _pod(self, pod: PendingPod, queue: str, priority: int, plugin: str) -> PodView:
        decisions, since = self.history.for_pod(pod.uid).decisions, creation_time(pod)
        gates = ", ".join(gate.name for gate in pod.spec.scheduling_gates)
        return PodView(
            pod.key,
            queue,
            pod.scheduler_name,
            priority,
            since,
            decisions[-1].queued_at if decisions else since or self.engine.clock.now(),
            decisions[-1].pod_attempts if decisions else 0,
            plugins=(plugin,) if plugin else (),
            held=bool(plugin),
            message=f"gated by {gates}" if gates else self.last_message(pod),
        )

    # -- tables ------------------------------------------------------------------------------------------------------

    def sections(self) -> tuple[Section, ...]:
        last, queues = self._sessions.last, self.engine.cache.queues
        states = [QueueState(queue=name, weight=queue.weight) for name, queue in queues.items()]
        count_by_queue = self.count_by_queue()
        waiting = {name: count_by_queue.get(_queue_label(name), 0) for name in queues}
        jobs = sorted((job for job in self._jobs() if job.has_group), key=_rank)
        note = "Jobs that cannot run yet first, then by the number of pending tasks." if len(jobs) > 1 else ""
        return (
            queue_section(states if last is None else last.queues, waiting, last),
            Section.from_rows("jobs", "Jobs", _JOBS, map(self._job_row, jobs), len(jobs), note=note),
            sessions_section(self._sessions, len(self._sessions)),
        )

    def _job_row(self, job: JobInfo) -> Row:
        found = self._sessions.last_turns(job.uid)
        counts = (f"{job.count(status)} {status.value}" for status in TaskStatus if job.with_status(status))
        last = None if found is None else found[1][-1]
        cells: tuple[Cell, ...] = (
            _job_link(job),
            job.queue,
            job.phase or "none",
            f"{job.ready_num + job.best_effort_pending} of {job.min_available}",
            ", ".join(counts) or "none yet",
            "" if last is None else f"{last.outcome.value} in {last.action}",
            "" if last is None else format_had(last),
            None if found is None else session_ref(found[0]),
            (job.invalid_reason or format_reasons(*([] if found is None else found[1])) or job.message)
            if _is_waiting(job)
            else "",
        )
        waits = Tone.WAITING if last is None else tone_of(last)
        return Row(cells, Tone.BAD if job.invalid_reason else waits if _is_waiting(job) else Tone.GOOD)

    def _job_ref(self, uid: str) -> Ref:
        job = self.engine.cache.jobs.get(uid)
        return Ref("job", uid) if job is None else _job_link(job)

    # -- one session, one job, one pod -------------------------------------------------------------------------------

    def details(self, kind: str, name: str) -> DetailView:
        match kind:
            case "session":
                account = self._sessions.session(name)
                return DetailView() if account is None else DetailView(tuple(session_sections(account, self._job_ref)))
            case "job":
                job = self.engine.cache.jobs.get(name)
                turns = job_turns(self._sessions.turns(name))
                tables = (*(() if job is None else (_task_section(job, self.history),)), turns)
                filled = tuple(table for table in tables if table.rows)
                return DetailView(filled, has_explanation=job is not None or bool(turns.rows))
            case "pod":
                verdicts = pod_verdicts(self._sessions.verdicts(name))
                known = any(task.key == name for task in self.engine.cache.tasks.values())
                return DetailView((verdicts,) if verdicts.rows else (), has_explanation=known or bool(verdicts.rows))
            case _:
                return DetailView()

    def explanations(self, kind: str, names: Sequence[str]) -> Mapping[str, object]:
        found: dict[str, object] = {}
        for each in names[:_MAX_EXPLAINED] if kind in ("job", "pod") else ():
            head, _, name = each.rpartition("/")
            with suppress(ExplainError):
                found[each] = run_to_end(
                    explain_by_name(self.engine, list(self._sessions), head.rpartition("/")[2], name)
                )
        return found


_JOBS = columns("Job", "Queue", "Phase", "Ready", "Tasks", "Last turn", "Had", "Session", ("Why", ColumnKind.SENTENCE))


def _task_section(job: JobInfo, history: History) -> Section:
    def row(task: TaskInfo) -> Row:
        waits = task.status in _WAITING
        decisions = history.for_pod(task.uid).decisions if waits else ()
        node = Ref("node", task.node_name) if task.node_name else None
        message = decisions[-1].message if decisions else ""
        tone = Tone.WAITING if waits else Tone.BAD if task.status is TaskStatus.FAILED else Tone.GOOD
        return Row((Ref("pod", task.key), task.status.value, node, message), tone)

    tasks = sorted(job.tasks.values(), key=lambda task: task.status not in _WAITING)
    titles = columns("Task", "Status", "Node", ("Why", ColumnKind.SENTENCE))
    return Section.from_rows("tasks", f"Tasks of {job.uid}", titles, map(row, tasks), len(tasks))


def _queue_key(job: JobInfo) -> str:
    return _queue_label(job.queue) if job.has_group else NO_GROUP


def _queue_label(name: str) -> str:
    """Return the key of a queue's pods, which no other key equals."""
    return f"queue {name}"


def _waiting_tasks(job: JobInfo) -> Iterator[TaskInfo]:
    return chain.from_iterable(job.with_status(status).values() for status in _WAITING)


def _is_waiting(job: JobInfo) -> bool:
    return bool(job.count(*_WAITING)) or not job.tasks


def _rank(job: JobInfo) -> int:
    """Return how far behind a job is shown, from 0 to 3."""
    if _is_waiting(job):
        return 1 if job.tasks and job.is_ready else 0
    return 3 if job.phase == "Completed" else 2


def _job_link(job: JobInfo) -> Ref:
    """Name a job, by its owner where it has one, since the names of groups are made up by controllers."""
    owners = job.object.metadata.owner_references if job.object is not None else ()
    return Ref("job", job.uid, next((f"{job.namespace}/{owner.name}" for owner in owners), ""))
