"""The PodGroup of an explained pod: how far its pods are, how many find room together, and what would help all of them.

A what-if places the waiting pods one after another, each on the first node that fits; Reserve is not called, so groups
whose pods have claims are not tried.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice

from kframework.core.pod_engine import PodEngine
from kframework.explain.explanation import GroupExplanation, GroupMember, State
from kframework.explain.full_evaluation import FullEvaluation
from kframework.explain.remedies.remedies import Remedy
from kframework.explain.remedies.suggestions import Trial
from kframework.objects import PodGroup
from kframework.objects.pod_groups import INITIALLY_SCHEDULED
from kframework.observe.history import History
from kframework.observe.text_table import format_count
from kframework.scheduler.cooperative import time_sliced
from kframework.state.pods import PendingPod, PodInfo
from kframework.state.statement import Statement

#: The largest number of waiting pods that are placed in a what-if.
_MAX_TRIED = 64
#: The number of different nodes that are tried as models of new ones.
_MAX_MODELS = 4

#: A pod and the name of its node in a what-if.
_Placed = tuple[PendingPod, str]


class GroupExplainer:
    """The explanation of a group under construction."""

    def __init__(self, engine: PodEngine, namespace: str, name: str) -> None:
        self._engine = engine
        self._cluster = engine.cluster
        self._name = f"{namespace}/{name}"
        self._group = self._cluster.objects(PodGroup).get(name, namespace)
        self._members = self._cluster.groups.members(namespace, name)
        gang = None if self._group is None else self._group.spec.scheduling_policy.gang
        self._minimum: int | None = None if gang is None else gang.min_count
        pending = engine.handlers.pending
        self._waiting = [pending[uid] for uid in self._members.unscheduled if uid in pending]
        self._fits: int | None = None
        self._remedies: list[Remedy] = []

    def work(self) -> Iterator[None]:
        """Place the waiting pods in a what-if, and look for remedies; in slices."""
        enough = self._group is not None and len(self._members) >= (self._minimum or 0)
        has_claims = any(pod.claims or pod.spec.resource_claims for pod in self._waiting)
        in_domain = self._group is not None and self._group.spec.scheduling_constraints is not None
        if enough and not has_claims and not in_domain and 0 < len(self._waiting) <= _MAX_TRIED:
            yield from time_sliced(self._place(), FullEvaluation(self._engine, self._waiting[0]).isolated)

    def _place(self) -> Iterator[None]:
        placed: list[_Placed] = []
        for pod in self._waiting:
            node = self._find_node(placed, pod)
            placed += [(pod, node)] if node else []
            yield
        self._fits = len(placed)
        wanted = len(self._members) if self._minimum is None else self._minimum
        missing = wanted - self._members.scheduled - len(placed)
        if missing <= 0:
            return
        taken = {pod.uid for pod, _ in placed}
        yield from self._add_nodes(placed, [pod for pod in self._waiting if pod.uid not in taken], missing)
        lower = wanted - missing
        if self._minimum is not None and lower > 0:
            change = {"kind": "lowerMinCount", "podGroup": self._name, "minCount": lower}
            self._remedies.append(Remedy(f"lower minCount of PodGroup {self._name} to {lower}", (change,)))

    def _find_node(self, placed: Iterable[_Placed], pod: PendingPod) -> str:
        """Return the first node that fits a pod beside the placed ones; "" if none does."""
        with self._cluster.statement() as statement:
            for other, node in placed:
                self._put(statement, other, node)
            trial = Trial(self._cluster, self._engine.profiles[pod.scheduler_name], pod)
            return next(filter(trial.fits, trial.passing_nodes()), "")

    def _put(self, statement: Statement, pod: PendingPod, node: str) -> None:
        """Put a pod on a node, unless it was bound, or the node was deleted, while other tasks ran."""
        if pod.row < 0 and self._cluster.nodes.row(node) is not None:
            statement.add(pod, node)

    def _add_nodes(self, placed: Sequence[_Placed], left: Sequence[PendingPod], missing: int) -> Iterator[None]:
        """Find the node like which the fewest new ones, with DaemonSet pods alone, have room for the missing pods."""
        found: list[tuple[int, str]] = []
        for model in self._models():
            added, rest = 0, list(left)
            while len(left) - len(rest) < missing:
                fitting = self._fill(model, placed, rest)
                yield
                if not fitting:
                    break
                added, rest = added + 1, [pod for pod in rest if pod.uid not in fitting]
            else:
                found.append((added, model))
        if found:
            count, name = min(found)
            change = {"kind": "addNodes", "like": name, "count": count}
            self._remedies.append(Remedy(f"add {format_count(count, 'node')} like {name}", (change,)))

    def _models(self) -> Iterable[str]:
        """Name nodes that differ in what they offer."""
        names: dict[object, str] = {}
        for row in self._cluster.nodes.order.tolist():
            node = self._cluster.nodes[row].object
            names.setdefault(
                (str(node.status.allocatable), str(node.spec.taints), node.spec.unschedulable), node.metadata.name
            )
        return islice(names.values(), _MAX_MODELS)

    def _fill(self, model: str, placed: Iterable[_Placed], pods: Iterable[PendingPod]) -> set[str]:
        """Return the uids of those pods that fit together on an emptied node."""
        fitting, emptied = set[str](), self._cluster.nodes.find(model)
        with self._cluster.statement() as statement:
            for other in [] if emptied is None else [each for each in emptied.pods if not _is_pinned(each)]:
                statement.remove(other)
            for other, node in placed:
                if node != model:
                    self._put(statement, other, node)
            for pod in pods:
                if Trial(self._cluster, self._engine.profiles[pod.scheduler_name], pod).fits(model):
                    self._put(statement, pod, model)
                    fitting.add(pod.uid)
        return fitting

    def build(self, history: History, state_of: Callable[[PodEngine, str], State]) -> GroupExplanation:
        conditions = () if self._group is None else self._group.status.conditions
        uids = (*self._members.assigned, *self._members.assumed, *self._members.unscheduled)
        members = (self._member(uid, history, state_of(self._engine, uid)) for uid in uids)
        return GroupExplanation(
            name=self._name,
            exists=self._group is not None,
            minimum=self._minimum,
            scheduled=self._members.scheduled,
            members=tuple(sorted(members, key=lambda member: member.pod)),
            fits=self._fits,
            condition=next((each.message for each in conditions if each.type == INITIALLY_SCHEDULED), ""),
            remedies=tuple(self._remedies),
        )

    def _member(self, uid: str, history: History, state: State) -> GroupMember:
        pod = self._cluster.pods.get(uid)
        if pod is not None:
            return GroupMember(pod.key, state, pod.node_name)
        waiting = self._engine.handlers.pending.get(uid)
        if waiting is None:
            return GroupMember(uid, state)
        decisions = history.for_pod(uid).decisions
        return GroupMember(waiting.key, state, message=decisions[-1].message if decisions else "")


def _is_pinned(pod: PodInfo) -> bool:
    """Return whether a pod is pinned to its node, as those of DaemonSets are: a new node has one of these too."""
    affinity = pod.spec.affinity
    node_affinity = None if affinity is None else affinity.node_affinity
    required = None if node_affinity is None else node_affinity.required_during_scheduling_ignored_during_execution
    return required is not None and any(term.match_fields for term in required.node_selector_terms)
