"""What the plugins suggest about their rejections, asked of their hooks `suggest` and `suggest_nodes`."""

from __future__ import annotations

from collections.abc import Generator
from functools import partial
from typing import cast

import numpy as np
from numpy.typing import NDArray

from kframework.core.runtime.profile import Profile
from kframework.explain.full_evaluation import FullEvaluation, OptionalHooks
from kframework.explain.remedies.trials import Trial
from kframework.framework.suggestions import PENDING_POD, UNFIXABLE, Proposal, Suggestion, Target, delete_any
from kframework.objects import Node, Pod
from kframework.state.nodes import NodeInfo
from kframework.state.pods import PendingPod
from kframework.values.status import Code, Status

#: So many of the nodes with the same rejection are looked at to find out whether anything is suggested there.
_FEW = 8

#: So many nodes are estimated at a time: of devices that takes 1.3 ms.
_MANY = 200


class SuggestHooks:
    """Calls the `suggest` hooks of a profile; a fault is logged once, and the plugin is not called again."""

    def __init__(self, profile: Profile) -> None:
        self._hooks = OptionalHooks(profile)

    def of(self, asked: Trial | FullEvaluation, node: NodeInfo | None, status: Status) -> list[Proposal]:
        """List what may answer this rejection of a pod on a node, or as a whole (None)."""
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
        """Estimate how many changes of the cluster it takes on each of these rows, all of which the plugin rejects.

        Yields wherever it may pause; nothing is known of the rest if nodes come or go meanwhile.
        """
        efforts = np.full(len(rows), UNFIXABLE)
        if self._hooks.of(plugin, "suggest_nodes") is not None:
            for begin in range(0, len(rows), _MANY):
                if begin:
                    yield
                if asked.is_outdated:
                    break
                piece = slice(begin, begin + _MANY)
                efforts[piece] = self._estimated(asked, plugin, rows[piece])
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

    def _estimated(self, asked: FullEvaluation, plugin: str, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """Ask the plugin, if it may still be asked."""
        beyond, estimate = np.full(len(rows), UNFIXABLE), self._hooks.of(plugin, "suggest_nodes")
        if estimate is None:
            return beyond
        estimated = partial(estimate, asked.state, asked.pod, asked.nodes, rows)
        return self._hooks.safely(plugin, "suggest_nodes", lambda: _column(estimated(), len(rows)), beyond)


def of_pod(proposal: Proposal) -> bool:
    """Return whether a proposal changes the pod itself or what its claims ask for, be it beside others."""
    return any(not change.target.node for change in proposal)


def _proposals(suggestions: object, pod: PendingPod, node: NodeInfo | None) -> list[Proposal]:
    """Check what `suggest` answered; what comes to no change is left out."""
    proposals: list[Proposal] = []
    for each in cast("list[object]", suggestions):
        changes = each if isinstance(each, tuple) else (each,)
        if not all(isinstance(change, Suggestion) for change in changes):
            raise TypeError(f"suggested {each!r}, which is no kframework.Suggestion")
        for change in changes:
            _try_patch(change, pod, node)
        proposals += [changes] if changes else []
    return proposals


def _try_patch(change: Suggestion, pod: PendingPod, node: NodeInfo | None) -> None:
    """Make a change here, where a fault in its patch or its arguments is the plugin's."""
    change.to_dict()
    objects: dict[Target, Pod | Node] = {PENDING_POD: pod.object}
    if node is not None:
        objects[Target(node=node.name)] = node.object
    obj = objects.get(change.target)
    if obj is not None and not isinstance(change.patch(obj), type(obj)):
        raise TypeError(f"suggested {change!r}, whose patch returns no {type(obj).__name__}")


def _column(answer: object, length: int) -> NDArray[np.float64]:
    return np.broadcast_to(np.asarray(answer, dtype=np.float64), (length,))
