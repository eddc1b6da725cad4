"""Strategies for hypothesis: pods, nodes, clusters, and their changes.

    @given(clusters(), histories())
    def test_no_pod_is_lost(cluster, history):
        scenario = Scenario(nodes=cluster.nodes, pods=cluster.pods, plugins=[Mine])
        result = schedule_history(scenario, history).run()

They come from the same small vocabulary as the random clusters of `check_plugin`, so that taints meet tolerations,
selectors meet labels, and nodes run full.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

try:
    from hypothesis import strategies as st
except ImportError:
    raise ImportError("kframework.testing.strategies needs hypothesis: pip install hypothesis") from None

from kframework.in_memory.cluster import MemoryCluster
from kframework.objects import ApiObject, Node, Pod
from kframework.objects.kinds import reference
from kframework.testing.clusters import random_node, random_pod
from kframework.testing.scenario import Scenario

#: Drawn by hypothesis, so that it can shrink failing examples.
_RANDOMS = st.randoms(use_true_random=False)

_SECONDS = st.floats(0.0, 600.0, allow_nan=False).map(lambda seconds: round(seconds, 1))


class ClusterObjects(NamedTuple):
    """The nodes of a cluster, and its pods, all of them unassigned."""

    nodes: tuple[Node, ...]
    pods: tuple[Pod, ...]


class ObjectChange(msgspec.Struct, frozen=True):
    """A change of a cluster: an object is stored, in place of its previous version, or deleted."""

    obj: ApiObject
    is_deletion: bool = False

    def __call__(self, cluster: MemoryCluster) -> None:
        kind, metadata = type(self.obj), self.obj.metadata
        stored = cluster.find(kind, metadata.name, metadata.namespace)
        if not self.is_deletion and stored is None:
            cluster.add(self.obj)
        elif self.is_deletion and stored is not None:
            cluster.remove(kind, metadata.name, metadata.namespace)
        elif isinstance(self.obj, Node) and not self.is_deletion:
            cluster.put(self.obj)

    def __repr__(self) -> str:
        return f"<{reference(self.obj)} {'is deleted' if self.is_deletion else 'is stored'}>"


#: Changes with their times, in seconds after the start.
History = list[tuple[float, ObjectChange]]


def pods(name: str = "pod") -> st.SearchStrategy[Pod]:
    """Pods of this name that ask for nothing, little or too much, with constraints of every kind."""
    return st.builds(lambda random: random_pod(random, name), _RANDOMS)


def nodes(name: str = "node") -> st.SearchStrategy[Node]:
    """Nodes of this name: plain ones, and others that are short of something, tainted, cordoned or labelled."""
    return st.builds(lambda random: random_node(random, name), _RANDOMS)


@st.composite
def clusters(draw: st.DrawFn, *, max_nodes: int = 5, max_pods: int = 8) -> ClusterObjects:
    """Clusters of at least one node, `node-0` and so on, and pending pods `pod-0` and so on."""
    node_count = draw(st.integers(1, max_nodes))
    pod_count = draw(st.integers(0, max_pods))
    return ClusterObjects(
        tuple(draw(nodes(f"node-{number}")) for number in range(node_count)),
        tuple(draw(pods(f"pod-{number}")) for number in range(pod_count)),
    )


def histories(*, max_length: int = 10) -> st.SearchStrategy[History]:
    """Lists of changes of such a cluster: pods and nodes are created and deleted, nodes change."""
    number = st.integers(0, max_length)
    some_node = number.flatmap(lambda each: nodes(f"node-{each}"))
    some_pod = number.flatmap(lambda each: pods(f"pod-{each}"))
    change = st.builds(ObjectChange, st.one_of(some_pod, some_node), st.booleans())
    return st.lists(st.tuples(_SECONDS, change), max_size=max_length)


def schedule_history(scenario: Scenario, history: Iterable[tuple[float, ObjectChange]]) -> Scenario:
    """Schedule these changes in the scenario, and return it."""
    for seconds, change in history:
        scenario.at(seconds, change)
    return scenario
