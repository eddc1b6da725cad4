"""Random clusters in which pods like and dislike each other, as tables and as the plain objects behind them."""

from __future__ import annotations

from random import Random
from types import SimpleNamespace
from typing import Any

import msgspec

from kframework.objects import Affinity, Namespace, Node, ObjectMeta, Pod
from kframework.plugins.inter_pod_affinity.plugin import InterPodAffinity, InterPodAffinityArgs
from kframework.state.cluster import ClusterState
from kframework.testing import make_node, make_pod
from tests.plugins.asking import made
from tests.plugins.inter_pod_affinity.test_plugin.slow_rules import SlowCycle

__all__ = ["HOST", "PREFERRED", "REQUIRED", "ZONE", "World", "affinity", "term"]

HOST, ZONE, RACK = "kubernetes.io/hostname", "topology.kubernetes.io/zone", "rack"
REQUIRED, PREFERRED = (f"{word}DuringSchedulingIgnoredDuringExecution" for word in ("required", "preferred"))

Spec = dict[str, Any]

#: The last one is a namespace that nobody ever hears of.
NAMESPACES = ("default", "other", "third", "unheard-of")


def affinity(near: Spec | None = None, away: Spec | None = None) -> Affinity:
    """Make an affinity from the content of `podAffinity` and `podAntiAffinity`."""
    parts = {"podAffinity": near, "podAntiAffinity": away}
    return msgspec.convert({key: part for key, part in parts.items() if part is not None}, Affinity)


def term(key: str = ZONE, app: str = "web", **fields: Any) -> Spec:
    """Make a term about pods with this `app`."""
    return {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}, **fields}


def _selector(random: Random, key: str, values: str) -> Spec | None:
    value, operator = random.choice(values), random.choice(["In", "NotIn"])
    expressions = [
        {"key": key, "operator": operator, "values": random.sample(values, random.randint(1, 2))},
        {"key": key, "operator": random.choice(["Exists", "DoesNotExist"])},
    ]
    choices: list[Spec | None] = [None, {}, *[{"matchLabels": {key: value}}] * 4]
    choices += [{"matchExpressions": [expression]} for expression in expressions]
    return random.choice(choices)


def _term(random: Random) -> Spec:
    spec: Spec = {
        "topologyKey": random.choice([ZONE, ZONE, HOST, RACK, "absent"]),
        "labelSelector": _selector(random, "app", "wdx"),
    }
    if random.random() < 0.3:
        spec["namespaces"] = random.sample(NAMESPACES, random.randint(1, 2))
    if random.random() < 0.3:
        spec["namespaceSelector"] = _selector(random, "team", "ab")
    return spec


def _part(random: Random) -> Spec:
    part: Spec = {}
    if random.random() < 0.6:
        part[REQUIRED] = [_term(random) for _ in range(random.choice([1, 1, 2, 5]))]
    if random.random() < 0.6:
        weights = [random.choice([0, 1, 7, 100]) for _ in range(random.choice([1, 2, 8]))]
        part[PREFERRED] = [{"weight": weight, "podAffinityTerm": _term(random)} for weight in weights]
    return part


