"""The one-row question: whether a pod may go to a node, as it stands and with the pods nominated to it.

As in kube-scheduler a pod must fit both ways: beside the nominated pods that are at least as important as itself, and
without them, as they may never arrive (RunFilterPluginsWithNominatedPods).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from kframework.core.runtime.points import first_rejection, run_add_pod
from kframework.core.runtime.steps import FilterStep
from kframework.framework.cycle_state import CycleState
from kframework.state.cluster import ClusterState
from kframework.state.nodes import NodeInfo
from kframework.state.pods import PendingPod, PodInfo
from kframework.values.status import Status


class Question(Protocol):
    """A pod that is to be placed, and the Filter plugins that have something to say about it, in order."""

    @property
    def cluster(self) -> ClusterState:
        """The live tables."""
        ...

    @property
    def pod(self) -> PendingPod:
        """The pod."""
        ...

    @property
    def filters(self) -> Sequence[FilterStep]:
        """The plugins."""
        ...


@contextmanager
def with_nominated_pods(
    question: Question, state: CycleState, node: NodeInfo, nominated: Sequence[PodInfo]
) -> Iterator[CycleState | Status]:
    """Put the nominated pods on the node until the end of the block.

    Yields the cycle state, a copy that took them in if any plugin does, or the error of one that could not.
    """
    taking_in = tuple(step for step in question.filters if step.add_pod is not None)
    if taking_in:
        state = state.clone()
    with question.cluster.statement() as what_if:
        for other in nominated:
            what_if.add(other, node.name)
            failed = run_add_pod(taking_in, state, question.pod, other, node) if taking_in else None
            if failed is not None:
                yield failed
                return
        yield state


def filter_beside_nominated_pods(
    question: Question, filters: Sequence[FilterStep], state: CycleState, node: NodeInfo
) -> Status | None:
    """Return the first rejection of the node by these of the plugins, with the nominated pods on it, if there are any.

    Those count that are at least as important as the pod.
    """
    nominated = question.cluster.nominator.beside(question.pod, node.name)
    if not nominated:
        return None
    with with_nominated_pods(question, state, node, nominated) as taken_in:
        return taken_in if isinstance(taken_in, Status) else first_rejection(filters, taken_in, question.pod, node)


def filter_with_nominated_pods(
    question: Question, filters: Sequence[FilterStep], state: CycleState, node: NodeInfo
) -> Status | None:
    """Return the first rejection of the node by these of the plugins: with the nominated pods on it, then without."""
    beside = filter_beside_nominated_pods(question, filters, state, node)
    return beside or first_rejection(filters, state, question.pod, node)
