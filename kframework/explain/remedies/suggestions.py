"""The plugins' suggestions about their rejections, from their hooks `suggest` and `suggest_nodes`."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from typing import cast

import numpy as np
from numpy.typing import NDArray

from kframework.core.cycle.answer_cache import ask_filter_rows
from kframework.core.cycle.rejections import ATTEMPT, PASS, StatusTable, filter_assuming_nominated_pods
from kframework.core.runtime.points import PreFilterResult, filter_node, run_pre_enqueue, run_pre_filter_point
from kframework.core.runtime.profile import Profile
from kframework.core.runtime.steps import FilterStep
from kframework.explain.full_evaluation import FullEvaluation, OptionalHooks
from kframework.framework.cycle_state import CycleState
from kframework.framework.suggestions import PENDING_POD, UNFIXABLE, Proposal, Suggestion, Target, delete_any
from kframework.objects import Node, Pod, ResourceClaim
from kframework.plugins.dynamic_resources.holders import DeviceHolders
from kframework.plugins.dynamic_resources.requests import key_of
from kframework.state.cluster import ClusterState
from kframework.state.nodes import NodeInfo, NodeTable
from kframework.state.pods import PendingPod
from kframework.state.statement import Statement
from kframework.values.status import Code, Status, unresolvable

#: The number of nodes with the same rejection that are checked for suggestions.
_FEW = 8

#: The number of nodes estimated at a time: for devices that takes 1.3 ms.
_MANY = 200


class SuggestHooks:
    """Calls the `suggest` hooks of a profile; a fault is logged once, and the plugin is not called again."""

    def __init__(self, profile: Profile) -> None:
        self._hooks = OptionalHooks(profile)

    def of(self, asked: Trial | FullEvaluation, node: NodeInfo | None, status: Status) -> list[Proposal]:
        """List changes that may resolve this rejection of a pod on a node, or as a whole (None)."""
        suggest = self._hooks.of(status.plugin, "suggest")
        if suggest is not None:
            suggested = partial(suggest, asked.state, asked.pod, node, status)
            return self._hooks.safely(status.plugin, "suggest", lambda: _proposals(suggested(), asked.pod, node), [])
        if node is None or status.code != Code.UNSCHEDULABLE:
            return []
        return [(deletion,) for deletion in delete_any(node.pods)]

    def efforts(
        self, asked: FullEvaluation, plugin: str, rows: NDArray[np.int64]
    ) -> Generator[None, None, NDArray[np.float64]]:
        """Estimate the number of cluster changes on each of these rows, all of which the plugin rejects.

        Yields where it may pause; the rest stays unknown if nodes are added or deleted meanwhile.
        """
        efforts = np.full(len(rows), UNFIXABLE)
        estimate = self._hooks.of(plugin, "suggest_nodes")
        if estimate is not None:
            for begin in range(0, len(rows), _MANY):
                if begin:
                    yield
                if asked.is_stale:
                    break
                piece = slice(begin, begin + _MANY)
                estimated = partial(estimate, asked.state, asked.pod, asked.nodes, rows[piece])
                column = partial(_column, estimated, len(rows[piece]))
                efforts[piece] = self._hooks.safely(plugin, "suggest_nodes", column, efforts[piece])
            return efforts
        rejections = asked.said[plugin][rows]
        for rejection in np.unique(rejections).tolist():
            alike, status = rejections == rejection, asked.status(rejection)
            if self._hooks.of(plugin, "suggest") is None:
                helps = status.code == Code.UNSCHEDULABLE
            else:
                said = (self.of(asked, asked.nodes[row], status) for row in rows[alike][:_FEW].tolist())
                helps = any(not of_pod(each) for proposals in said for each in proposals)
            efforts[alike] = 1 if helps else UNFIXABLE
        return efforts


def of_pod(proposal: Proposal) -> bool:
    """Return whether a proposal changes the pod itself or its claims, possibly among other changes."""
    return any(not change.target.node for change in proposal)


def _proposals(suggestions: object, pod: PendingPod, node: NodeInfo | None) -> list[Proposal]:
    """Check the answer of `suggest`, so that a fault in a patch is the plugin's; patches without effect are dropped."""
    objects: dict[Target, Pod | Node] = {PENDING_POD: pod.object}
    if node is not None:
        objects[Target(node=node.name)] = node.object
    proposals: list[Proposal] = []
    for each in cast("list[object]", suggestions):
        changes = each if isinstance(each, tuple) else (each,)
        if not all(isinstance(change, Suggestion) for change in changes):
            raise TypeError(f"suggested {each!r}, which is no kframework.Suggestion")
        for change in changes:
            change.to_dict()
            obj = objects.get(change.target)
            if obj is not None and not isinstance(change.patch(obj), type(obj)):
                raise TypeError(f"suggested {change!r}, whose patch returns no {type(obj).__name__}")
        proposals += [changes] if changes else []
    return proposals


def _column(ask: Callable[[], object], length: int) -> NDArray[np.float64]:
    return np.broadcast_to(np.asarray(ask(), dtype=np.float64), (length,))


#: The number of nodes filtered one by one in one piece of work.
_PIECE = 128


