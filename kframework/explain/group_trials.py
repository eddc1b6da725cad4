"""What-ifs about a PodGroup: how many of its waiting pods find nodes together, and how many more with new nodes.

Pods are placed one after another, each on the first node that fits. Reserve of Kubernetes' plugins is called for those
with claims, so that each device and volume is used once. A what-if is undone when other tasks run, and made again
afterwards.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice

from kframework.config.default_plugins import IN_TREE_PLUGINS
from kframework.core.pod_engine import PodEngine
from kframework.explain.remedies.suggestions import Trial
from kframework.framework.cycle_state import CycleState
from kframework.state.nodes import NodeInfo, NodeTable
from kframework.state.pods import PendingPod, PodInfo
from kframework.state.statement import Statement

#: The number of different nodes that are tried as models of new ones.
_MAX_MODELS = 4

#: A pod and the name of its node in a what-if.
_Placed = tuple[PendingPod, str]


class GroupWhatIf:
    """A what-if about waiting pods, which are placed on the `allowed` nodes, None for all.

    Attributes:
        placed: the pods with the names of their nodes; the given ones come first.
    """

    def __init__(
        self,
        engine: PodEngine,
        waiting: Sequence[PendingPod],
        allowed: Collection[str] | None,
        placed: Iterable[_Placed] = (),
        emptied: NodeInfo | None = None,
    ) -> None:
        self.placed: list[_Placed] = list(placed)
        self._engine = engine
        self._cluster = engine.cluster
        self._waiting = waiting
        self._allowed = allowed
        #: A node that keeps no pods but those that a new one would have, too.
        self._emptied = emptied
        self._statement: Statement | None = None
        #: What pods share that were placed in this statement.
        self._group_state = CycleState()
        #: The kinds of pods that fit nowhere, as long as no other one is placed, and the last node of each kind.
        self._misfits = set[object]()
        self._last_nodes: dict[object, str] = {}

    def put_pods(self, pods: Iterable[PendingPod]) -> Iterator[None]:
        """Place these pods, as far as they fit; pauses after each."""
        for pod in pods:
            kind = _kind(pod)
            if kind in self._misfits:
                continue
            statement = self._open()
            node = self._find_node(pod, self._last_nodes.get(kind, ""))
            if node and self._put(statement, pod, node):
                self.placed.append((pod, node))
                self._last_nodes[kind] = node
                self._misfits.clear()
            else:
                self._misfits.add(kind)
            yield
        if self._statement is not None and not self._statement.closed:
            self._statement.rollback()

    def take_back(self, count: int) -> None:
        """Take all pods off their nodes again but the first ones."""
        del self.placed[count:]
        self._misfits.clear()

    def _open(self) -> Statement:
        """Return the statement of the what-if, a new one after a pause."""
        if self._statement is None or self._statement.closed:
            self._statement, self._group_state = self._cluster.statement(), CycleState()
            self._forget_nominations(self._statement)
            for other in () if self._emptied is None else tuple(self._emptied.pods):
                if not _is_pinned(other):
                    self._statement.remove(other)
            self.placed = [each for each in self.placed if self._put(self._statement, *each)]
        return self._statement

    def _forget_nominations(self, statement: Statement) -> None:
        """Keep no room for the waiting pods where they are nominated: they are placed themselves."""
        nominator = self._cluster.nominator
        for pod in self._waiting:
            if node := nominator.nominated_node(pod.uid):
                nominator.remove(pod.uid)
                statement.record(partial(nominator.nominate, pod, node))

    def _put(self, statement: Statement, pod: PendingPod, node: str) -> bool:
        """Put a pod on a node; return whether it is there, in this statement or because it was bound meanwhile."""
        if pod.row >= 0 or pod.uid in self._cluster.pods:
            return True
        if self._cluster.nodes.row(node) is None:
            return False
        trial = self._trial(pod) if has_claims(pod) else None
        if trial is not None and not (trial.fits(node) and _reserve(statement, trial, node)):
            return False
        statement.add(pod, node)
        return True

    def _trial(self, pod: PendingPod) -> Trial:
        return Trial(self._cluster, self._engine.profiles[pod.scheduler_name], pod, self._group_state)

    def _find_node(self, pod: PendingPod, first: str) -> str:
        """Return a node that fits, `first` if that does; "" if none does."""
        trial = self._trial(pod)
        if first and trial.fits(first):
            return first
        names = (name for name in trial.passing_nodes() if self._allowed is None or name in self._allowed)
        return next(filter(trial.fits, names), "")

    def new_nodes(self, missing: int) -> Generator[None, None, tuple[int, str] | None]:
        """Find the node like which the fewest new ones, with DaemonSet pods alone, have room for the missing pods.

        Returns their number and its name; None if no node is large enough.
        """
        taken = {pod.uid for pod, _ in self.placed}
        left = [pod for pod in self._waiting if pod.uid not in taken]
        found: list[tuple[int, str]] = []
        for model in _models(self._cluster.nodes, self._allowed):
            added = yield from self._count_new_nodes(model, left, missing)
            found += [(added, model)] if added else []
        return min(found, default=None)

    def _count_new_nodes(self, model: str, left: Sequence[PendingPod], missing: int) -> Generator[None, None, int]:
        """Return how many nodes like this one have room for the missing pods, 0 if not a single pod fits there."""
        added, rest = 0, list(left)
        others = [(pod, node) for pod, node in self.placed if node != model]
        while len(left) - len(rest) < missing:
            trial = GroupWhatIf(self._engine, self._waiting, (model,), others, self._cluster.nodes.find(model))
            yield from trial.put_pods(rest)
            fitting = {pod.uid for pod, _ in trial.placed[len(others) :]}
            if not fitting:
                return 0
            if len(set(map(_kind, left))) == 1:  # all new nodes take as many
                return -(-missing // len(fitting))
            added, rest = added + 1, [pod for pod in rest if pod.uid not in fitting]
        return added


def _kind(pod: PendingPod) -> object:
    """Return what pods have in common that fit on the same nodes; nothing if their claims may differ."""
    return pod.uid if has_claims(pod) else (pod.template, pod.label_class)


def has_claims(pod: PendingPod) -> bool:
    """Return whether a pod uses volumes or devices, which other pods may use up."""
    return bool(pod.claims or pod.spec.resource_claims)


def _reserve(statement: Statement, trial: Trial, node: str) -> bool:
    """Call Reserve of Kubernetes' plugins, which is undone with the statement; return whether none rejects the pod."""
    for step in reversed(trial.profile.unreserve):
        if step.name in IN_TREE_PLUGINS:
            statement.record(partial(step.call, trial.state, trial.pod, node))
    steps = (step for step in trial.profile.reserve if step.name in IN_TREE_PLUGINS)
    return all(step.call(trial.state, trial.pod, node) is None for step in steps)


def _models(nodes: NodeTable, allowed: Collection[str] | None) -> Iterable[str]:
    """Name nodes that differ in what they offer."""
    names = dict[object, str]()
    for row in nodes.order.tolist():
        node = nodes[row].object
        if allowed is None or node.metadata.name in allowed:
            offer = frozenset(node.status.allocatable.items()), node.spec.taints, node.spec.unschedulable
            names.setdefault(offer, node.metadata.name)
    return islice(names.values(), _MAX_MODELS)


def _is_pinned(pod: PodInfo) -> bool:
    """Return whether a pod is pinned to its node, as those of DaemonSets are: a new node has one of these too."""
    affinity = pod.spec.affinity
    node_affinity = None if affinity is None else affinity.node_affinity
    required = None if node_affinity is None else node_affinity.required_during_scheduling_ignored_during_execution
    return required is not None and any(term.match_fields for term in required.node_selector_terms)
