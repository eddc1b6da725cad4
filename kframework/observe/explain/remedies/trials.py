"""Trials: changes made in a Statement, and the plugins asked again, PreFilter included, whether the pod fits now."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager

import msgspec
import numpy as np

from kframework.core.cycle.layers import ask_filter_rows
from kframework.core.cycle.oracle import Oracle
from kframework.core.cycle.rejections import ATTEMPT, PASS, StatusTable
from kframework.core.runtime.points import run_pre_enqueue
from kframework.core.runtime.profile import Profile
from kframework.core.runtime.steps import FilterStep
from kframework.framework.status import Status, unresolvable
from kframework.objects import Node
from kframework.observe.explain.remedies.changes import Change, DeletePod, NodeChange, PodChange
from kframework.state.cluster import ClusterState
from kframework.state.pods import PendingPod

_key = msgspec.json.encode

#: So many nodes are asked about one by one in one piece of work.
_PIECE = 128


class Trials:
    """Tries changes for one pod of one profile; the cluster is left as it was."""

    def __init__(self, cluster: ClusterState, profile: Profile, pod: PendingPod) -> None:
        self.cluster = cluster
        self.profile = profile
        self._pod = pod
        self._changed: dict[bytes, PendingPod] = {_key([]): pod}

    @contextmanager
    def made(self, changes: Sequence[Change]) -> Iterator[Oracle]:
        """Open a what-if in which the changes are made and PreFilter was asked; one that cannot be made is left out."""
        pod = self.changed(changes)
        with self.cluster.statement() as statement:
            for change in changes:
                gone = self.cluster.pods.get(change.uid) if isinstance(change, DeletePod) else None
                if gone is not None and gone.row >= 0:
                    statement.remove(gone)
            # In a what-if a port is free once one of its holders leaves; here they are gone for good, and all count.
            self.cluster.nodes.host_ports.let_go = frozenset()
            for node in self._nodes(changes):
                statement.set_node(node)
            yield Oracle(self.cluster, self.profile, pod)

    def changed(self, changes: Iterable[Change]) -> PendingPod:
        """Return the pod as these changes make it."""
        own = [change for change in changes if isinstance(change, PodChange)]
        key = _key(own)
        if key not in self._changed:
            pod = self._pod.object
            for change in own:
                pod = change.on_pod(pod)
            self._changed[key] = PendingPod(pod, self.cluster.interned)
        return self._changed[key]

    def _nodes(self, changes: Iterable[Change]) -> Iterable[Node]:
        nodes: dict[str, Node] = {}
        for change in changes:
            if isinstance(change, NodeChange) and (info := self.cluster.nodes.named(change.node)) is not None:
                nodes[change.node] = change.on_node(nodes.get(change.node, info.object))
        return nodes.values()

    def anywhere(self, changes: Sequence[Change]) -> Generator[None, None, bool]:
        """Return whether the pod can be scheduled at all once the changes are made; in pieces."""
        with self.made(changes) as afresh:
            passing = _passing(afresh)
        yield
        for begin in range(0, len(passing), _PIECE):
            with self.made(changes) as afresh:
                scalar = [step for step in _filters(afresh) if step.ask_rows is None]
                for name in passing[begin : begin + _PIECE]:
                    if not _object(scalar, afresh, name) and not rejections_to(afresh, name):
                        return True
            yield
        return False


def rejection_of(afresh: Oracle) -> Status | None:
    """Return what stands against the pod before any node is looked at."""
    rejected, among = (
        run_pre_enqueue(afresh.profile, afresh.pod) or afresh.pre_filter_result.status,
        afresh.pre_filter_result.nodes,
    )
    if rejected is None and among is not None and not any(name in afresh.nodes for name in among):
        return _left_out(afresh)
    return rejected


def rejections_to(afresh: Oracle, node_name: str) -> list[Status]:
    """List what stands against the pod as a whole or else against a node: all that the plugins say, in order."""
    rejected, node = rejection_of(afresh), afresh.nodes.named(node_name)
    if rejected is not None:
        return [rejected]
    if node is None or (afresh.pre_filter_result.nodes is not None and node_name not in afresh.pre_filter_result.nodes):
        return [_left_out(afresh)]
    said = (step.ask(afresh.state, afresh.pod, node) for step in _filters(afresh))
    found = [status for status in said if status is not None]
    if found:
        return found
    # All is well with the node as it is; there may be pods nominated to it that have not arrived.
    beside_rivals = afresh.rejection(node.row)
    return [] if beside_rivals is None else [beside_rivals]


def _left_out(afresh: Oracle) -> Status:
    """Say who leaves nodes out of the question."""
    excluded = afresh.pre_filter_result.excluded or unresolvable()
    return excluded.with_plugin(next(iter(afresh.pre_filter_result.narrowed_by), ""))


def _passing(afresh: Oracle) -> list[str]:
    """Name the nodes that pass the plugins with a columnar form; the others are not asked."""
    if afresh.pre_filter_result.status is not None:
        return []
    among, rows = afresh.pre_filter_result.nodes, afresh.nodes.order
    if among is not None:
        rows = rows[[afresh.nodes[row].name in among for row in rows.tolist()]]
    rejections, table = np.full(len(rows), PASS, dtype=np.int64), StatusTable(ATTEMPT)
    for step in _filters(afresh):
        if step.ask_rows is not None:
            ask_filter_rows(step, afresh.state, afresh.pod, afresh.nodes, rows, rejections, table)
    return [afresh.nodes[row].name for row in rows[rejections == PASS].tolist()]


def _object(steps: Iterable[FilterStep], afresh: Oracle, node_name: str) -> bool:
    node = afresh.nodes.named(node_name)
    return node is None or any(step.ask(afresh.state, afresh.pod, node) for step in steps)


def _filters(afresh: Oracle) -> Iterator[FilterStep]:
    return (step for step in afresh.profile.filters if step.name not in afresh.pre_filter_result.skipped)