class Trial:
    """A pod in a what-if, after PreFilter; implements `FilterTarget`."""

    def __init__(self, cluster: ClusterState, profile: Profile, pod: PendingPod) -> None:
        self.cluster = cluster
        self.nodes: NodeTable = cluster.nodes
        self.profile = profile
        self.pod = pod
        self.state: CycleState = CycleState()
        self._result: PreFilterResult = run_pre_filter_point(profile, self.state, pod, self.nodes)
        self.filters: tuple[FilterStep, ...] = tuple(
            step for step in profile.filters if step.name not in self._result.skipped
        )

    @cached_property
    def rejection(self) -> Status | None:
        """The rejection of the pod before any node is filtered."""
        rejected, among = run_pre_enqueue(self.profile, self.pod) or self._result.status, self._result.nodes
        if rejected is None and among is not None and not any(name in self.nodes for name in among):
            return self._left_out
        return rejected

    def rejections(self, node_name: str) -> list[Status]:
        """List the rejections of the pod as a whole, or else of a node by all plugins, in order."""
        node = self.nodes.named(node_name)
        if self.rejection is not None:
            return [self.rejection]
        if node is None or (self._result.nodes is not None and node_name not in self._result.nodes):
            return [self._left_out]
        said = (step.run(self.state, self.pod, node) for step in self.filters)
        found = [status for status in said if status is not None]
        if found:
            return found
        # The node fits as it is; pods nominated to it may still conflict.
        beside = filter_assuming_nominated_pods(self, self.filters, self.state, node)
        return [] if beside is None else [beside]

    @property
    def _left_out(self) -> Status:
        """The rejection of nodes excluded by PreFilter."""
        return (self._result.excluded or unresolvable()).with_plugin(next(iter(self._result.narrowed_by), ""))

    def passing(self) -> list[str]:
        """Return the names of nodes that pass the plugins with a columnar form, without calling the others."""
        if self._result.status is not None:
            return []
        among, rows = self._result.nodes, self.nodes.order
        if among is not None:
            rows = rows[[self.nodes[row].name in among for row in rows.tolist()]]
        rejections, table = np.full(len(rows), PASS, dtype=np.int64), StatusTable(ATTEMPT)
        for step in self.filters:
            if step.run_rows is not None:
                ask_filter_rows(step, self.state, self.pod, self.nodes, rows, rejections, table)
        return [self.nodes[row].name for row in rows[rejections == PASS].tolist()]

    def fits(self, node_name: str) -> bool:
        """Return whether the pod fits on a `passing` node; runs the plugins without a columnar form first."""
        node = self.nodes.named(node_name)
        scalar = [step for step in self.filters if step.run_rows is None]
        if node is None or filter_node(scalar, self.state, self.pod, node) is not None:
            return False
        return not self.rejections(node_name)


class Trials:
    """A runner of trial changes for one pod of one profile; the cluster is left unchanged."""

    def __init__(self, cluster: ClusterState, profile: Profile, pod: PendingPod) -> None:
        self.cluster = cluster
        self.profile = profile
        self._claim_store = cluster.objects(ResourceClaim)
        self._pod = pod
        self._changed: dict[Proposal, PendingPod] = {(): pod}

    @contextmanager
    def made(self, changes: Sequence[Suggestion]) -> Iterator[Trial]:
        """Open a what-if with the changes made and PreFilter run; an impossible change is skipped."""
        pod = self.changed(changes)
        with self.cluster.statement() as statement:
            for change in changes:
                gone = self.cluster.pods.get(change.target.uid)
                if gone is not None and gone.row >= 0:
                    statement.remove(gone)
            for claim in self._claims(changes):
                self._assume(statement, claim)
            # In a what-if a port is free once one of its users leaves; here the removal is final, and all users count.
            self.cluster.nodes.host_ports.let_go = frozenset()
            nodes: dict[str, Node] = {}
            for change in changes:
                name = change.target.node
                if not change.target.pod and (info := self.cluster.nodes.named(name)) is not None:
                    nodes[name] = change.patch(nodes.get(name, info.object))
            for node in nodes.values():
                statement.set_node(node)
            yield Trial(self.cluster, self.profile, pod)

    def changed(self, changes: Iterable[Suggestion]) -> PendingPod:
        """Return the pod as these changes make it."""
        own = tuple(change for change in changes if change.target == PENDING_POD)
        if own not in self._changed:
            pod = self._pod.object
            for change in own:
                pod = change.patch(pod)
            self._changed[own] = PendingPod(pod, self.cluster.interned)
        return self._changed[own]

    def _claims(self, changes: Iterable[Suggestion]) -> Iterable[ResourceClaim]:
        """Return the claims to devices that change: those of pods that go, and those that are changed themselves."""
        gone = {change.target.uid for change in changes if change.target.pod}
        claims = {key_of(claim): claim for claim in self._claim_store.index(DeviceHolders).freed(gone)}
        for change in changes:
            key = change.target.claim
            namespace, _, name = key.partition("/")
            claim = claims.get(key) or self._claim_store.get(name, namespace)
            if claim is not None:
                claims[key] = change.patch(claim)
        return claims.values()

    def _assume(self, statement: Statement, claim: ResourceClaim) -> None:
        """Assume this version of a claim as long as the statement is open."""
        store, metadata = self._claim_store, claim.metadata
        before = store.get(metadata.name, metadata.namespace)
        store.assume(metadata, claim)
        if before is None or before is store.latest(metadata.name, metadata.namespace):
            statement.record(lambda: store.restore(metadata))
        else:
            statement.record(lambda: store.assume(before.metadata, before))

    def anywhere(self, changes: Sequence[Suggestion]) -> Generator[None, None, bool]:
        """Return whether the pod is schedulable on any node with the changes made; in pieces."""
        with self.made(changes) as trial:
            passing = trial.passing()
        yield
        for begin in range(0, len(passing), _PIECE):
            with self.made(changes) as trial:
                if any(map(trial.fits, passing[begin : begin + _PIECE])):
                    return True
            yield
        return False
