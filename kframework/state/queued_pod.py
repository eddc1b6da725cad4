"""A pending pod with what the queue knows of it."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

from kframework.state.pods import PendingPod

#: That no plugin rejected a pod: every `frozenset()` is another, of 216 bytes.
NOBODY: Final[frozenset[str]] = frozenset()


class QueuedPod:
    """A pod that waits for its turn, and the history of its attempts; times are seconds since 1970.

    `timestamp` is when it was last (re)queued after an attempt, or first added; `initial_attempt` when it first
    entered the active queue, after its gates. `attempts` counts pops, `unschedulable_count` rejections and
    `consecutive_errors` the errors since the last rejection: one of the two sets the backoff. `unschedulable_plugins`
    and `pending_plugins` rejected the last attempt, `gating_plugin` holds the pod back before any. `woken_by` is the
    event that called for the next attempt, by its label: `PodAdd` for the first.
    """

    __slots__ = (
        "attempts",
        "backoff_expiry",
        "consecutive_errors",
        "gating_plugin",
        "initial_attempt",
        "pending_plugins",
        "pod",
        "sort_key",
        "timestamp",
        "unschedulable_count",
        "unschedulable_plugins",
        "woken_by",
    )

    def __init__(self, pod: PendingPod, timestamp: float) -> None:
        self.pod: PendingPod = pod
        self.timestamp: float = timestamp
        self.attempts: int = 0
        self.unschedulable_count: int = 0
        self.consecutive_errors: int = 0
        self.initial_attempt: float | None = None
        self.backoff_expiry: float | None = None
        self.unschedulable_plugins: frozenset[str] = NOBODY
        self.pending_plugins: frozenset[str] = NOBODY
        self.gating_plugin: str = ""
        self.woken_by: str = ""
        #: The key that `queue_sort` gave; frozen while the pod is queued.
        self.sort_key: Hashable = None

    @property
    def rejectors(self) -> frozenset[str]:
        """All plugins that rejected the pod; empty when an attempt ended with an error."""
        return self.unschedulable_plugins | self.pending_plugins

    def __repr__(self) -> str:
        return f"<QueuedPod {self.pod.key} after {self.attempts} attempts>"
