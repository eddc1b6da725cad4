"""Compares cached searches with the reference, over random clusters that change in between."""

from __future__ import annotations

from collections import Counter
from random import Random
from unittest.mock import patch

import msgspec

from kframework import Plugin
from kframework.core.cycle.answer_cache import FEW
from kframework.core.cycle.oracle import verify
from kframework.core.cycle.plan import PlanCache
from kframework.core.cycle.records import fit_error
from kframework.core.cycle.results import FitError, ScheduleError, ScheduleResult
from kframework.core.cycle.rotation import Rotation
from kframework.core.cycle.search import Search
from kframework.core.runtime.profile import Profile
from kframework.plugins.node_name import NodeName
from kframework.plugins.node_resources_fit.plugin import NodeResourcesFit
from kframework.plugins.node_unschedulable import NodeUnschedulable
from kframework.plugins.taint_toleration import TaintToleration
from kframework.state.pods import PendingPod
from kframework.testing.clusters import RandomCluster
from tests.properties.random_plugins import RandomPlugin, random_plugin
from tests.properties.reference_cycle import AttemptError, ChosenNode, ReferenceCycle, Unschedulable
from tests.support.searches import Outcome, build_profile

__all__ = ["SearchComparison", "Seen", "reference_nodes_to_find"]

CHANGES, PODS = 5, 3
BUILT_IN: tuple[type[Plugin], ...] = (NodeName, NodeResourcesFit, NodeUnschedulable, TaintToleration)

#: What the searches came by.
Seen = Counter[str]


