"""The engine of batch scheduling: it applies messages to jobs and tables, and runs a session per period.

A session begins only if something has changed since the last one, or a plugin wants one. While it is open the inbox
stays shut; `step` advances it by a task.
"""

from __future__ import annotations

import logging
from collections.abc import Generator, Iterator, Mapping, Sequence
from random import Random
from typing import NamedTuple, NoReturn, TypeVar

from kframework import Clock, PendingPod, PluginError, Status, Watch
from kframework.clock import rfc3339
from kframework.engine import (
    AnswersInvalidated,
    BindingEnded,
    ClusterState,
    Configuration,
    Deleted,
    Engine,
    EngineFactory,
    Host,
    Message,
    PodEvent,
    Profiles,
    ProfilesFactory,
    Run,
    RunBinding,
    Synced,
    Upserted,
    profiles_factory,
)
from kframework.objects import Namespace, Pod, PodCondition, PriorityClass
from kframework_batch.background_writes import BackgroundWrites, EvictionFailed, Reconfigured, StatusNotWritten
from kframework_batch.bindings import Bindings, BrokenGangs
from kframework_batch.cache import JobCache
from kframework_batch.config import parse
from kframework_batch.core_plugins import CorePlugins
from kframework_batch.hypernodes import HyperNodes
from kframework_batch.job import JobInfo, TaskInfo
from kframework_batch.membership import GROUP_KINDS, GroupObject
from kframework_batch.objects import HyperNode, Queue
from kframework_batch.phases import pending_reason, queue_statuses, schedulability, status_patch, update_job_status
from kframework_batch.placement import ScoreCache
from kframework_batch.program import Program, compile_program, core_configuration, core_registry
from kframework_batch.queue import DEFAULT_QUEUE
from kframework_batch.session import Session, SessionEffects, TrialSession
from kframework_batch.task_status import TaskStatus

B = TypeVar("B", bound="BatchEngine")

_log = logging.getLogger(__name__)

S = TypeVar("S", bound=Session)

#: Volcano's own defaults.
SCHEDULE_PERIOD, SCHEDULER_NAME = 1.0, "volcano"

#: How long a gang that lost a member while it was bound has to become complete again, in seconds.
GANG_TIMEOUT = 60.0


class LoadedProgram(NamedTuple):
    """The program of sessions, the results of the core's plugins, and the cached scores."""

    program: Program
    core: CorePlugins
    scores: ScoreCache


