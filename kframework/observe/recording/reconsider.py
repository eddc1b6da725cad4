"""Decide recorded attempts again with another configuration, on the recorded state and without changing it.

What is decided again, and what is not, says `kframework.core.dry_engine`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from kframework.config.configuration import Configuration
from kframework.config.default_plugins import IN_TREE_PLUGINS
from kframework.config.load import parse
from kframework.core.cycle.records import Decision, GroupDecision
from kframework.core.dry_engine import (
    UNCALLED_POINTS,
    DryEngine,
    differs_in,
    is_late_rejection,
    member_differs_in,
)
from kframework.core.host import Host
from kframework.core.plugin_handle import profiles_factory
from kframework.core.pod_engine import PodEngine
from kframework.core.queue.queued_group import QueuedGroup
from kframework.core.runtime.registry import Registry
from kframework.errors import ConfigError
from kframework.observe.recording.diff import DecisionDiff, ReplayResult, Unrepeated
from kframework.observe.recording.pod_engine import FollowingEngine
from kframework.observe.recording.replay import follow


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
        kind = differs_in(baseline, now)
        if not kind and is_late_rejection(recorded):
            self._late_rejections.append(recorded.attempt)
        return [DecisionDiff.from_attempt(kind, baseline, now)] if kind else []

    def _diff_group(self, group: GroupDecision, recorded: Sequence[Decision]) -> list[DecisionDiff]:
        """Compare the outcomes of the next cycle of a group.

        There are none if Reserve or Permit rejected a pod: what became of the others depended on it.
        """
        if any(map(is_late_rejection, recorded)):
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
        kinds = [(member_differs_in(each, now[each.uid]), each) for each in baseline]
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
        engine = DryEngine(
            followed.cluster,
            followed.clock,
            host,
            profiles_factory(configuration, registry or Registry.from_installed(), host),
            seed=options.seed,
            layer_memory=options.layer_memory_bytes,
            preempt_other_schedulers_pods=options.preempt_other_schedulers_pods,
        )
        self.engine: DryEngine = engine
        engine.preemption.budgets = followed.preemption.budgets

    def decide(self, preferred: Decision) -> Decision | None:
        """Decide the next attempt, whose pod is queued, for the preferred node if it is among the best.

        None if no profile schedules the pod.
        """
        queued = self._followed.queue.get(preferred.uid)
        assert queued is not None
        profile = self.engine.profiles.get(queued.pod.scheduler_name)
        return None if profile is None else self.catch_up().decide_again(profile, queued, preferred)

    def decide_group(self, group: GroupDecision, preferred: Sequence[Decision]) -> list[Decision]:
        """Decide the next cycle of a group, whose pods are queued, likewise; return the decisions in the same order."""
        profile = self.engine.profiles.get(preferred[0].profile) if preferred else None
        if profile is None:
            return []
        queued = self._followed.queue.get(preferred[0].uid)
        assert isinstance(queued, QueuedGroup)
        now = self.catch_up().decide_group_again(profile, queued.root, queued.members, group, preferred)
        return [now[each.uid] for each in preferred]

    def uncalled_hooks(self) -> tuple[str, ...]:
        """List the hooks that decide but are not called again, of plugins that are not built in."""
        return tuple(
            sorted(
                {
                    f"{plugin}.{point}"
                    for profile in self.engine.profiles.values()
                    for point in UNCALLED_POINTS
                    for plugin in profile.points.get(point, ())
                    if plugin not in IN_TREE_PLUGINS
                }
            )
        )

    def catch_up(self) -> DryEngine:
        """Return the engine in the state of the one that is followed."""
        engine = self.engine
        for update in engine.sources.copy_from(self._followed.sources):
            engine.on_source_update(update)
        engine.rotation.next_start_index = self._followed.rotation.next_start_index
        return engine
