"""Rejections of nodes, encoded as integers so that the first plugin to reject a node is the minimum.

As in kube-scheduler a pod must fit both with the nominated pods of equal or higher priority and without them, as they
may never arrive (RunFilterPluginsWithNominatedPods).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

import msgspec
import numpy as np

from kframework.core.runtime.points import filter_node, run_add_pod
from kframework.core.runtime.steps import FilterStep
from kframework.framework.cycle_state import CycleState
from kframework.state.cluster import ClusterState
from kframework.state.nodes import NodeInfo
from kframework.state.pods import PendingPod, PodInfo
from kframework.state.statement import Statement
from kframework.values.status import Status

#: No rejection.
PASS = int(np.iinfo(np.int64).max)

#: The value of a row that the search did not reach; it does not pass.
UNREACHED = PASS - 1

_ORDER = 35
_SOURCE = 32
_BITS = (1 << _SOURCE) - 1

#: The size of a Status in a table, without its text, in bytes (measured).
_PER_STATUS = 320

#: An order before all plugins: the node was rejected before any plugin saw it in its current state.
FIRST = -1

#: The source of a rejection's bits: the plugin, or the table of the lower layer, the upper layer, the answers by
#: domain, those with nominated pods, or the attempt.
PLUGIN, LOWER, UPPER, DOMAINS, NOMINATED, ATTEMPT = range(6)


def plugin_order(rejection: int) -> int:
    """Return the order of the plugin that objects; larger than any for PASS."""
    return rejection >> _ORDER


def reason_bits(rejection: int) -> int:
    return rejection & _BITS


def plugin_rejection(order: int) -> int:
    """Return the rejection of a plugin, to which its reason bits are added."""
    return order << _ORDER


class StatusTable(msgspec.Struct, eq=False):
    """Statuses that rejections refer to by number; a Status that is no rejection is a fault.

    A fault counts only if kube-scheduler's search would have reached its node, so it is stored like any other answer.
    """

    source: int
    statuses: list[Status] = []
    faults: int = 0
    #: The approximate memory of the Statuses, in bytes.
    nbytes: int = 0
    _numbers: dict[Status, int] = {}

    def encode(self, order: int, status: Status) -> int:
        """Add a Status to the table and return the rejection that refers to it."""
        number = self._numbers.get(status)
        if number is None:
            number = self._numbers[status] = len(self.statuses)
            self.statuses.append(status)
            self.faults += not status.is_rejected
            self.nbytes += _PER_STATUS + sum(map(len, status.reasons))
        return order << _ORDER | self.source << _SOURCE | number

    def clear(self) -> None:
        """Drop all statuses; rejections that refer to them must be recomputed."""
        self.statuses.clear()
        self._numbers.clear()
        self.faults = self.nbytes = 0

    def __len__(self) -> int:
        return len(self.statuses)


def count_reasons(counts: Iterable[tuple[Status, int]]) -> dict[str, int]:
    """Count nodes by the reason of their rejection; each Status comes with the number of its nodes."""
    reasons: dict[str, int] = {}
    for status, count in counts:
        for reason in status.reasons:
            reasons[reason] = reasons.get(reason, 0) + count
    return reasons


def decode_status(
    rejection: int, tables: Iterable[StatusTable], filters: Sequence[FilterStep], pod: PendingPod
) -> Status:
    """Return the Status of a rejection, from its table or from the plugin that set its bits."""
    for table in tables:
        if table.source == rejection >> _SOURCE & 7:
            return table.statuses[reason_bits(rejection)]
    return filters[plugin_order(rejection)].explain(pod, reason_bits(rejection))


class FilterTarget(Protocol):
    """A pod to be placed, and the Filter plugins that do not skip it, in order."""

    @property
    def cluster(self) -> ClusterState: ...

    @property
    def pod(self) -> PendingPod: ...

    @property
    def filters(self) -> Sequence[FilterStep]: ...


def add_nominated_pods(
    what_if: Statement, question: FilterTarget, state: CycleState, node: NodeInfo, nominated: Sequence[PodInfo]
) -> CycleState | Status:
    """Add the nominated pods to the node.

    Returns the cycle state, a copy updated by AddPod if any plugin has it, or the error of the plugin that failed.
    """
    taking_in = [step for step in question.filters if step.add_pod is not None]
    if taking_in:
        state = state.clone()
    for other in nominated:
        what_if.add(other, node.name)
        for step in taking_in:
            failed = run_add_pod((step,), state, question.pod, other, node)
            failed = _undo_leak(question.cluster, what_if, step, "add_pod") or failed
            if failed is not None:
                return failed
    return state


def _undo_leak(cluster: ClusterState, what_if: Statement, step: FilterStep, hook: str) -> Status | None:
    """Undo the what-ifs that a plugin left open in this one, which could not be closed; return its error, if any."""
    leaked = False
    while (last := cluster.statements[-1]) is not what_if and not last.is_held:
        leaked = True
        last.rollback()
    return step.fault_status(step.name, hook, "left a statement open") if leaked else None


def filter_assuming_nominated_pods(
    question: FilterTarget, filters: Sequence[FilterStep], state: CycleState, node: NodeInfo
) -> Status | None:
    """Return the first rejection of the node with the nominated pods on it; None also if no such pod counts."""
    nominated = question.cluster.nominator.nominated_pods_for_node(question.pod, node.name)
    if not nominated:
        return None
    with question.cluster.statement() as what_if:
        taken_in = add_nominated_pods(what_if, question, state, node, nominated)
        if isinstance(taken_in, Status):
            return taken_in
        for step in filters:
            status = step.run(taken_in, question.pod, node)
            status = _undo_leak(question.cluster, what_if, step, "filter") or status
            if status is not None:
                return status
        return None


def filter_with_nominated_pods(
    question: FilterTarget, filters: Sequence[FilterStep], state: CycleState, node: NodeInfo
) -> Status | None:
    """Return the first rejection of the node by these of the plugins: with the nominated pods on it, then without."""
    with_nominated = filter_assuming_nominated_pods(question, filters, state, node)
    return with_nominated or filter_node(filters, state, question.pod, node)
