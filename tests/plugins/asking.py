"""Asks a plugin about every node of a small cluster, in each of its forms, and checks that they agree."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar, cast

import numpy as np

from kframework import Code, CycleState, Handle, Plugin, PluginArgs, Skip, Status
from kframework.core.runtime.steps import FilterStep
from kframework.framework.hookspecs import PreFilterPlugin, PreScorePlugin
from kframework.objects import Node, Pod
from kframework.state.cluster import ClusterState
from kframework.state.nodes import NodeTable
from kframework.state.pod_templates import TemplateInterner
from kframework.state.pods import PendingPod, PodInfo
from kframework.testing import make_node
from kframework.values.scores import Rows, Scores

__all__ = ["cluster_of", "filter_rows", "filtered", "made", "normalized", "on_node", "pending", "scored"]

P = TypeVar("P", bound=Plugin)


def made(plugin: type[P], args: PluginArgs | None = None, handle: object = None) -> P:
    """Make a plugin; its handle has the stores of an empty cluster by default."""
    return plugin(args or plugin.Args(), cast("Handle", handle or ClusterState()))


def filter_rows(plugin: Plugin, state: CycleState, pod: PendingPod, nodes: NodeTable, rows: Rows) -> Scores:
    """Ask for many rows at once, as the engine does."""
    run_rows = FilterStep(plugin, 0, lambda name, hook, error: Status(Code.ERROR)).run_rows
    assert run_rows is not None
    return run_rows(state, pod, nodes, rows)


def pending(pod: Pod, cluster: ClusterState | None = None) -> PendingPod:
    """Show a pod as a hook sees it."""
    return PendingPod(pod, cluster.interner if cluster else TemplateInterner())


def on_node(pod: Pod) -> PodInfo:
    """Show a pod as the event of a pod on a node does."""
    return PodInfo(pod, TemplateInterner())


def cluster_of(nodes: Iterable[Node], pods: Iterable[Pod] = ()) -> ClusterState:
    """Build a cluster in which the row of a departed node lies among the others."""
    cluster = ClusterState()
    for place, node in enumerate(nodes):
        if place == 1:
            cluster.put_node(make_node("departed", taints=["departed:NoSchedule"], unschedulable=True))
        cluster.put_node(node)
    for pod in pods:
        cluster.put_pod(pod)
    cluster.remove_node("departed")
    return cluster


def filtered(plugin: Plugin, cluster: ClusterState, pod: Pod) -> dict[str, Status]:
    """Answer the rejections by node name; none when the plugin skips the pod."""
    state, nodes = CycleState(), cluster.nodes
    info = pending(pod, cluster)
    if isinstance(plugin, PreFilterPlugin):
        prepared = plugin.pre_filter(state, info, nodes)
        if prepared == Skip:
            return {}
        assert not isinstance(prepared, Status)
    scalar = {node.row: plugin.filter(state, info, node) for node in nodes}
    every = filter_rows(plugin, state, info, nodes, slice(0, nodes.capacity))
    for rows in (nodes.order, nodes.order[::-2], nodes.order[:0]):
        bits = filter_rows(plugin, state, info, nodes, rows)
        assert bits.dtype == np.int64
        assert bits.tolist() == every[rows].tolist()
    told = {row: plugin.filter_status(info, int(every[row])) if every[row] else None for row in scalar}
    assert told == scalar
    return {nodes[row].name: status for row, status in scalar.items() if status is not None}


def scored(plugin: Plugin, cluster: ClusterState, pod: Pod) -> dict[str, int]:
    """Answer the raw scores by node name; none when the plugin skips the pod."""
    state, nodes = CycleState(), cluster.nodes
    info = pending(pod, cluster)
    if isinstance(plugin, PreScorePlugin):
        prepared = plugin.pre_score(state, info, nodes, nodes.order)
        if prepared == Skip:
            return {}
        assert prepared is None
    scalar = {node.row: plugin.score(state, info, node) for node in nodes}
    assert all(type(score) is int for score in scalar.values())
    every = np.broadcast_to(plugin.score_nodes(state, info, nodes, slice(0, nodes.capacity)), nodes.capacity)
    for rows in (nodes.order, nodes.order[::-2], nodes.order[:0]):
        scores = np.broadcast_to(plugin.score_nodes(state, info, nodes, rows), len(rows))
        assert scores.dtype == np.int64
        assert scores.tolist() == every[rows].tolist()
    assert {row: int(every[row]) for row in scalar} == scalar
    return {nodes[row].name: score for row, score in scalar.items()}


def normalized(plugin: Plugin, scores: Iterable[int]) -> list[int]:
    """Bring raw scores to 0..100."""
    raw = np.array(list(scores), dtype=np.int64)
    answer = plugin.normalize_score(CycleState(), pending(Pod()), raw)
    return [int(score) for score in np.broadcast_to(answer, len(raw))]
