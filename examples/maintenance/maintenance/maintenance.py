"""Maintenance: start no pod on a node that would still run when the node's maintenance begins.

The node says when that is by the annotation `maintenance.example.com/starts`, as in `2026-03-01T22:00:00Z` (RFC 3339).
A pod runs for its `spec.activeDeadlineSeconds` at most; for how long one without is taken to run, the Args say.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime

from pydantic import PositiveInt

from kframework import (
    ActionType,
    ApiObject,
    ClusterEvent,
    CycleState,
    EventResource,
    NodeInfo,
    PendingPod,
    Plugin,
    PluginArgs,
    QueueingHint,
    Status,
    hookimpl,
    unresolvable,
)

__all__ = ["STARTS", "Maintenance", "MaintenanceArgs"]

STARTS = "maintenance.example.com/starts"


class MaintenanceArgs(PluginArgs):
    """What `pluginConfig` may say: `defaultSeconds`, for how long a pod runs that does not say so itself."""

    default_seconds: PositiveInt = 3600


class Maintenance(Plugin[MaintenanceArgs]):
    """Keep a pod off nodes whose maintenance begins before it ends."""

    name = "Maintenance"
    # Of the node nothing counts but its annotation: an answer is remembered until the Node object changes.
    reads = "node"

    @hookimpl
    def sign(self, pod: PendingPod) -> int:
        # The answers change with time, and of time no event tells. So the signature holds it, in whole minutes: within
        # one, pods that run for as long share what was answered; in the next, all nodes are asked again.
        return self._last_minute(pod)

    @hookimpl
    def filter(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> Status | None:
        return self._rejection(pod, node.annotations)

    @hookimpl
    def explain(self, state: CycleState, pod: PendingPod, node: NodeInfo, status: Status) -> list[str]:
        return [f"{STARTS} is {node.annotations[STARTS]}", f"  the pod may run for {self._seconds(pod)} s"]

    @hookimpl
    def events_to_register(self) -> list[ClusterEvent]:
        # Time alone cures nothing: what ends too late now does so the more in an hour.
        node_changes = ActionType.ADD | ActionType.UPDATE_NODE_ANNOTATION
        return [
            ClusterEvent(EventResource.NODE, node_changes, self.after_node_change),
            ClusterEvent(EventResource.TARGET_POD, ActionType.UPDATE, self.after_pod_change),
        ]

    def after_node_change(self, pod: PendingPod, old: ApiObject | None, new: ApiObject) -> QueueingHint:
        return QueueingHint.SKIP if self._rejection(pod, new.metadata.annotations) else QueueingHint.QUEUE

    def after_pod_change(self, pod: PendingPod, old: PendingPod, new: PendingPod) -> QueueingHint:
        # A deadline can be set, and brought forward.
        return QueueingHint.QUEUE if self._seconds(new) < self._seconds(old) else QueueingHint.SKIP

    def _rejection(self, pod: PendingPod, annotations: Mapping[str, str]) -> Status | None:
        # Unresolvable, both: no other pod is in the way, so preemption need not look here.
        if STARTS not in annotations:
            return None
        starts = _seconds_since_1970(annotations[STARTS])
        if starts is None:
            # Somebody is going to work on this node, nobody knows when. Other nodes are none the worse for the mistake.
            return unresolvable(f"node(s) had a {STARTS} that is no RFC 3339 time")
        late = self._last_minute(pod) * 60 > starts
        return unresolvable("node(s) had maintenance before the pod would end") if late else None

    def _last_minute(self, pod: PendingPod) -> int:
        """Return by which minute since 1970 the pod has ended if it starts now."""
        return math.ceil((self.handle.clock.now() + self._seconds(pod)) / 60)

    def _seconds(self, pod: PendingPod) -> int:
        deadline = pod.spec.active_deadline_seconds
        return self.args.default_seconds if deadline is None else deadline


def _seconds_since_1970(text: str) -> float | None:
    """Read a time as `2026-03-01T22:00:00Z`; None for what is none, or does not say in which zone."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return None if moment.tzinfo is None else moment.timestamp()
