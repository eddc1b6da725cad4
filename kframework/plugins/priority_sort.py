"""PrioritySort: the pods of the highest priority first, among equals the one that has waited longest."""

from __future__ import annotations

from kframework.framework.plugin import Plugin, hookimpl
from kframework.state.pods import QueuedPod


class PrioritySort(Plugin):
    """Order the queue by priority, highest first, then by the time of queueing."""

    name = "PrioritySort"

    @hookimpl
    def queue_sort(self, queued: QueuedPod) -> tuple[int, float]:
        return -queued.priority, queued.timestamp
