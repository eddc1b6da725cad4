"""The whole default profile on random clusters to which everything happens that its plugins know.

What is remembered, counted and asked in columns is compared, for every pod after every change, with the cycle that asks
the scalar forms without caches (`kframework.core.cycle.oracle`), cached dry runs of preemption included.
"""

from __future__ import annotations

from collections import Counter
from itertools import chain
from random import Random

import msgspec
import pytest

from kframework.clock import SystemClock
from kframework.config.load import default_configuration
from kframework.core.cycle.oracle import VerificationError
from kframework.core.cycle.results import FitError, ScheduleResult
from kframework.core.host import Host
from kframework.core.plugin_handle import profiles_factory
from kframework.core.pod_engine import PodEngine
from kframework.core.runtime.points import PostFilterRound
from kframework.core.runtime.registry import Registry
from kframework.framework.answers import Preempt
from kframework.state.log import Log
from kframework.state.pods import PendingPod, QueuedPod
from kframework.testing.clusters import RandomCluster
from tests.contract import attached_volumes, devices, neighbours, nodes, volumes
from tests.support.scale import EXAMPLES

CLUSTERS = EXAMPLES
CHANGES = 12

BUILT_IN = (nodes, neighbours, attached_volumes, volumes, devices)
# Worlds of other plugins would make the rare ones of the built-ins rarer still.
WORLDS = [world for module in BUILT_IN for case in module.CASES.values() for world in chain(case.worlds, case.waking)]


class Tries:
    """Pods that are tried again and again while the cluster changes."""

    def __init__(self, seed: int) -> None:
        random = Random(seed)
        worlds = random.sample(WORLDS, 6)
        self.cluster = RandomCluster(
            random,
            nodes=[node for world in worlds for node in world.nodes],
            pods=[pod for world in worlds for pod in world.pods],
            objects=[obj for world in worlds for obj in world.objects],
        )
        host = Host()
        profiles = profiles_factory(default_configuration(), Registry.from_installed(), host)
        self.engine = PodEngine(self.cluster.state, SystemClock(), host, profiles, seed=seed, verifying=True)
        self.pods = [self.important(pod) for pod in self.cluster.pending(4)]
        self.seen: Counter[str] = Counter()

    def important(self, pod: PendingPod) -> PendingPod:
        """Give a pod a priority above that of most others, or leave it as it is."""
        if self.cluster.random.random() < 0.5:
            return pod
        spec = msgspec.structs.replace(pod.object.spec, priority=100)
        return PendingPod(msgspec.structs.replace(pod.object, spec=spec), self.cluster.state.interner)

    def run(self) -> None:
        for _ in range(CHANGES):
            for pod in self.cluster.random.sample(self.pods, min(8, len(self.pods))):
                self.look(pod)
            self.cluster.change(lambda: None)

    def look(self, pod: PendingPod) -> None:
        """Search a node for a pod, or whom to send away; VerificationError where what is remembered is not true."""
        profile = self.engine.profiles["default-scheduler"]
        search = self.engine.search(self.engine.start_attempt(QueuedPod(pod, 0.0)))
        outcome = self.engine.check_outcome(search, search.run())
        if isinstance(outcome, FitError):
            answer = PostFilterRound(profile).run(search.state, pod, outcome.diagnosis)
            # In a hook an error is the plugin's fault, and its words stand in the answer.
            assert "VerificationError" not in answer.status.message, answer.status.message
            self.seen["preempting" if isinstance(answer.result, Preempt) else "in vain"] += 1
        else:
            self.seen["found" if isinstance(outcome, ScheduleResult) else "failed"] += 1
        self.engine.current_search = None


@pytest.mark.slow
def test_cached_answers_equal_uncached_ones() -> None:
    seen: Counter[str] = Counter()
    for seed in range(CLUSTERS):
        tries = Tries(seed)
        tries.run()
        seen.update(tries.seen)
    assert min(seen[what] for what in ("found", "preempting", "in vain")) >= CLUSTERS // 2, seen


def test_unlogged_change_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Log, "append", lambda log, row: None)
    with pytest.raises(VerificationError):
        for seed in range(CLUSTERS):
            Tries(seed).run()
