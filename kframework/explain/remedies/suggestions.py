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
from kframework.plugins.dynamic_resources.requests import claim_key
from kframework.state.cluster import ClusterState
from kframework.state.nodes import NodeInfo, NodeTable
from kframework.state.pods import PendingPod
from kframework.values.status import Code, Status, unresolvable

#: The number of nodes with the same rejection that are checked for suggestions.
_SAMPLED_NODES = 8

#: The number of nodes estimated at a time: for devices that takes 1.3 ms.
_ESTIMATE_CHUNK = 200


class SuggestHooks:
    """Calls the `suggest` hooks of a profile; a fault is logged once, and the plugin is not called again."""

    def __init__(self, profile: Profile) -> None:
        self._hooks = OptionalHooks(profile)

    def suggest(self, target: Trial | FullEvaluation, node: NodeInfo | None, status: Status) -> list[Proposal]:
        """List changes that may resolve this rejection of a pod on a node, or as a whole (None)."""
        suggest = self._hooks.get(status.plugin, "suggest")
        if suggest is not None:
            call = partial(suggest, target.state, target.pod, node, status)
            return self._hooks.call_safely(
                status.plugin, "suggest", lambda: _check_proposals(call(), target.pod, node), []
            )
        if node is None or status.code != Code.UNSCHEDULABLE:
            return []
        return [(deletion,) for deletion in delete_any(node.pods)]

    def estimate(
        self, target: FullEvaluation, plugin: str, rows: NDArray[np.int64]
    ) -> Generator[None, None, NDArray[np.float64]]:
        """Estimate the number of cluster changes on each of these rows; the plugin rejects all of them.

        Yields where it may pause; the rest stays unknown if nodes are added or deleted meanwhile.
        """
        estimates = np.full(len(rows), UNFIXABLE)
        suggest_nodes = self._hooks.get(plugin, "suggest_nodes")
        if suggest_nodes is not None:
            for start in range(0, len(rows), _ESTIMATE_CHUNK):
                if start:
                    yield
                if target.is_stale:
                    break
                chunk = slice(start, start + _ESTIMATE_CHUNK)
                call = partial(suggest_nodes, target.state, target.pod, target.nodes, rows[chunk])
                column = partial(_to_column, call, len(rows[chunk]))
                estimates[chunk] = self._hooks.call_safely(plugin, "suggest_nodes", column, estimates[chunk])
            return estimates
        rejections = target.rejections[plugin][rows]
        for rejection in np.unique(rejections).tolist():
            same, status = rejections == rejection, target.status(rejection)
            if self._hooks.get(plugin, "suggest") is None:
                is_helpful = status.code == Code.UNSCHEDULABLE
            else:
                answers = (
                    self.suggest(target, target.nodes[row], status) for row in rows[same][:_SAMPLED_NODES].tolist()
                )
                is_helpful = any(not changes_pod(each) for proposals in answers for each in proposals)
            estimates[same] = 1 if is_helpful else UNFIXABLE
        return estimates


def changes_pod(proposal: Proposal) -> bool:
    """Return whether a proposal changes the pod itself or its claims, possibly among other changes."""
    return any(not change.target.node for change in proposal)


def _check_proposals(suggestions: object, pod: PendingPod, node: NodeInfo | None) -> list[Proposal]:
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


def _to_column(call: Callable[[], object], length: int) -> NDArray[np.float64]:
    return np.broadcast_to(np.asarray(call(), dtype=np.float64), (length,))


#: The number of nodes filtered one by one in one piece of work.
_FILTER_CHUNK = 128


