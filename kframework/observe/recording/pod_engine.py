"""Recordings of the pod engine: recording it, creating it again for a replay, and following recorded decisions.

Four kinds of lines are its own: two about pods that wait in Permit, another configuration, which decides from the next
step on, and a part of many messages:

    {"at": 1767225601.0, "what": "PermitAllowed", "with": {"uid": "...", "plugin": "Gang"}}    a plugin allows a pod
    {"at": 1767225601.0, "what": "PermitDecided", "with": {"uid": "...", "status": {...}}}      the verdict
    {"at": 1767225601.0, "what": "ConfigurationTaken", "with": {"configuration": "..."}}    the effective one, in YAML
    {"at": 1767225601.0, "what": "MessagesApplied", "with": {"number": 24}}    the oldest ones of those that wait

A part that continues another one begins with the objects as last received, the data of the plugins' sources, the last
decision on every pod that waited for another attempt or for its binding, each by itself and without a step, the
nominations, and {"what": "PartState"} with the rest.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import msgspec

from kframework.clock import Clock
from kframework.config.configuration import Configuration
from kframework.config.load import parse
from kframework.config.show import effective_yaml
from kframework.core.cycle.attempt import Attempt, AttemptResult
from kframework.core.cycle.records import Decision, GroupDecision, Result
from kframework.core.cycle.results import Eviction, Failure, Outcome, Reservation, ScheduleError, ScheduleResult
from kframework.core.cycle.search import Search
from kframework.core.cycle.suspendable import run_sync
from kframework.core.groups.trace import GroupTrace
from kframework.core.host import Host
from kframework.core.plugin_handle import profiles_factory, recompile_profiles
from kframework.core.pod_engine import PodEngine
from kframework.core.preemption.dry_runs import EvictedPod
from kframework.core.queue.group_queue import GroupQueue
from kframework.core.queue.queued_group import QueuedGroup
from kframework.core.reconfiguration import ConfigurationChanged
from kframework.core.runtime.registry import Registry, load_in_tree_args
from kframework.framework.cycle_state import CycleState
from kframework.objects import GenericPodGroup
from kframework.observe.recording.engines import EngineKind
from kframework.observe.recording.file import PartStart
from kframework.observe.recording.reader import RecordingReader
from kframework.observe.recording.writer import Header, Line, Recorder, RecordingEngine, refuse_extenders
from kframework.scheduler.extenders import Extenders
from kframework.scheduler.scheduler import EngineFactory
from kframework.state.inbox import ActivateRequested, Message, Nominated, SourceChanged, SourceFailed, Synced
from kframework.state.pods import QueuedPod
from kframework.values.status import Code, Status


class PermitAllowed(msgspec.Struct, frozen=True):
    """A Permit plugin has allowed a pod that still waits for others."""

    uid: str
    plugin: str


class PermitDecided(msgspec.Struct, frozen=True):
    """A waiting pod has its verdict."""

    uid: str
    status: Status


class ConfigurationTaken(msgspec.Struct, frozen=True):
    """Another configuration, as in the header of a recording, decides from the next step on."""

    configuration: str


class MessagesApplied(msgspec.Struct, frozen=True):
    """This number of messages has been applied, and others still wait."""

    number: int


class PartState(msgspec.Struct, frozen=True):
    """The state of an engine between two attempts: their number so far, the start of the next search, and evictions.

    `configuration` is the number of the one that decides, which the header has.
    """

    attempts: int
    rotation: int
    evicted: tuple[EvictedPod, ...] = ()
    configuration: int = 1


def recording_pod_engine_factory(recorder: Recorder) -> EngineFactory[PodEngine]:
    return recorder.recording_factory(RecordingPodEngine.from_configuration, _configuration_text)


def _configuration_text(configuration: Configuration) -> str:
    return effective_yaml(configuration, load_in_tree_args(configuration))


class RecordingPodEngine(RecordingEngine, PodEngine):
    """A pod engine that passes its inputs and steps to a recorder."""

    @property
    def can_place_runs(self) -> bool:
        """No: a recording has the messages about each pod in their order."""
        return False

    def offer(self, message: Message) -> None:
        """Take a message in; raises ConfigError for a configuration with extenders."""
        if isinstance(message, ConfigurationChanged):
            refuse_extenders(message.extenders)
            self.record(ConfigurationTaken(_configuration_text(message.configuration)))
            PodEngine.offer(self, message)
        else:
            super().offer(message)

    def apply_some_messages(self, limit: int) -> bool:
        apply_some_messages = super().apply_some_messages
        is_due = len(self.inbox) > limit
        return is_due and self.with_frozen_clock(MessagesApplied(limit), lambda: apply_some_messages(limit))

    def start_binding(self, reservation: Reservation) -> None:
        uid = reservation.pod.uid

        def listen(plugin: str, verdict: Status | None) -> None:
            self.record(PermitAllowed(uid, plugin) if verdict is None else PermitDecided(uid, verdict))

        reservation.reserved.on_change = listen
        super().start_binding(reservation)

    def part_start(self, header: Header, now: float) -> PartStart:
        nodes, nominator, queue = self.cluster.nodes, self.cluster.nominator, self.queue
        awake = (queued.pod.uid for queued in queue if not queue.waits_for_event(queued.pod.uid))
        nominated = (
            Nominated(uid, node_name)
            for uid, pod in self.handlers.pending.items()
            if (node_name := nominator.nominated_node(uid)) != pod.nominated_node_name
        )
        before: list[Message] = []
        for source in self.sources:
            if source.updated_at is not None:
                before.append(SourceChanged(source.key, source.updated_at, dict(source)))
            if source.error:
                before.append(SourceFailed(source.key, source.error))
        if self.synced:
            before.append(Synced())
        if self.configuration is not None:
            header = msgspec.structs.replace(header, configuration=_configuration_text(self.configuration))
        evicted, number = self.preemption.budgets.evicted, self.configuration_number
        state = PartState(self.attempts, self.rotation.next_start_index, evicted, number)
        after = (ActivateRequested(tuple(awake)), *nominated, state)
        return PartStart(
            header,
            nodes=[nodes[row].name for row in nodes.order.tolist()],
            before=[(now, what) for what in before],
            after=[(now, what) for what in after],
        )


P = TypeVar("P", bound=PodEngine)


class PodEngineKind(EngineKind[P]):
    """Creates pod engines of this class for a replay, with the plugins of this registry, or the installed ones."""

    def __init__(self, engine: type[P], registry: Registry | None = None) -> None:
        self._engine = engine
        self._registry = registry

    def rebuild(self, configuration: str, file: str, clock: Clock, host: Host) -> P:
        parsed = parse(configuration, file)
        profiles = profiles_factory(parsed, self._registry or Registry.from_installed(), host)
        return self._engine.from_configuration(parsed, clock, host, Extenders(), profiles)

    def _change(self, configuration: str, file: str, engine: P) -> ConfigurationChanged:
        parsed, registry = parse(configuration, file), self._registry or Registry.from_installed()
        profiles = recompile_profiles(engine, parsed, registry, engine.host)
        return ConfigurationChanged(parsed, profiles, Extenders())

    def apply_line(self, engine: P, recorded: RecordingReader, line: Line) -> None:
        if line.what == "PermitAllowed":
            allowed = recorded.read(line.body, PermitAllowed)
            if (reserved := engine.cluster.waiting.get(allowed.uid)) is not None:
                reserved.allow(allowed.plugin)
        elif line.what == "PermitDecided":
            decided = recorded.read(line.body, PermitDecided)
            if (reserved := engine.cluster.waiting.get(decided.uid)) is not None:
                reserved.decide(decided.status)
        elif line.what == "ConfigurationTaken":
            taken = recorded.read(line.body, ConfigurationTaken)
            engine.offer(self._change(taken.configuration, str(recorded.file), engine))
        elif line.what == "MessagesApplied":
            engine.apply_some_messages(recorded.read(line.body, MessagesApplied).number)
        elif line.what == "PartState":
            part_state = recorded.read(line.body, PartState)
            engine.attempts = part_state.attempts
            engine.configuration_number = part_state.configuration
            engine.rotation.next_start_index = part_state.rotation
            engine.preemption.budgets.restore(part_state.evicted)
        else:
            super().apply_line(engine, recorded, line)


class FollowingEngine(PodEngine):
    """An engine whose attempts end as recorded."""

    attempts: int
    #: The recorded decision of the attempt under way; None between attempts.
    _recorded: Decision | None = None

    def follow(self, decision: Decision) -> None:
        queued = self._pop_queued(decision)
        if queued is not None:
            self.attempts = decision.attempt - 1
            self._recorded = decision
            self._attempt(queued)
            self._recorded = None

    def follow_group(self, decisions: Mapping[str, Decision], group: GroupDecision) -> None:
        """Let the cycle of a group end as recorded; `decisions` are those on its pods, by uid."""
        queued = self._take_root(group)
        if queued is not None:
            for uid in queued.members:
                if uid not in decisions:
                    self.queue.done(uid)
            self._follow_members(queued, decisions, group)

    def restore_group(self, decisions: Mapping[str, Decision], group: GroupDecision) -> None:
        """Requeue what waits of a group as after its last cycle of the previous part; others' decisions are ignored."""
        queued = self._take_root(group)
        if queued is None:
            return
        before: dict[str, Decision] = {}
        for uid, member in queued.members.items():
            if uid in decisions:
                # Nominations and evictions may have changed since; the part has lines of its own for them.
                before[uid] = msgspec.structs.replace(decisions[uid], nominated=None, victims=())
            else:  # it has come since
                member.attempts -= 1
                self.queue.put_back(member)
        self._follow_members(queued, before, group)

    def _take_root(self, group: GroupDecision) -> QueuedGroup | None:
        assert isinstance(self.queue, GroupQueue)
        namespace, _, name = group.group.partition("/")
        return self.queue.take((group.kind, namespace, name))

    def _follow_members(self, queued: QueuedGroup, decisions: Mapping[str, Decision], group: GroupDecision) -> None:
        assert isinstance(self.queue, GroupQueue)
        trace, state = GroupTrace(group.attempt, group.sample_value, self.clock.now()), CycleState()
        tried = [decision for uid, decision in decisions.items() if uid in queued.members]
        for decision in sorted(tried, key=lambda decision: decision.attempt):
            self._recorded, member = decision, queued.members[decision.uid]
            member.attempts, self.attempts = decision.pod_attempts, decision.attempt - 1
            attempt = self._begin_cycle(member, trace)
            attempt.group_state = state
            self._apply_result(member, self._follow_member(attempt, decision, queued.root))
        self._recorded = None
        self._end_of_cycle()
        status = Status(group.code, (group.message,), group.rejector) if decisions else Status(Code.SUCCESS)
        self.queue.put_back_group(queued, status)

    def _follow_member(self, attempt: Attempt, decision: Decision, root: GenericPodGroup) -> AttemptResult:
        """Take the recorded node, or fail as recorded."""
        status = Status(decision.code, (decision.message,))
        if decision.result is Result.SCHEDULED:
            search = self.search(attempt)
            run_sync(search.steps())  # for the cycle state
            return attempt.take_node(search, _recorded_result(decision))
        eviction = self._eviction(attempt, decision, root) if decision.victims else None
        return attempt.fail(Failure(status, decision.nominated, eviction, decision.victims), ScheduleError(status))

    def _eviction(self, attempt: Attempt, decision: Decision, root: GenericPodGroup) -> Eviction | None:
        """Return the recorded preemption of a group, None if no victim is alive."""
        keys = frozenset(decision.victims)
        victims = tuple(pod for pod in self.cluster.pods.values() if pod.key in keys and not pod.terminating)
        args = decision.attempt, attempt.profile.name, "", attempt.pod, "", victims, ()
        return Eviction(*args, group=root) if victims else None

    def restore_pod(self, decision: Decision) -> None:
        """Requeue the pod as after its last attempt of the previous part."""
        self.apply_messages()
        if decision.result is Result.SCHEDULED:
            self.follow(decision)
            return
        queued = self._pop_queued(decision)
        if queued is not None:
            # The nomination may have changed since; the part has a line of its own for it.
            self._recorded = msgspec.structs.replace(decision, nominated=None)
            self.failed(queued, Status(decision.code, (decision.message,)), None)
            self._recorded = None

    def _pop_queued(self, decision: Decision) -> QueuedPod | None:
        """Take the pod out of the queue, wherever in it the pod is; None if it is not in."""
        queued = self.queue.get(decision.uid)
        if queued is not None:
            self.queue.delete(decision.uid)
            self.queue.in_flight.pop(decision.uid)
            queued.attempts = decision.pod_attempts
        return queued

    def check_outcome(self, search: Search, outcome: Outcome) -> Outcome:
        outcome, recorded = super().check_outcome(search, outcome), self._recorded
        if recorded is None:
            return outcome
        if recorded.result is Result.SCHEDULED:
            return _recorded_result(recorded)
        if isinstance(outcome, ScheduleResult) and not recorded.feasible:
            return ScheduleError(Status(recorded.code, (recorded.message,)))
        return outcome

    def failed(self, queued: QueuedPod, status: Status, nominated: str | None) -> None:
        recorded = self._recorded
        if recorded is not None:
            queued.pending_plugins = frozenset(recorded.pending)
            queued.unschedulable_plugins = frozenset(recorded.rejectors) - queued.pending_plugins
            status, nominated = Status(recorded.code, (recorded.message,)), recorded.nominated
        super().failed(queued, status, nominated)


def _recorded_result(recorded: Decision) -> ScheduleResult:
    return ScheduleResult(
        recorded.node, recorded.score, recorded.ties, recorded.evaluated, recorded.feasible, recorded.best_nodes
    )
