"""kube-scheduler's search for a node with one worker, written down step by step from its description.

It knows nothing of layers, columns, rejections or the engine's ways to run a point: it asks hooks, one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kframework import Code, CycleState, NodeInfo, PendingPod, Plugin, Status
from kframework.core.runtime.hooks import marked_hooks
from kframework.core.runtime.profile import Profile
from kframework.state.cluster import ClusterState

__all__ = ["AttemptError", "ChosenNode", "ReferenceCycle", "Unschedulable"]


@dataclass
class AttemptError:
    """The attempt failed; any of these texts may be given as the reason."""

    texts: set[str]


@dataclass
class Unschedulable:
    """No node fits."""

    text: str
    statuses: Mapping[str, Status]
    rejectors: set[str]
    pending: set[str]


@dataclass
class ChosenNode:
    """Any of the best nodes."""

    best: set[str]
    totals: Mapping[str, int]
    evaluated: int = 1


class _Fault(Exception):
    def __init__(self, plugin: Plugin, hook: str, error: Exception) -> None:
        super().__init__(f"plugin {plugin.name!r}, hook {hook}: {type(error).__name__}: {error}")


@dataclass
class ReferenceCycle:
    """One pod's search; `enough` says how many feasible nodes of a number are enough."""

    cluster: ClusterState
    profile: Profile
    pod: PendingPod
    start: int
    enough: Callable[[int, int], int]
    state: CycleState = field(default_factory=CycleState)
    skipped: set[str] = field(default_factory=set)
    narrowed_by: set[str] = field(default_factory=set)
    names: set[str] | None = None
    statuses: dict[str, Status] = field(default_factory=dict)
    rejectors: set[str] = field(default_factory=set)
    pending: set[str] = field(default_factory=set)

    def run(self) -> ChosenNode | Unschedulable | AttemptError:
        nodes = list(self.cluster.nodes)
        try:
            rejection = self.pre_filter()
        except _Fault as fault:
            return AttemptError({str(fault)})
        if rejection is not None:
            text = f"0/{len(nodes)} nodes are available: {', '.join(rejection.reasons)}."
            return Unschedulable(text, {node.name: rejection for node in nodes}, self.rejectors, set())
        if self.nominated_node_fits():
            name = self.nominated_node()
            return ChosenNode({name}, {name: 0})
        try:
            feasible, evaluated = self.find(nodes)
        except _Fault as fault:
            return AttemptError({str(fault)})
        if not feasible:
            return self.fit_error(nodes)
        if len(feasible) == 1:
            return ChosenNode({feasible[0].name}, {feasible[0].name: 0}, evaluated)
        return self.score(feasible, evaluated)

    def pre_filter(self) -> Status | None:
        remembered: Status | None = None
        for plugin in self.plugins("pre_filter"):
            answer = self.ask(plugin, "pre_filter", self.state, self.pod, self.cluster.nodes)
            if isinstance(answer, set):
                self.narrowed_by.add(plugin.name)
                self.names = answer if self.names is None else self.names & answer
                if not self.names:
                    self.rejectors = set(self.narrowed_by)
                    names = sorted(self.narrowed_by)
                    text = f"plugin {names[0]}" if len(names) == 1 else f"plugin(s) [{' '.join(names)}] simultaneously"
                    return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (f"node(s) didn't satisfy {text}",))
            elif answer is not None and answer.code == Code.SKIP:
                self.skipped.add(plugin.name)
            elif answer is not None and answer.code == Code.UNSCHEDULABLE:
                remembered = answer.with_plugin(plugin.name)
            elif answer is not None:
                self.rejectors = {plugin.name}
                refused: Status = answer.with_plugin(plugin.name)
                return refused
        if remembered is not None:
            self.rejectors = {remembered.plugin, *self.narrowed_by}
        return remembered

    def nominated_node(self) -> str:
        return self.pod.status.nominated_node_name or self.cluster.nominator.nominated_node(self.pod.uid)

    def nominated_node_fits(self) -> bool:
        node = self.cluster.nodes.find(self.nominated_node())
        if node is None:
            return False
        try:
            status = self.filter(node)
        except _Fault:
            return False
        if status is not None:
            self.statuses[node.name] = status
            self.rejectors.add(status.plugin)
        return status is None

    def find(self, nodes: list[NodeInfo]) -> tuple[list[NodeInfo], int]:
        """Return the feasible nodes and how many were looked at; leave the index where the next search starts."""
        listed = self.listed()
        enough = self.enough(len(listed), self.profile.percentage_of_nodes_to_score)
        if not self.plugins("score"):
            enough = 1
        feasible: list[NodeInfo] = []
        looked_at: set[str] = set()
        try:
            for place in range(len(listed)):
                node = listed[(self.start + place) % len(listed)]
                status = self.filter(node)
                if status is None and len(feasible) == enough:
                    break
                if status is None:
                    feasible.append(node)
                else:
                    self.statuses[node.name] = status
                    self.rejectors.add(status.plugin)
                    if status.code == Code.PENDING:
                        self.pending.add(status.plugin)
                looked_at.add(node.name)
        finally:
            explicit = len(self.statuses.keys() | looked_at)
            self.start = (self.start + explicit) % len(nodes)
        return feasible, len(looked_at)

    def listed(self) -> list[NodeInfo]:
        return [node for node in self.cluster.nodes if self.names is None or node.name in self.names]

    def filter(self, node: NodeInfo) -> Status | None:
        """Ask twice where pods at least as important are nominated to the node: with them there, and without."""
        pods = [
            other
            for other in self.cluster.nominator._pods_on.get(node.name, {}).values()
            if other.priority >= self.pod.priority and other.uid != self.pod.uid
        ]
        if pods:
            state = self.state.clone()
            with self.cluster.statement() as statement:
                for other in pods:
                    statement.add(other, node.name)
                    for plugin in self.profile.plugins.values():
                        if plugin.name not in self.skipped and "add_pod" in marked_hooks(type(plugin)):
                            assert self.ask(plugin, "add_pod", state, self.pod, other, node) is None
                status = self.first_rejection(state, node)
            if status is not None:
                return status
        return self.first_rejection(self.state, node)

    def first_rejection(self, state: CycleState, node: NodeInfo) -> Status | None:
        for plugin in self.plugins("filter"):
            if plugin.name in self.skipped:
                continue
            if "filter" in marked_hooks(type(plugin)):
                status = self.ask(plugin, "filter", state, self.pod, node)
            else:
                (bits,) = self.ask(plugin, "filter_nodes", state, self.pod, node.table, np.array([node.row])).tolist()
                status = self.ask(plugin, "filter_status", self.pod, bits) if bits else None
            if status is not None:
                rejection: Status = status.with_plugin(plugin.name)
                return rejection
        return None

    def fit_error(self, nodes: list[NodeInfo]) -> Unschedulable:
        left_out = Status(
            Code.UNSCHEDULABLE_AND_UNRESOLVABLE,
            (f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(self.narrowed_by))}]",) if self.narrowed_by else (),
        )
        said = {node.name: self.statuses.get(node.name, left_out) for node in nodes}
        reasons = [reason for status in said.values() for reason in status.reasons]
        counted = sorted(f"{reasons.count(reason)} {reason}" for reason in set(reasons))
        text = f"0/{len(nodes)} nodes are available: {', '.join(counted)}."
        return Unschedulable(text, said, self.rejectors | self.narrowed_by, self.pending)

    def score(self, feasible: list[NodeInfo], evaluated: int) -> ChosenNode | AttemptError:
        rows = np.array([node.row for node in feasible])
        skipped: set[str] = set()
        try:
            for plugin in self.plugins("pre_score"):
                if self.ask(plugin, "pre_score", self.state, self.pod, self.cluster.nodes, rows) is not None:
                    skipped.add(plugin.name)
        except _Fault as fault:
            return AttemptError({str(fault)})
        weights = {step.name: step.weight for step in self.profile.scores}
        totals = {node.name: 0 for node in feasible}
        faults: set[str] = set()
        for plugin in self.plugins("score"):
            if plugin.name in skipped:
                continue
            scores = {}
            for node in feasible:
                try:
                    scores[node.name] = self.one_score(plugin, node)
                except _Fault as fault:
                    faults.add(str(fault))
            if not faults:
                for name, score in self.normalized(plugin, scores).items():
                    totals[name] += score * weights[plugin.name]
        if faults:
            return AttemptError(faults)
        best = max(totals.values())
        return ChosenNode({name for name, total in totals.items() if total == best}, totals, evaluated)

    def one_score(self, plugin: Plugin, node: NodeInfo) -> int:
        if "score" in marked_hooks(type(plugin)):
            return int(self.ask(plugin, "score", self.state, self.pod, node))
        answer = self.ask(plugin, "score_nodes", self.state, self.pod, node.table, np.array([node.row]))
        return answer if isinstance(answer, int) else int(answer[0])

    def normalized(self, plugin: Plugin, scores: dict[str, int]) -> dict[str, int]:
        if "normalize_score" not in marked_hooks(type(plugin)):
            return scores
        answer = self.ask(plugin, "normalize_score", self.state, self.pod, np.array(list(scores.values())))
        return dict(zip(scores, np.broadcast_to(answer, len(scores)).tolist(), strict=True))

    def plugins(self, point: str) -> list[Plugin]:
        return [self.profile.plugins[name] for name in self.profile.points[point]]

    def ask(self, plugin: Plugin, hook: str, *arguments: object) -> Any:
        try:
            return getattr(plugin, hook)(*arguments)
        except Exception as error:
            raise _Fault(plugin, hook.replace("_nodes", ""), error) from error
