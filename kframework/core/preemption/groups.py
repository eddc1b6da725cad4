"""Preemption for a PodGroup: which units of the whole cluster must go so that its pods find nodes together.

All units of lower priority are removed in a what-if, and the group is placed once. Then units come back one by one, the
most important first, as long as all pods that have a node still fit on it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from contextlib import ExitStack
from operator import itemgetter

from kframework.core.preemption.dry_runs import Budgets, ExtensionError, raise_on_error
from kframework.core.preemption.units import Unit, Units
from kframework.framework.answers import PreemptForGroup
from kframework.framework.handle import FindNodes, PlacedPod
from kframework.objects import GenericPodGroup
from kframework.state.cluster import ClusterState
from kframework.state.nodes import NodeInfo
from kframework.state.pods import PendingPod, PodInfo
from kframework.state.statement import Statement
from kframework.values.status import Code, Status

_POLICY_NEVER = Status(Code.UNSCHEDULABLE, ("not eligible due to preemptionPolicy=Never.",))
_ONGOING = Status(Code.SUCCESS, ("ongoing preemption on nominated nodes",))
_NO_VICTIMS = Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, ("No preemption victims found for incoming preemptor",))


class GroupPreemption:
    """A search for the victims of a group: whole units, as few and as unimportant ones as its pods allow."""

    def __init__(self, cluster: ClusterState, units: Units, budgets: Budgets) -> None:
        self._cluster = cluster
        self._units = units
        self._budgets = budgets

    def blocked_reason(self, group: GenericPodGroup, pods: Sequence[PendingPod]) -> Status | None:
        """Return why no victims are searched for: Success while others are still terminating."""
        policies = {pod.spec.preemption_policy for pod in pods}
        if self._cluster.feature_gates.is_enabled("PodGroupPreemptionPolicy"):
            policies.add(group.spec.preemption_policy)
        if "Never" in policies:
            return _POLICY_NEVER
        return _ONGOING if self._is_ongoing(group.spec.priority or 0, pods) else None

    def find(self, group: GenericPodGroup, find_nodes: FindNodes) -> PreemptForGroup | Status:
        """Return the victims and the placed, or why there are none."""
        priority = group.spec.priority or 0
        units = self._units.below(priority, [pod for pod in self._cluster.pods.values() if pod.row >= 0])
        if not units:
            return _NO_VICTIMS
        with self._cluster.statement() as what_if:
            what_if.is_held = True
            trial = _Trial(self._cluster, what_if, units)
            placed = find_nodes()
            if isinstance(placed, Status):
                return placed
            trial.set_placed(placed)
            try:
                victims, violations = self._victims(trial, units, placed)
            except ExtensionError as error:
                return error.status
        evicted = tuple([pod for unit in sorted(victims, key=self._units.importance) for pod in unit])
        return PreemptForGroup({each.pod.uid: each.node.name for each in placed}, evicted, violations)

    def _is_ongoing(self, priority: int, pods: Sequence[PendingPod]) -> bool:
        """Return whether a victim is still terminating on a node that a pod of the group is nominated to."""
        nominator, nodes = self._cluster.nominator, self._cluster.nodes
        names = {pod.status.nominated_node_name or nominator.nominated_node(pod.uid) for pod in pods}
        nominated = filter(None, map(nodes.find, names))
        terminating = [pod for node in nominated for pod in node.pods if pod.terminating and pod.disrupted]
        return any(self._units.priority(pod) < priority for pod in terminating)

    def _victims(self, trial: _Trial, units: list[Unit], placed: Sequence[PlacedPod]) -> tuple[list[Unit], int]:
        """Bring units back, first those whose eviction violates a budget; return the others, and their violations."""
        units.sort(key=self._units.importance)
        violating, others = self._budgets.split(units)
        nominator = self._cluster.nominator
        nominations = [(each.pod, nominator.nominated_node(each.pod.uid)) for each in placed]
        for pod, _ in nominations:
            nominator.remove(pod.uid)
        try:
            victims = [unit for unit in (*violating, *others) if not trial.reprieve(unit)]
            return victims, sum(violating.get(unit, 0) for unit in victims)
        finally:
            for pod, node_name in nominations:
                nominator.nominate(pod, node_name)


class _Trial:
    """A what-if without these units, in which they may come back."""

    def __init__(self, cluster: ClusterState, what_if: Statement, units: Sequence[Unit]) -> None:
        self._what_if = what_if
        by_row = cluster.nodes.by_row
        #: The nodes of the removed pods.
        self._homes: dict[PodInfo, NodeInfo] = {pod: by_row[pod.row] for unit in units for pod in unit}
        self._placed: Sequence[PlacedPod] = ()
        self._are_independent = True
        #: With their numbers.
        self._by_node = defaultdict[NodeInfo, list[tuple[int, PlacedPod]]](list)
        for pod in self._homes:
            what_if.remove(pod)

    def set_placed(self, placed: Sequence[PlacedPod]) -> None:
        """Let units come back only if these pods still fit."""
        self._placed = placed
        self._are_independent = not any(each.depends_on_other_nodes for each in placed)
        for number, each in enumerate(placed):
            self._by_node[each.node].append((number, each))

    def _concerned_by(self, unit: Unit) -> Sequence[PlacedPod]:
        """Return the placed pods, in order, that may not fit any more if a unit comes back."""
        if not self._are_independent:
            return self._placed
        homes = {self._homes[pod] for pod in unit}
        concerned = (each for home in homes for each in self._by_node.get(home, ()))
        return [each for _, each in sorted(concerned, key=itemgetter(0))]

    def reprieve(self, unit: Unit) -> bool:
        """Bring a unit back if all placed pods still fit."""
        placed = self._concerned_by(unit)
        for pod in unit:
            self._what_if.add(pod, self._homes[pod].name)
            for each in placed:
                raise_on_error(each.add_pod(pod, self._homes[pod]))
        if self._all_fit(placed):
            return True
        for pod in unit:
            self._what_if.remove(pod)
            for each in placed:
                raise_on_error(each.remove_pod(pod, self._homes[pod]))
        return False

    def _all_fit(self, placed: Sequence[PlacedPod]) -> bool:
        """Return whether the pods fit one after the other."""
        with self._what_if.statement() as taken, ExitStack() as reserved:
            for each in placed:
                if each.rejection() is not None:
                    return False
                # A copy: plugins have the pod itself, and what they do to it must not confuse the tables.
                taken.assume(each.pod.twin(each.pod.kind), each.node.name)
                each.reserve()
                reserved.callback(each.unreserve)
        return True
