"""Decide recorded attempts again with another configuration, on the recorded state and without changing it.

Only the choice of a node is made again: PreFilter to Score, and PostFilter where nothing fits. Reserve and Permit act
on the state, so they are not called, and neither are PreEnqueue and QueueSort: the order of the pods is as recorded.
Random ties make no difference: where the recorded choice is among the best, it is the choice.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from kframework.config.configuration import Configuration
from kframework.config.default_plugins import IN_TREE_PLUGINS
from kframework.config.load import parse
from kframework.core.cycle.attempt import Attempt, AttemptResult
from kframework.core.cycle.records import Decision
from kframework.core.cycle.results import Failure, ScheduleResult
from kframework.core.cycle.search import Search
from kframework.core.cycle.suspendable import run_sync
from kframework.core.host import Host
from kframework.core.plugin_handle import profiles_factory
from kframework.core.pod_engine import PodEngine
from kframework.core.runtime.points import PostFilterAnswer
from kframework.core.runtime.profile import Profile
from kframework.core.runtime.registry import Registry
from kframework.core.runtime.timing import AttemptTrace
from kframework.errors import ConfigError
from kframework.framework.answers import Preempt
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
    """Decide every attempt again, by default with the recorded configuration; raises InputError, ConfigError."""
    replay = follow(file, registry)
    if configuration is None:
        configuration = parse(replay.recorded.header.configuration, str(file))
    reconsiderer = Reconsiderer(replay.engine, configuration, registry)
    differences: list[DecisionDiff] = []
    late_rejections: list[int] = []
    earlier_pods: list[int] = []
    for recorded in replay:
        assert isinstance(recorded, Decision)
        if replay.engine.queue.get(recorded.uid) is None:
            earlier_pods.append(recorded.attempt)
        elif (diff := reconsiderer.diff(recorded)) is not None:
            differences.append(diff)
        elif not recorded.node and any(phase in _UNCALLED_POINTS for phase, _, _ in recorded.timings):
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
        engine = self._engine = PodEngine(
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

    def _decide(self, profile: Profile, queued: QueuedPod, recorded: Decision) -> Decision:
        engine = self._engine
        for update in engine.sources.copy_from(self._followed.sources):
            engine.on_source_update(update)
        engine.rotation.next_start_index = self._followed.rotation.next_start_index
        copy = QueuedPod(queued.pod, queued.timestamp)
        copy.attempts, copy.initial_attempt = recorded.pod_attempts, queued.initial_attempt
        clock, trace = engine.clock, AttemptTrace(copy.pod, recorded.attempt, recorded.sample_value)
        attempt = _DryAttempt(engine.cluster, profile, copy, clock, clock.now(), trace, recorded=recorded)
        with engine.isolated():
            result = run_sync(engine.decide(attempt))
            engine.current_search = None
        assert result is not None  # there is no run to join
        return result[0]


class _DryAttempt(Attempt, kw_only=True):
    """An attempt that ends where it would begin to change something."""

    recorded: Decision

    def take_node(self, search: Search, result: ScheduleResult) -> AttemptResult:
        if result.ties > 1:  # others are as good as the one that was drawn
            best = (search.totals == result.score).nonzero()[0].tolist()
            if self.recorded.node in (search.nodes[int(search.feasible[position])].name for position in best):
                result = msgspec.structs.replace(result, node=self.recorded.node)
        return self.decision(result), Failure(Status(Code.SUCCESS))

    def choose_preemption(self, answer: PostFilterAnswer) -> Failure:
        """Choose the victims that were chosen before, if they are among the best."""
        result = answer.result
        if isinstance(result, Preempt):
            # The first of those that cost least is chosen.
            others_last = sorted(result.candidates, key=lambda one: one.node != self.recorded.nominated)
            result = msgspec.structs.replace(result, candidates=tuple(others_last))
            answer = msgspec.structs.replace(answer, result=result)
        return super().choose_preemption(answer)


def _kind(recorded: Decision, now: Decision) -> str:
    # Where a node was found but not used, Reserve or Permit rejected it: they are not called again.
    before, after = recorded.feasible > 0, now.feasible > 0
    if before and after:
        return "other node" if recorded.node not in ("", now.node) else ""
    if before or after:
        return "fits no more" if before else "fits now"
    if (recorded.nominated or "", recorded.victims) != (now.nominated or "", now.victims):
        return "other victims"
    return "other reasons" if recorded.message != now.message else ""