class BatchEngine(Engine, SessionEffects):
    """Schedules jobs in sessions."""

    #: The kinds that sessions read or change: victims are evicted, statuses of queues and groups are written.
    watches: tuple[Watch, ...] = (
        Watch(Pod, verbs=("delete",)),
        Watch(Namespace),
        Watch(PriorityClass),
        Watch(HyperNode),
        *(Watch(kind, verbs=("patch_status",)) for kind in (Queue, *GROUP_KINDS)),
    )
    ended_pods: bool = True

    def __init__(
        self,
        configuration: Configuration,
        clock: Clock,
        host: Host,
        profiles: ProfilesFactory,
        program: Program,
        *,
        period: float = SCHEDULE_PERIOD,
        default_queue: str = DEFAULT_QUEUE,
        gang_timeout: float = GANG_TIMEOUT,
    ) -> None:
        schedulers = frozenset(profile.scheduler_name for profile in configuration.profiles)
        super().__init__(ClusterState(configuration.options.gates), clock, host, configuration.options.seed)
        self.cache: JobCache = JobCache(self.cluster, schedulers, default_queue)
        self.sessions: int = 0
        #: What ended the last session early; None if nothing did.
        self.failure: PluginError | None = None
        self._last_error = ""
        self._configuration = configuration
        self._program = program
        self._next_program: Program | None = None
        #: Compiled programs by their text.
        self._programs: dict[str, Program] = {}
        self._period = period
        self._hypernodes = HyperNodes(self.cluster)
        self._bindings = Bindings(self.cluster, clock, host, self.seeds)
        self._broken_gangs = BrokenGangs(gang_timeout)
        self._writes = BackgroundWrites(host, self.offer)
        self._random = self.seeds.generator("ties")
        self._draw_sample = self.seeds.generator("sessions").random
        #: The last session, and its steps while it is open.
        self._session: Session | None = None
        self._steps: Generator[None, None, None] | None = None
        #: Whether something has changed since the last session began, and when the next one may begin.
        self._has_changes = False
        self._not_before = 0.0
        self._wakes_at: float | None = None
        #: Whether the engine only watches, in a standby or stopping scheduler, and begins no session.
        self._is_standby = False
        #: The pod groups that there were in the last session, with the phases in which it left them, by job.
        self._groups: dict[str, tuple[GroupObject, str]] = {}
        #: The last message for each pod that waits, and for each group that cannot run, by uid.
        self._last_messages: dict[str, tuple[str, str]] = {}
        self._set_profiles(profiles(self))

    @classmethod
    def factory(cls: type[B], program: Program, period: float, default_queue: str) -> EngineFactory[B]:
        def make(
            configuration: Configuration,
            clock: Clock,
            host: Host,
            extenders: object,
            profiles: ProfilesFactory,
        ) -> B:
            return cls(configuration, clock, host, profiles, program, period=period, default_queue=default_queue)

        return make

    # -- what every engine has ---------------------------------------------------------------------------------------

    @property
    def pending(self) -> Mapping[str, PendingPod]:
        return self.cache.pending

    @property
    def preemption(self) -> NoReturn:
        """Refuse: sessions have actions for that."""
        raise RuntimeError("plugins of the core cannot preempt in batch scheduling: the actions preempt and reclaim do")

    def _set_profiles(self, profiles: Profiles) -> None:
        self.profiles = profiles
        self.core: CorePlugins = CorePlugins(self.cluster, profiles, self._configuration.options.layer_memory_bytes)
        self._score_cache = ScoreCache()

    def reload(self, program: Program) -> None:
        text = program.configuration.text
        self._programs[text] = program
        self.offer(Reconfigured(text))

    @property
    def deadline(self) -> float | None:
        if self._is_standby or not self.synced:
            return None  # no session can begin, and a moment in the past would keep the loop busy until one can
        wanted = (self._not_before if self._has_changes else None, self._wakes_at, self._broken_gangs.deadline)
        soonest = min((moment for moment in wanted if moment is not None), default=None)
        # What is overdue waits for the next session; a timer that has fired already would only keep the loop busy.
        return None if soonest is None else max(soonest, self._not_before)

    @property
    def is_idle(self) -> bool:
        busy = self._steps is not None or self._has_changes or self._bindings.is_busy
        waits = self._wakes_at is not None or self._broken_gangs.deadline is not None or self.cache.evicting
        return self.synced and not busy and not waits and not len(self.inbox)

    def retried_pods(self) -> tuple[str, ...]:
        return tuple(pod.key for pod in self.cache.pending.values()) if self._has_changes else ()

    # -- running -----------------------------------------------------------------------------------------------------

    def step(self) -> bool:
        self._is_standby = False
        if self._steps is None:
            self._drain_inbox()
            now, moments = self.clock.now(), (self._wakes_at, self._broken_gangs.deadline)
            wanted = self._has_changes or any(at is not None and at <= now for at in moments)
            if not (self.synced and wanted and now >= self._not_before):
                return False
            self._steps = self._open_session()
        try:
            next(self._steps)
        except StopIteration:
            self._steps, self._last_error = None, ""
        except PluginError as error:
            if str(error) != self._last_error:  # a permanent error is logged once
                self._last_error = str(error)
                _log.error("the session ended early: %s", error, exc_info=error.__cause__)
            self._steps, self.failure, self._has_changes = None, error, True
            if self._session is not None:
                self.host.report_account(self._session.build_account(self._draw_sample(), str(error)))
        return True

    def apply_messages(self) -> None:
        if self._steps is not None:
            self._steps.close()
            self._steps, self._has_changes = None, True
        self._is_standby = True
        self._drain_inbox()

    def _drain_inbox(self) -> None:
        for message in self.inbox.drain():
            self._apply(message)

    def _open_session(self) -> Generator[None, None, None]:
        if self._next_program is not None:
            # Only if another program needs other plugins of the core, they are recreated.
            schedulers, seed = list(self.profiles), self._configuration.options.seed
            old = core_configuration(self._program, schedulers, seed)
            new = core_configuration(self._next_program, schedulers, seed)
            self._program, self._next_program = self._next_program, None
            self._score_cache = ScoreCache()
            if old.profiles != new.profiles:
                self._set_profiles(profiles_factory(new, core_registry(), self.host)(self))
        now = self.clock.now()
        self.sessions += 1
        self._has_changes, self._wakes_at, self.failure = False, None, None
        self._not_before = now + self._period
        self._session = self._create_session(Session, f"{self.sessions}", self._random, self, self._loaded_program)
        return self._session.run()

    @property
    def is_between_sessions(self) -> bool:
        return self._steps is None

    @property
    def _loaded_program(self) -> LoadedProgram:
        return LoadedProgram(self._program, self.core, self._score_cache)

    def trial(self, by: LoadedProgram | None = None) -> TrialSession:
        """Return a session that decides as the next one, or as `by`, and rolls back; no session may be open."""
        assert self.is_between_sessions
        random = Random()
        random.setstate(self._random.getstate())
        return self._create_session(
            TrialSession, f"{self.sessions}", random, SessionEffects(), by or self._loaded_program
        )

    def _create_session(
        self, kind: type[S], uid: str, random: Random, effects: SessionEffects, deciding: LoadedProgram
    ) -> S:
        return kind(
            uid,
            self.clock,
            self.cluster,
            self.cache.jobs.values(),
            self.cache.queues,
            self.cache.terminating_pods(),
            deciding.program.tiers,
            deciding.program.actions,
            deciding.core,
            self._hypernodes,
            deciding.scores,
            random,
            effects,
        )

    # -- messages ----------------------------------------------------------------------------------------------------

    def _apply(self, message: Message) -> None:
        match message:
            case Upserted(obj):
                self._has_changes |= self.cache.apply_upsert(obj)
            case Deleted(obj):
                self._has_changes |= self.cache.apply_deletion(obj)
                self._last_messages.pop(obj.metadata.uid, None)
                if isinstance(obj, Pod):
                    self._bindings.forget(obj.metadata.uid)
            case Synced():
                self.synced = self._has_changes = True
            case BindingEnded():
                if (ended := self._bindings.end_binding(message)) is not None:
                    self._binding_ended(*ended)
            case RunBinding():
                for pod, failure in self._bindings.end_run(message):
                    self._binding_ended(pod, failure)
            case EvictionFailed(uid):
                self.cache.eviction_failed(uid)
                self._has_changes = True
            case StatusNotWritten(uid):
                self.cache.status_write_failed(uid)
            case Reconfigured(text):
                self._next_program = self._programs.pop(text, None) or compile_program(parse(text))
                self._has_changes = True
            case AnswersInvalidated(names):
                rows = (self.cluster.nodes.row(name) for name in names)
                for row in self.cluster.nodes.order.tolist() if not names else rows:
                    if row is not None:
                        self.cluster.nodes.mark_changed(row)
                self._has_changes = True
            case _:
                pass  # messages to other engines, or requests of their plugins

    def _binding_ended(self, pod: PendingPod, failure: Status | None) -> None:
        task = self.cache.tasks.get(pod.uid)
        if failure is None:
            self._has_changes |= self.cache.binding_succeeded(pod.uid)
            return
        self.cache.binding_failed(pod.uid)
        self._has_changes = True
        self._report_unschedulable(pod, "SchedulerError", failure.message)
        if task is not None and pod.uid in self.cache.pending:
            self._broken_gangs.add(task.job, self.clock.now())

    # -- consequences of a session -----------------------------------------------------------------------------------

    def bind(self, tasks: Sequence[TaskInfo]) -> None:
        assert self._session is not None
        for task in tasks:
            self._last_messages.pop(task.uid, None)
        cycles = [self.core.cycle(task) for task in tasks]
        run = self._bindings.create_run(tasks, cycles, self._session.placement.choices)
        if self.can_bind_runs and all(cycle.plan.binds_directly for cycle in cycles):
            self._bindings.bind_run(run)
        else:
            self._bindings.bind_each(run)

    @property
    def can_bind_runs(self) -> bool:
        return self.host.can_bind_runs

    def bind_individually(self, run: Run) -> None:
        self._bindings.rebind_each(run)

    def start_eviction(self, task: TaskInfo, reason: str) -> None:
        uid, pod = task.uid, task.pod
        profile = task.object.spec.scheduler_name
        self.host.record(PodEvent(profile, pod, "Evict", "Evicting", f"Evicted because of {reason}"))
        self.cache.eviction_started(uid)
        self._writes.delete_victim(task.object)

    def record_warning(self, job: JobInfo, reason: str, message: str) -> None:
        if job.object is not None:
            self._writes.record_warning(job.object, self.clock.now(), reason, message)

    def repair_gangs(self, session: Session) -> None:
        self._broken_gangs.repair(session)

    def report(self, session: Session) -> Iterator[None]:
        """Write the status of groups and queues, and on the pods that wait why they do; yields after each job."""
        now = rfc3339(session.now)
        jobs = self.cache.jobs
        for job in jobs.values():
            left, group = update_job_status(job, session.uid, now), job.object
            if left is not None and group is not None:
                self._writes.write_status(group, status_patch(left))
                uid, answer = group.metadata.uid, schedulability(job)
                if answer is None or answer.ready:
                    self._last_messages.pop(uid, None)
                elif self._last_messages.get(uid) != answer[1:]:  # the message has changed
                    self._last_messages[uid] = answer[1:]
                    self.record_warning(job, "Unschedulable", answer.message)
            for state in (TaskStatus.PENDING, TaskStatus.PIPELINED, TaskStatus.ALLOCATED):
                for task in job.with_status(state).values():
                    if not task.is_gated:
                        self._report_pending(job, task)
            session.log_job(job)
            yield
        for uid, (before, phase) in self._groups.items():
            of_group = jobs.get(uid)
            if of_group is None or not of_group.has_group:
                session.log.log_deleted_job(before, phase, of_group)
        self._groups = {job.uid: (job.object, job.phase) for job in jobs.values() if job.object is not None}
        for name, status in queue_statuses(self.cache.queues, self.cache.jobs.values()).items():
            queue = self.cache.queues[name]
            queue.status = status
            self._writes.write_status(queue.object, status_patch(status))
        self._wakes_at = session.plugins.wakes_at()
        self.host.report_account(session.build_account(self._draw_sample()))

    def _report_pending(self, job: JobInfo, task: TaskInfo) -> None:
        """Report why a task waits, unless that is unchanged: another feasible node is nothing new."""
        reason, message = pending_reason(job, task)
        tentative = job.tentative_nodes.get(task.uid)
        gist = (reason, message if tentative is None else tentative.status.value)
        if message and self._last_messages.get(task.uid) != gist:
            self._last_messages[task.uid] = gist
            self._bindings.record_unschedulable(task, message)
            self._report_unschedulable(self.core.pending(task), reason, message)

    def _report_unschedulable(self, pod: PendingPod, reason: str, message: str) -> None:
        condition = PodCondition(
            type="PodScheduled",
            status="False",
            reason=reason,
            message=message,
            observed_generation=pod.object.metadata.generation,
        )
        self.host.patch_status(pod, condition, None)
        self.host.record(PodEvent(pod.scheduler_name, pod, "FailedScheduling", "Scheduling", message, warning=True))
