"""Queues as a tree: each names its parent, and those that name none are below the root."""

from __future__ import annotations

from collections.abc import Mapping

from kframework_batch.queue import ROOT_QUEUE, QueueInfo


class QueueTree:
    """The place of each queue below the root, which is there even if no object says so.

    `paths` leads from the root to each queue, by name; it is empty if the queues make no tree, and `broken` says why.
    """

    def __init__(self, queues: Mapping[str, QueueInfo]) -> None:
        self._parents = {name: queue.parent or ROOT_QUEUE for name, queue in queues.items() if name != ROOT_QUEUE}
        self._inner = {ROOT_QUEUE, *self._parents.values()} if self._parents else set()
        self.broken: str = ""
        paths: dict[str, tuple[str, ...]] = {ROOT_QUEUE: (ROOT_QUEUE,)}
        for name in self._parents:
            if not self.broken:
                self._follow(name, paths)
        self.paths: dict[str, tuple[str, ...]] = {} if self.broken else paths

    def _follow(self, name: str, paths: dict[str, tuple[str, ...]]) -> None:
        """Find the paths of a queue and of those above it."""
        steps: dict[str, None] = {}
        while name not in paths:
            if name in steps:
                circle = [*list(steps)[list(steps).index(name) :], name]
                self.broken = f"queue {name} is its own ancestor ({' -> '.join(circle)}): change a spec.parent"
                return
            steps[name] = None
            parent = self._parents[name]
            if parent != ROOT_QUEUE and parent not in self._parents:
                remedy = "create it, or change spec.parent"
                self.broken = f"queue {name} has the parent {parent}, which does not exist: {remedy}"
                return
            name = parent
        for step in reversed(steps):
            paths[step] = (*paths[self._parents[step]], step)

    def is_leaf(self, name: str) -> bool:
        """Return whether there is no queue below this one, so that it may have jobs."""
        return name not in self._inner