def reference_nodes_to_find(nodes: int, percentage: int) -> int:
    """kube-scheduler's numFeasibleNodesToFind, with 3 in the place of 100 so that small clusters are sampled too."""
    if nodes < 3:
        return nodes
    return max(nodes * (percentage or 50) // 100, 3)


def random_profile(random: Random) -> Profile:
    faulty = random.random() < 0.4
    judges = [random_plugin(random, f"Judge{number}", faulty=faulty) for number in range(random.randint(1, 5))]
    plugins: list[Plugin | type[Plugin]] = [*judges, *random.sample(BUILT_IN, random.randint(0, len(BUILT_IN)))]
    random.shuffle(plugins)
    weights = {plugin.name: random.randint(1, 3) for plugin in plugins}
    return build_profile(*plugins, percentage=random.choice([0, 20, 100]), weights=weights)


class SearchComparison:
    """A cluster over which engines with much and with hardly any memory race the slow cycle."""

    #: The function that the engine uses.
    nodes_to_find = staticmethod(reference_nodes_to_find)

    def __init__(self, seed: int, seen: Seen) -> None:
        self.random = Random(seed)
        self.seen = seen
        self.cluster = RandomCluster(self.random)
        self.state = self.cluster.state
        self.profile = random_profile(self.random)
        self.memories = [PlanCache(self.profile, self.state.nodes, budget) for budget in (1 << 20, 1)]
        self.start = 0
        self.pods = [pod for made in self.cluster.pending(PODS) for pod in (made, self._nominated(made))]

    def _nominated(self, pod: PendingPod) -> PendingPod:
        """Return the pod as if it were nominated to some node, perhaps one that has left since."""
        name = f"node-{self.random.randint(1, 8)}"
        status = msgspec.structs.replace(pod.object.status, nominated_node_name=name)
        metadata = msgspec.structs.replace(pod.object.metadata, uid=f"{pod.uid}-nominated")
        return PendingPod(msgspec.structs.replace(pod.object, status=status, metadata=metadata), self.state.interner)

    def run(self) -> None:
        with (
            patch("kframework.core.cycle.search.nodes_to_find", self.nodes_to_find),
            patch("kframework.core.cycle.oracle.nodes_to_find", reference_nodes_to_find),
            patch("logging.Logger.error"),  # faults are meant here
        ):
            for _ in range(CHANGES):
                self.search_all()
                self.cluster.change(self.search_all)
                self._change_moods()
                self._change_nominations()

    def search_all(self) -> None:
        for pod in self.random.sample(self.pods, 4):
            slow = ReferenceCycle(self.state, self.profile, pod, self.start, reference_nodes_to_find)
            expected = slow.run()
            for layers in self.memories:
                rotation = Rotation(self.start)
                search = Search(self.state, layers.plan(self.profile.sign(pod), pod), pod, rotation, self.random)
                outcome = search.run()
                assert_equal_outcome(search, outcome, expected)
                assert rotation.next_start_index == slow.start
                verify(search, outcome)
            self._note(slow, search, expected)
            self.start = slow.start

    def _change_moods(self) -> None:
        for plugin in self.profile.plugins.values():
            if isinstance(plugin, RandomPlugin):
                plugin.mood = self.random.randint(0, 3)

    def _change_nominations(self) -> None:
        pod, nodes = self.random.choice(self.pods), [node.name for node in self.state.nodes]
        self.state.nominator.nominate(pod, self.random.choice(["", *nodes]))

    def _note(self, slow: ReferenceCycle, search: Search, expected: ChosenNode | Unschedulable | AttemptError) -> None:
        """Count what kinds of search there were."""
        nodes = len(self.state.nodes)
        self.seen[type(expected).__name__] += 1
        self.seen["many rows"] += nodes > FEW
        self.seen["narrowed"] += slow.names is not None
        self.seen["two passes"] += any(
            self.state.nominator.nominated_pods_for_node(slow.pod, name) for name in self.state.nominator.node_names
        )
        self.seen["asked along the way"] += bool(search.plan.fresh_scalar)
        self.seen["asked in every cycle, in columns"] += bool(search.plan.fresh_columnar)
        self.seen["two layers"] += search.plan.cache is not None and search.plan.cache.below is not None
        self.seen["no layer"] += search.plan.cache is None
        if isinstance(expected, ChosenNode):
            self.seen["several candidates"] += len(expected.totals) > 1
            self.seen["equals"] += 1 < len(expected.best) < len(expected.totals)
            self.seen["sampled"] += expected.evaluated < len(slow.listed())
            self.seen["nominated node taken"] += not len(search.filtered.node_order)
            self.seen["normalised"] += bool(search.plan.normalizing) and len(expected.totals) > 1
        elif isinstance(expected, Unschedulable):
            self.seen["rejected as a whole"] += not slow.statuses and bool(slow.rejectors)
            self.seen["pending"] += bool(expected.pending)


def assert_equal_outcome(search: Search, outcome: Outcome, expected: ChosenNode | Unschedulable | AttemptError) -> None:
    """Compare what a search found with what the slow cycle did."""
    if isinstance(expected, AttemptError):
        assert isinstance(outcome, ScheduleError)
        assert outcome.status.message in expected.texts
    elif isinstance(expected, Unschedulable):
        assert isinstance(outcome, FitError)
        diagnosis = outcome.diagnosis
        text = fit_error(len(search.nodes), outcome.reasons, pre_filter_message=diagnosis.pre_filter_message)
        assert text == expected.text
        assert {node.name: diagnosis[node.row] for node in search.nodes} == expected.statuses
        assert (outcome.rejectors, outcome.pending) == (frozenset(expected.rejectors), frozenset(expected.pending))
    else:
        assert isinstance(outcome, ScheduleResult)
        assert outcome.node in expected.best
        assert (outcome.ties, outcome.evaluated) == (len(expected.best), expected.evaluated)
        assert outcome.feasible == len(expected.totals)
        if len(expected.totals) > 1:
            assert outcome.score == expected.totals[outcome.node]
            assert [total for _, total in outcome.best] == sorted(expected.totals.values(), reverse=True)[:3]
            assert all(expected.totals[name] == total for name, total in outcome.best)
