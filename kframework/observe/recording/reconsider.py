"""Decide recorded attempts again with another configuration, on the recorded state and without changing it.

Only the choice of a node is made again: PreFilter to Score, and PostFilter where nothing fits. Reserve and Permit act
on the state, so they are not called, and neither are PreEnqueue and QueueSort: the order of the pods is as recorded.
Random ties make no difference: where the recorded choice is among the best, it is the choice.

A group is decided again as a whole: its pods are assumed and reserved one after the other, and taken back in the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random

import msgspec

from kframework.config.configuration import Configuration
from kframework.config.default_plugins import IN_TREE_PLUGINS
from kframework.config.load import parse
from kframework.core.cycle.attempt import Attempt, AttemptResult
from kframework.core.cycle.group_trace import GroupTrace
from kframework.core.cycle.records import Decision, GroupDecision
from kframework.core.cycle.results import Failure, Outcome, ScheduleResult
from kframework.core.cycle.search import Search
from kframework.core.cycle.suspendable import Suspendable, run_sync
from kframework.core.host import Host
from kframework.core.plugin_handle import profiles_factory
from kframework.core.pod_engine import PodEngine
from kframework.core.queue.group_queue import QueuedGroup
from kframework.core.runtime.points import PostFilterAnswer
from kframework.core.runtime.profile import Profile, Signature
from kframework.core.runtime.registry import Registry
from kframework.core.runtime.timing import AttemptTrace
from kframework.errors import ConfigError
from kframework.framework.answers import Preempt
from kframework.framework.cycle_state import CycleState
from kframework.observe.recording.diff import DecisionDiff, ReplayResult, Unrepeated
from kframework.observe.recording.pod_engine import FollowingEngine
from kframework.observe.recording.replay import follow
from kframework.state.pods import QueuedPod
from kframework.values.status import Code, Status

#: The points that decide but are not repeated.
_UNCALLED_POINTS = ("pre_enqueue", "queue_sort", "reserve", "permit")


def reconsider(
    file: Path, configuration: Configuration | None = None, registry: Registry | None = None
) -> ReplayResult:
    """Decide every attempt again, by default with the configuration that decided; raises InputError, ConfigError."""
    replay = follow(file, registry)
    given, configuration = configuration, configuration or parse(replay.recorded.header.configuration, str(file))
    reconsiderer = Reconsiderer(replay.engine, configuration, registry)
    differences: list[DecisionDiff] = []
    late_rejections: list[int] = []
    earlier_pods: list[int] = []
    members: list[Decision] = []
    for recorded in replay:
        if given is None and replay.engine.configuration not in (None, configuration):
            configuration = replay.engine.configuration
            reconsiderer = Reconsiderer(replay.engine, configuration, registry)
        if isinstance(recorded, GroupDecision):
            differences += reconsiderer.diff_group(recorded, members)
            if any(map(_is_late_rejection, members)):
                late_rejections += [member.attempt for member in members]
            members = []
            continue
        assert isinstance(recorded, Decision)
        if replay.engine.queue.get(recorded.uid) is None:
            earlier_pods.append(recorded.attempt)
        elif recorded.group_attempt:
            members.append(recorded)
        elif (diff := reconsiderer.diff(recorded)) is not None:
            differences.append(diff)
        elif _is_late_rejection(recorded):
            late_rejections.append(recorded.attempt)
    gated = tuple(queued.pod.key for queued in replay.engine.queue.pods_in("gated"))
    unrepeated = Unrepeated(tuple(late_rejections), tuple(earlier_pods), gated, reconsiderer.uncalled_hooks())
    return msgspec.structs.replace(replay.replay_all(), differences=tuple(differences), unrepeated=unrepeated)


class Reconsiderer:
    """Decides the attempts of a recording, which `followed` follows from its beginning, by another configuration."""

    def __init__(
        self, followed: FollowingEngine, configuration: Configuration, registry: Registry | None = None
    ) -> None:
        if configuration.settings.extenders:
            raise ConfigError("extenders cannot be called in a replay: remove them from the --config")
        self._followed = followed
        options, recorded = configuration.options, followed.cluster.feature_gates
        if (options.gates.minor, options.gates.settings) != (recorded.minor, recorded.settings):
            remedy = f"set them to {recorded.minor!r} and {dict(recorded.settings)} in the --config"
            raise ConfigError(f"emulatedVersion and featureGates must be those of the recording: {remedy}")
        host = Host()
        engine = self._engine = _DryEngine(
            followed.cluster,
            followed.clock,
            host,
            profiles_factory(configuration, registry or Registry.from_installed(), host),
            seed=options.seed,
            layer_memory=options.layer_memory_bytes,
            preempt_other_schedulers_pods=options.preempt_other_schedulers_pods,
        )
        engine.preemption.budgets = followed.preemption.budgets
        engine.handlers.pending = followed.handlers.pending

    def diff(self, recorded: Decision) -> DecisionDiff | None:
        """Return the different outcome of the next attempt, whose pod is queued; None if it is the same."""
        queued = self._followed.queue.get(recorded.uid)
        assert queued is not None
        profile = self._engine.profiles.get(queued.pod.scheduler_name)
        if profile is None:
            return DecisionDiff.from_attempt("no profile", recorded, None)
        now = self._decide(profile, queued, recorded)
        kind = _kind(recorded, now)
        return DecisionDiff.from_attempt(kind, recorded, now) if kind else None

    def diff_group(self, group: GroupDecision, recorded: Sequence[Decision]) -> list[DecisionDiff]:
        """Return the different outcomes of the next cycle of a group, whose pods are queued; none if all are the same.

        None, too, if Reserve or Permit rejected a pod: what became of the others depended on it.
        """
        if not recorded or any(map(_is_late_rejection, recorded)):
            return []
        profile = self._engine.profiles.get(recorded[0].profile)
        if profile is None:
            return [DecisionDiff.from_attempt("no profile", each, None) for each in recorded]
        now = self._decide_group(profile, group, recorded)
        kinds = [(_member_kind(each, now[each.uid]), each) for each in recorded]
        # Where a rejected pod would have gone is not recorded: if that was drawn, the reasons of others depend on it.
        drawn = any(each.ties > 1 and not each.node for each in recorded)
        ignored = ("", "other reasons") if drawn else ("",)
        return [DecisionDiff.from_attempt(kind, each, now[each.uid]) for kind, each in kinds if kind not in ignored]

    def uncalled_hooks(self) -> tuple[str, ...]:
        """List the hooks that decide but are not called again, of plugins that are not built in."""
        return tuple(
            sorted(
                {
                    f"{plugin}.{point}"
                    for profile in self._engine.profiles.values()
                    for point in _UNCALLED_POINTS
                    for plugin in profile.points.get(point, ())
                    if plugin not in IN_TREE_PLUGINS
                }
            )
        )

    def _catch_up(self) -> PodEngine:
        """Return the engine in the state of the recorded one."""
        engine = self._engine
        for update in engine.sources.copy_from(self._followed.sources):
            engine.on_source_update(update)
        engine.rotation.next_start_index = self._followed.rotation.next_start_index
        return engine

    def _begin(self, profile: Profile, queued: QueuedPod, recorded: Decision) -> _DryAttempt:
        copy = QueuedPod(queued.pod, queued.timestamp)
        copy.attempts, copy.initial_attempt = recorded.pod_attempts, queued.initial_attempt
        clock, trace = self._engine.clock, AttemptTrace(copy.pod, recorded.attempt, recorded.sample_value)
        return _DryAttempt(self._engine.cluster, profile, copy, clock, clock.now(), trace, recorded=recorded)

    def _decide_group(
        self, profile: Profile, group: GroupDecision, recorded: Sequence[Decision]
    ) -> dict[str, Decision]:
        """Decide on a group again, and take its pods back; return the decisions by the pod's uid."""
        engine, queued = self._catch_up(), self._followed.queue.get(recorded[0].uid)
        assert isinstance(queued, QueuedGroup)
        by_uid = {each.uid: each for each in recorded}
        pods = [queued.members[each.uid] for each in sorted(recorded, key=lambda each: each.attempt)]
        nominator = engine.cluster.nominator
        nominations = [(each.pod, nominator.nominated_node(each.pod.uid)) for each in pods]
        attempts: list[_DryAttempt] = []

        def begin(member: QueuedPod) -> Attempt:
            attempts.append(self._begin(profile, member, by_uid[member.pod.uid]))
            return attempts[-1]

        with engine.isolated():
            trace = GroupTrace(group.attempt)
            _, outcomes = run_sync(engine.decide_group(queued.root, pods, begin, trace, group.placement))
            engine.current_search = None
            for attempt in reversed(attempts):
                attempt.take_back()
        for pod, node in nominations:
            if node:
                nominator.nominate(pod, node)
        return {decision.uid: decision for outcome in outcomes for _, (decision, _) in outcome.results}

    def _decide(self, profile: Profile, queued: QueuedPod, recorded: Decision) -> Decision:
        engine, attempt = self._catch_up(), self._begin(profile, queued, recorded)
        with engine.isolated():
            result = run_sync(engine.decide(attempt))
            engine.current_search = None
        assert result is not None  # there is no run to join
        return result[0]


