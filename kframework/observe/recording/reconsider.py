"""Decide recorded attempts again with another configuration, on the recorded state and without changing it.

Only the choice of a node is made again: PreFilter to Score, and PostFilter where nothing fits. Reserve and Permit act
on the state, so they are not called, and neither are PreEnqueue and QueueSort: the order of the pods is as recorded.
Random ties make no difference: where the recorded choice is among the best, it is the choice.

A group is decided again as a whole: its pods are assumed and reserved one after the other, and taken back in the end.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
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
    return Reconsideration(file, configuration, registry).run()


class Reconsideration:
    """Decides every attempt of a recording again, and compares the decisions with those of a baseline.

    Both configurations are by default the one that decided at the time; the recorded baseline's decisions are those in
    the recording.
    Raises InputError, ConfigError.

    Attributes:
        baseline: The engine of the baseline; it and `new` have the recorded state.
        new: The engine of the other configuration.
        nodes: The last node of each pod by its uid, as the baseline decides; "" for none.
    """

    def __init__(
        self,
        file: Path,
        configuration: Configuration | None = None,
        registry: Registry | None = None,
        baseline: Configuration | None = None,
    ) -> None:
        replay = self._replay = follow(file, registry)
        self._registry = registry
        self._follows_configuration = configuration is None
        if configuration is None:
            configuration = parse(replay.recorded.header.configuration, str(file))
        self._configuration = configuration
        self._followed: FollowingEngine = replay.engine
        self._reconsiderer = Reconsiderer(replay.engine, configuration, registry)
        self._baseline = None if baseline is None else Reconsiderer(replay.engine, baseline, registry)
        self.baseline: PodEngine = replay.engine if self._baseline is None else self._baseline.engine
        self.new: PodEngine = self._reconsiderer.engine
        self.nodes: dict[str, str] = {}
        self._differences: list[DecisionDiff] = []
        self._late_rejections: list[int] = []
        self._earlier_pods: list[int] = []

    def run(self) -> ReplayResult:
        """Decide all attempts, and return the result."""
        deque(self, maxlen=0)
        return self.result

    def __iter__(self) -> Iterator[DecisionDiff]:
        """Yield each difference, while both engines have the state before it."""
        members: list[Decision] = []
        for recorded in self._replay:
            if self._follows_configuration:
                self._follow_configuration()
            if isinstance(recorded, GroupDecision):
                differences, members = self._diff_group(recorded, members), []
            else:
                assert isinstance(recorded, Decision)
                if recorded.group_attempt and self._followed.queue.get(recorded.uid) is not None:
                    members.append(recorded)
                    continue
                differences = self._diff(recorded)
            self._differences += differences
            yield from differences

    @property
    def result(self) -> ReplayResult:
        """The differences and what was not decided again, once all attempts have been."""
        gated = tuple(queued.pod.key for queued in self._followed.queue.pods_in("gated"))
        engines = (self._reconsiderer,) if self._baseline is None else (self._reconsiderer, self._baseline)
        hooks = tuple(sorted({hook for each in engines for hook in each.uncalled_hooks()}))
        unrepeated = Unrepeated(tuple(self._late_rejections), tuple(self._earlier_pods), gated, hooks)
        replayed = self._replay.replay_all()
        return msgspec.structs.replace(replayed, differences=tuple(self._differences), unrepeated=unrepeated)

    def _follow_configuration(self) -> None:
        """Decide by the configuration that the recorded scheduler has taken since."""
        taken = self._followed.configuration
        if taken is not None and taken != self._configuration:
            self._configuration = taken
            self._reconsiderer = Reconsiderer(self._followed, taken, self._registry)
            self.new = self._reconsiderer.engine

    def _diff(self, recorded: Decision) -> list[DecisionDiff]:
        if self._followed.queue.get(recorded.uid) is None:
            self._earlier_pods.append(recorded.attempt)
            return []
        baseline = recorded if self._baseline is None else self._baseline.decide(recorded)
        self.nodes[recorded.uid] = "" if baseline is None else baseline.node
        now = self._reconsiderer.decide(baseline or recorded)
        if baseline is None or now is None:
            absent = baseline is None and now is None
            return [] if absent else [DecisionDiff.from_attempt("no profile", baseline, now)]
        kind = _kind(baseline, now)
        if not kind and _is_late_rejection(recorded):
            self._late_rejections.append(recorded.attempt)
        return [DecisionDiff.from_attempt(kind, baseline, now)] if kind else []

    def _diff_group(self, group: GroupDecision, recorded: Sequence[Decision]) -> list[DecisionDiff]:
        """Compare the outcomes of the next cycle of a group.

        There are none if Reserve or Permit rejected a pod: what became of the others depended on it.
        """
        if any(map(_is_late_rejection, recorded)):
            self.nodes.update(dict.fromkeys((member.uid for member in recorded), ""))
            self._late_rejections += [member.attempt for member in recorded]
            return []
        baseline = recorded if self._baseline is None else self._baseline.decide_group(group, recorded)
        self.nodes.update((each.uid, each.node) for each in baseline)
        now = {each.uid: each for each in self._reconsiderer.decide_group(group, baseline or recorded)}
        if not baseline:
            return [DecisionDiff.from_attempt("no profile", None, each) for each in now.values()]
        if not now:
            return [DecisionDiff.from_attempt("no profile", each, None) for each in baseline]
        kinds = [(_member_kind(each, now[each.uid]), each) for each in baseline]
        # Where a rejected pod would have gone is not recorded: if that was drawn, the reasons of others depend on it.
        drawn = any(each.ties > 1 and not each.node for each in baseline)
        ignored = ("", "other reasons") if drawn else ("",)
        return [DecisionDiff.from_attempt(kind, each, now[each.uid]) for kind, each in kinds if kind not in ignored]


class Reconsiderer:
    """Decides the attempts of an engine by another configuration, right before they end as `followed` has them."""

    def __init__(self, followed: PodEngine, configuration: Configuration, registry: Registry | None = None) -> None:
        if configuration.settings.extenders:
            raise ConfigError("extenders cannot be called in a replay: remove them from the configuration")
        self._followed = followed
        options, recorded = configuration.options, followed.cluster.feature_gates
        if (options.gates.minor, options.gates.settings) != (recorded.minor, recorded.settings):
            remedy = f"set them to {recorded.minor!r} and {dict(recorded.settings)} in the configuration"
            raise ConfigError(f"emulatedVersion and featureGates must be those of the recording: {remedy}")
        host = Host()
        engine = self.engine = _DryEngine(
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

    def decide(self, preferred: Decision) -> Decision | None:
        """Decide the next attempt, whose pod is queued, for the preferred node if it is among the best.

        None if no profile schedules the pod.
        """
        queued = self._followed.queue.get(preferred.uid)
        assert queued is not None
        profile = self.engine.profiles.get(queued.pod.scheduler_name)
        return None if profile is None else self._decide(profile, queued, preferred)

    def decide_group(self, group: GroupDecision, preferred: Sequence[Decision]) -> list[Decision]:
        """Decide the next cycle of a group, whose pods are queued, likewise; return the decisions in the same order."""
        profile = self.engine.profiles.get(preferred[0].profile) if preferred else None
        if profile is None:
            return []
        now = self._decide_group(profile, group, preferred)
        return [now[each.uid] for each in preferred]

    def uncalled_hooks(self) -> tuple[str, ...]:
        """List the hooks that decide but are not called again, of plugins that are not built in."""
        return tuple(
            sorted(
                {
                    f"{plugin}.{point}"
                    for profile in self.engine.profiles.values()
                    for point in _UNCALLED_POINTS
                    for plugin in profile.points.get(point, ())
                    if plugin not in IN_TREE_PLUGINS
                }
            )
        )

    def catch_up(self) -> PodEngine:
        """Return the engine in the state of the one that is followed."""
        engine = self.engine
        for update in engine.sources.copy_from(self._followed.sources):
            engine.on_source_update(update)
        engine.rotation.next_start_index = self._followed.rotation.next_start_index
        return engine

    def _begin(self, profile: Profile, queued: QueuedPod, recorded: Decision) -> _DryAttempt:
        copy = QueuedPod(queued.pod, queued.timestamp)
        copy.attempts, copy.initial_attempt = recorded.pod_attempts, queued.initial_attempt
        clock, trace = self.engine.clock, AttemptTrace(copy.pod, recorded.attempt, recorded.sample_value)
        return _DryAttempt(self.engine.cluster, profile, copy, clock, clock.now(), trace, recorded=recorded)

    def _decide_group(
        self, profile: Profile, group: GroupDecision, recorded: Sequence[Decision]
    ) -> dict[str, Decision]:
        """Decide on a group again, and take its pods back; return the decisions by the pod's uid."""
        engine, queued = self.catch_up(), self._followed.queue.get(recorded[0].uid)
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
            for attempt in reversed(attempts):
                attempt.take_back()
        for pod, node in nominations:
            if node:
                nominator.nominate(pod, node)
        return {decision.uid: decision for outcome in outcomes for _, (decision, _) in outcome.results}

    def _decide(self, profile: Profile, queued: QueuedPod, recorded: Decision) -> Decision:
        engine, attempt = self.catch_up(), self._begin(profile, queued, recorded)
        with engine.isolated():
            result = run_sync(engine.decide(attempt))
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
