"""The promise about evictions: once the victims of a preemption have left, the pod can go to its node."""

from __future__ import annotations

import functools
from random import Random

from kframework.core.cycle.oracle import Oracle
from kframework.core.cycle.results import Eviction
from kframework.core.pod_engine import PodEngine
from kframework.state.cluster import ClusterState
from kframework.state.inbox import Synced
from kframework.testing.contract.probe import ContractViolation, PluginUnderTest
from kframework.testing.random_events import RandomEvents, RandomHost
from kframework.testing.single_plugin import PROFILE, StoppedClock, build_profiles
from kframework.values.feature_gates import FeatureGates

#: The number of events of a cluster, and the most attempts after one.
_EVENTS, _ATTEMPTS = 60, 20


def check_evictions(subject: PluginUnderTest) -> int:
    """Let an engine preempt on random clusters; return the number of pods whose node was free after that."""
    return sum(_EvictionCheck(subject, *example).run() for example in subject.generators())


class _EvictionCheck(RandomHost):
    """One random cluster and the host of its engine, which evicts at once."""

    def __init__(self, subject: PluginUnderTest, random: Random, gates: FeatureGates, example: str) -> None:
        super().__init__(RandomEvents(random, nodes=subject.nodes, pods=subject.pods, objects=subject.objects))
        self._subject = subject
        self._example = example
        self._evictions: list[Eviction] = []
        plugins = functools.partial(
            build_profiles,
            subject.plugin,
            subject.args,
            other_plugins=subject.other_plugins,
            sources=subject.sources,
        )
        self.engine = PodEngine(ClusterState(gates), StoppedClock(), self, plugins, verifying=False)

    def evict(self, eviction: Eviction) -> None:
        super().evict(eviction)
        self._evictions.append(eviction)

    def run(self) -> int:
        checked = 0
        for message in (*self.events.initial_messages(), Synced()):
            self.engine.offer(message)
        for _ in range(_EVENTS):
            for _ in range(_ATTEMPTS):
                attempted = self.engine.step()
                self.engine.complete_step()
                checked += self._check_evictions()
                if not attempted:
                    break
            self.engine.offer(self.events.next_message())
        return checked

    def _check_evictions(self) -> int:
        """Apply what the last attempt led to, before the next one, and check whether it helped."""
        messages, self.pending_messages = self.pending_messages, []
        for message in messages:
            self.engine.offer(message)
        self.engine.apply_messages()
        evictions, self._evictions = self._evictions, []
        return sum(map(self._check_eviction, evictions))

    def _check_eviction(self, eviction: Eviction) -> bool:
        """Expect the preemptor to fit on its node, unless pods that are leaving by themselves may be in its way."""
        cluster, pod = self.engine.cluster, self.engine.pending.get(eviction.uid)
        row = cluster.nodes.row(eviction.node_name)
        if pod is None or row is None or any(other.terminating for other in cluster.pods.values()):
            return False
        oracle = Oracle(cluster, self.engine.profiles[PROFILE], pod)
        status = oracle.pre_filter_result.status or oracle.rejection(row)
        if status is not None:
            victims = ", ".join(victim.key for victim in eviction.victims)
            raise ContractViolation(
                self._subject.plugin,
                call=f"post_filter for pod {pod.key}, which led to the eviction of {victims}",
                result=f"node {eviction.node_name} rejects it all the same: {status}",
                remedy="propose victims that handle.preemption found, with `rules` for what else rejects the pod",
                when=self._example,
            )
        return True