class _DryAttempt(Attempt, kw_only=True):
    """An attempt that ends where it would begin to change something; the pod of a group may take its node for a while.

    Of Reserve only built-in plugins are called then, so that the pods of a group do not share their devices.
    """

    recorded: Decision

    def __post_init__(self) -> None:
        super().__post_init__()
        self._taken: tuple[CycleState, ScheduleResult] | None = None

    def take_node(self, search: Search, result: ScheduleResult) -> AttemptResult:
        return self.permit(search.state, result)

    def reserve(self, state: CycleState, result: ScheduleResult) -> AttemptResult | None:
        self._taken = state, result
        for step in self.timed_profile.reserve:
            status = step.call(state, self.pod, result.node) if step.name in IN_TREE_PLUGINS else None
            if status is not None:
                return self._roll_back(state, result, status)
        return None

    def permit(self, state: CycleState, result: ScheduleResult) -> AttemptResult:
        return self.decision(result), Failure(Status(Code.SUCCESS))

    def give_back(self, state: CycleState, result: ScheduleResult) -> None:
        self._taken = None
        for step in self.timed_profile.unreserve:
            if step.name in IN_TREE_PLUGINS:
                step.call(state, self.pod, result.node)
        self.cluster.forget(self.pod.uid)

    def take_back(self) -> None:
        """Undo Reserve and the assumption, if the pod has its node."""
        if self._taken is not None:
            self.give_back(*self._taken)

    def choose_preemption(self, answer: PostFilterAnswer) -> Failure:
        """Choose the victims that were chosen before, if they are among the best."""
        result = answer.result
        if isinstance(result, Preempt):
            # The first of those that cost least is chosen.
            others_last = sorted(result.candidates, key=lambda one: one.node != self.recorded.nominated)
            result = msgspec.structs.replace(result, candidates=tuple(others_last))
            answer = msgspec.structs.replace(answer, result=result)
        return super().choose_preemption(answer)