class Trial:
    """A pod in a what-if, after PreFilter; implements `FilterTarget`.

    `group_state` is what it shares with other pods of its group.
    """

    def __init__(
        self, cluster: ClusterState, profile: Profile, pod: PendingPod, group_state: CycleState | None = None
    ) -> None:
        self.cluster = cluster
        self.nodes: NodeTable = cluster.nodes
        self.profile = profile
        self.pod = pod
        self.state: CycleState = CycleState()
        self.state.group = group_state
        self._result: PreFilterResult = run_pre_filter_point(profile, self.state, pod, self.nodes)
        self.filters: tuple[FilterStep, ...] = tuple(
            step for step in profile.filters if step.name not in self._result.skipped
        )

    @cached_property
    def rejection(self) -> Status | None:
        rejected, allowed = run_pre_enqueue(self.profile, self.pod) or self._result.status, self._result.nodes
        if rejected is None and allowed is not None and not any(name in self.nodes for name in allowed):
            return self._excluded_status
        return rejected

    def rejections(self, node_name: str) -> list[Status]:
        """List the rejections of the pod as a whole, or else of a node by all plugins, in order."""
        node = self.nodes.find(node_name)
        if self.rejection is not None:
            return [self.rejection]
        if node is None or (self._result.nodes is not None and node_name not in self._result.nodes):
            return [self._excluded_status]
        answers = (step.run(self.state, self.pod, node) for step in self.filters)
        rejections = [status for status in answers if status is not None]
        if rejections:
            return rejections
        # The node fits as it is; pods nominated to it may still conflict.
        conflict = filter_assuming_nominated_pods(self, self.filters, self.state, node)
        return [] if conflict is None else [conflict]

    @property
    def _excluded_status(self) -> Status:
        return (self._result.excluded or unresolvable()).with_plugin(next(iter(self._result.narrowed_by), ""))

    def passing_nodes(self) -> list[str]:
        """Return the names of nodes that pass the plugins with a columnar form, without calling the others."""
        if self._result.status is not None:
            return []
        allowed, rows = self._result.nodes, self.nodes.order
        if allowed is not None:
            rows = rows[[self.nodes[row].name in allowed for row in rows.tolist()]]
        rejections, table = np.full(len(rows), PASS, dtype=np.int64), StatusTable(ATTEMPT)
        for step in self.filters:
            if step.run_rows is not None:
                ask_filter_rows(step, self.state, self.pod, self.nodes, rows, rejections, table)
        return [self.nodes[row].name for row in rows[rejections == PASS].tolist()]

    def fits(self, node_name: str) -> bool:
        """Return whether the pod fits on a `passing` node; runs the plugins without a columnar form first."""
        node = self.nodes.find(node_name)
        scalar = [step for step in self.filters if step.run_rows is None]
        if node is None or filter_node(scalar, self.state, self.pod, node) is not None:
            return False
        return not self.rejections(node_name)


class WhatIf:
    """A runner of trial changes for one pod of one profile; the cluster is left unchanged."""

    def __init__(self, cluster: ClusterState, profile: Profile, pod: PendingPod) -> None:
        self.cluster = cluster
        self.profile = profile
        self._claim_store = cluster.objects(ResourceClaim)
        self._pod = pod
        self._pods: dict[Proposal, PendingPod] = {(): pod}

    @contextmanager
    def apply(self, changes: Sequence[Suggestion]) -> Iterator[Trial]:
        """Open a what-if with the changes made and PreFilter run; an impossible change is skipped."""
        pod = self.preview(changes)
        with self.cluster.statement() as statement:
            for change in changes:
                deleted = self.cluster.pods.get(change.target.uid)
                if deleted is not None and deleted.row >= 0:
                    statement.remove(deleted)
            for claim in self._claims(changes):
                statement.assume_object(self._claim_store, claim)
            # In a what-if a port is free once one of its users leaves; here the removal is final, and all users count.
            self.cluster.nodes.host_ports.released = frozenset()
            nodes: dict[str, Node] = {}
            for change in changes:
                name = change.target.node
                if not change.target.pod and (info := self.cluster.nodes.find(name)) is not None:
                    nodes[name] = change.patch(nodes.get(name, info.object))
            for node in nodes.values():
                statement.set_node(node)
            yield Trial(self.cluster, self.profile, pod)

    def preview(self, changes: Iterable[Suggestion]) -> PendingPod:
        own = tuple(change for change in changes if change.target == PENDING_POD)
        if own not in self._pods:
            pod = self._pod.object
            for change in own:
                pod = change.patch(pod)
            self._pods[own] = PendingPod(pod, self.cluster.interner)
        return self._pods[own]

    def _claims(self, changes: Iterable[Suggestion]) -> Iterable[ResourceClaim]:
        """Return the claims to devices that change: those of deleted pods, and those that are changed themselves."""
        deleted = {change.target.uid for change in changes if change.target.pod}
        claims = {claim_key(claim): claim for claim in self._claim_store.index(DeviceHolders).without_users(deleted)}
        for change in changes:
            key = change.target.claim
            namespace, _, name = key.partition("/")
            claim = claims.get(key) or self._claim_store.get(name, namespace)
            if claim is not None:
                claims[key] = change.patch(claim)
        return claims.values()

    def fits_somewhere(self, changes: Sequence[Suggestion]) -> Generator[None, None, bool]:
        """Return whether the pod is schedulable on any node with the changes made; in pieces."""
        with self.apply(changes) as trial:
            passing_nodes = trial.passing_nodes()
        yield
        for start in range(0, len(passing_nodes), _FILTER_CHUNK):
            with self.apply(changes) as trial:
                if any(map(trial.fits, passing_nodes[start : start + _FILTER_CHUNK])):
                    return True
            yield
        return False