class World:
    """A cluster that starts at random and to which one thing after another happens, and a plugin that looks at it."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.args = InterPodAffinityArgs(
            hard_pod_affinity_weight=random.choice([0, 1, 1, 5, 100]),
            ignore_preferred_terms_of_existing_pods=random.random() < 0.2,
        )
        self.state = ClusterState()
        self.nodes: dict[str, Node] = {}
        self.pods: dict[str, Pod] = {}
        self.namespaces: dict[str, dict[str, str]] = {}
        handle = SimpleNamespace(objects=self.state.objects, nodes=self.state.nodes)
        self.plugin = made(InterPodAffinity, self.args, handle)
        self._made = 0
        for _ in range(random.randint(0, 3)):
            self.change_namespace()
        for _ in range(random.randint(1, 6)):
            self.add_node()
        for _ in range(random.randint(0, 10)):
            self.add_pod()

    def slow(self, pod: Pod) -> SlowCycle:
        """Answer slowly."""
        return SlowCycle(pod, self.nodes.values(), self.pods.values(), self.namespaces, self.args)

    def pod(self, node_name: str = "", chance: float = 0.7) -> Pod:
        """Make a pod, with affinity terms by this chance."""
        random = self.random
        self._made += 1
        return make_pod(
            f"pod-{self._made}",
            namespace=random.choice(NAMESPACES),
            labels={"app": random.choice("wdx")} if random.random() < 0.8 else {},
            affinity=self._affinity() if random.random() < chance else None,
            node_name=node_name,
            deletion_timestamp="2026-01-02T03:04:05Z" if random.random() < 0.15 else None,
        )

    def _affinity(self) -> Affinity:
        random = self.random
        near, away = (_part(random) if random.random() < 0.6 else None for _ in range(2))
        return affinity(near, away)

    def _node(self, name: str) -> Node:
        random = self.random
        labels = {RACK: random.choice("12")} if random.random() < 0.5 else {}
        node = make_node(name, zone=random.choice(["", "a", "b"]), labels=labels)
        if random.random() < 0.15:
            bare = {key: value for key, value in node.metadata.labels.items() if key != HOST}
            node = msgspec.structs.replace(node, metadata=msgspec.structs.replace(node.metadata, labels=bare))
        return node

    def change(self) -> str:
        """Let something happen, and say what."""
        happenings = (
            *[self.add_pod] * 3,
            *[self.remove_pod] * 2,
            self.change_pod,
            self.add_node,
            self.remove_node,
            self.change_node,
            self.change_namespace,
        )
        happening = self.random.choice(happenings)
        happening()
        return happening.__name__

    def add_pod(self) -> None:
        """Put a pod on a node, sometimes on one that comes later."""
        pod = self.pod(self.random.choice([*self.nodes, *self.nodes, "node-later"]))
        self.pods[pod.metadata.uid] = pod
        self.state.put_pod(pod)

    def remove_pod(self) -> None:
        if self.pods:
            uid = self.random.choice(list(self.pods))
            del self.pods[uid]
            self.state.remove_pod(uid)

    def change_pod(self) -> None:
        """Give a pod on a node other labels, or begin to delete it."""
        if self.pods:
            uid = self.random.choice(list(self.pods))
            other, pod = self.pod().metadata, self.pods[uid]
            changed = msgspec.structs.replace(
                pod.metadata, labels=other.labels, deletion_timestamp=other.deletion_timestamp
            )
            self.pods[uid] = msgspec.structs.replace(pod, metadata=changed)
            self.state.put_pod(self.pods[uid])

    def add_node(self) -> None:
        self._made += 1
        self._put_node(self.random.choice([f"node-{self._made}", f"node-{self._made}", "node-later"]))

    def change_node(self) -> None:
        if self.nodes:
            self._put_node(self.random.choice(list(self.nodes)))

    def _put_node(self, name: str) -> None:
        self.nodes[name] = self._node(name)
        self.state.put_node(self.nodes[name])

    def remove_node(self) -> None:
        if self.nodes:
            name = self.random.choice(list(self.nodes))
            del self.nodes[name]
            self.state.remove_node(name)

    def change_namespace(self) -> None:
        """Let a namespace come, go, or get other labels."""
        name, store = self.random.choice(NAMESPACES[:3]), self.state.objects(Namespace)
        if name in self.namespaces and self.random.random() < 0.3:
            del self.namespaces[name]
            store.remove(ObjectMeta(name=name))
            return
        self.namespaces[name] = {"team": self.random.choice("ab")} if self.random.random() < 0.7 else {}
        metadata = ObjectMeta(name=name, labels=self.namespaces[name])
        store.put(metadata, Namespace(metadata=metadata))