class _DryEngine(PodEngine):
    """An engine that chooses the recorded node if it is among the best."""

    def find_node(self, attempt: Attempt, last: Search | None) -> Suspendable[tuple[Search, Outcome]]:
        return super().find_node(attempt, None)  # the search before prefers the node of another pod

    def _new_search(self, attempt: Attempt, signature: Signature) -> Search:
        search = super()._new_search(attempt, signature)
        if isinstance(attempt, _DryAttempt):
            search.random = _RecordedChoice(search, attempt.recorded.node or attempt.recorded.nominated or "")
        return search


class _RecordedChoice(Random):
    """A generator for one search that draws this node if it is among the best, and else the first one."""

    def __init__(self, search: Search, node: str) -> None:
        super().__init__(0)
        self._search = search
        self._node = node

    def randrange(self, start: int, stop: int | None = None, step: int = 1) -> int:
        search = self._search
        best = search.feasible[(search.totals == search.totals.max()).nonzero()[0]]
        names = [search.nodes.by_row[row].name for row in best.tolist()]
        return names.index(self._node) if self._node in names else 0


def _is_late_rejection(recorded: Decision) -> bool:
    """Return whether Reserve or Permit rejected the pod, or another uncalled point did."""
    return not recorded.node and any(
        point in _UNCALLED_POINTS and code is not Code.SUCCESS for point, _, code in recorded.timings
    )


def _member_kind(recorded: Decision, now: Decision) -> str:
    """Return how the outcome for a pod of a group differs; its search may find a node that its group does not get."""
    if recorded.node and now.node:
        return "other node" if recorded.node != now.node else ""
    if recorded.node or now.node:
        return "fits no more" if recorded.node else "fits now"
    return _failure_kind(recorded, now)


def _kind(recorded: Decision, now: Decision) -> str:
    # Where a node was found but not used, Reserve or Permit rejected it: they are not called again.
    before, after = recorded.feasible > 0, now.feasible > 0
    if before and after:
        return "other node" if recorded.node not in ("", now.node) else ""
    if before or after:
        return "fits no more" if before else "fits now"
    return _failure_kind(recorded, now)


def _failure_kind(recorded: Decision, now: Decision) -> str:
    if (recorded.nominated or "", recorded.victims) != (now.nominated or "", now.victims):
        return "other victims"
    return "other reasons" if recorded.message != now.message else ""
