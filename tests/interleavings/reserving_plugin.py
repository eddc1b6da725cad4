"""A plugin that reserves, and the book of what it has reserved."""

from __future__ import annotations

from collections.abc import Iterator

from kframework import CycleState, PendingPod, Plugin, hookimpl
from kframework.objects import Pod
from tests.interleavings.stage import Stage

__all__ = ["Reserving", "unbalanced"]


class Reserving(Plugin):
    """Reserve something for every pod."""

    name = "Reserving"

    def __init__(self, args: object, handle: object) -> None:
        super().__init__(args, handle)  # type: ignore[arg-type]  # they are what a plugin gets
        self.reserved: dict[str, str] = {}
        self.problems: list[str] = []

    @hookimpl
    def reserve(self, state: CycleState, pod: PendingPod, node_name: str) -> None:
        if pod.uid in self.reserved:
            self.problems.append(f"{pod.name} was reserved for again before the first was undone")
        self.reserved[pod.uid] = node_name

    @hookimpl
    def unreserve(self, state: CycleState, pod: PendingPod, node_name: str) -> None:
        self.reserved.pop(pod.uid, None)


def unbalanced(stage: Stage) -> Iterator[str]:
    """Complain of reservations that were not undone, and of those that were though the pod is bound."""
    pods = {pod.metadata.uid: pod for pod in stage.store.objects(Pod)}
    for _, plugin in stage.scheduler.profiles.plugins():
        if isinstance(plugin, Reserving):
            yield from plugin.problems
            for uid, node_name in plugin.reserved.items():
                pod = pods.get(uid)
                if pod.spec.node_name != node_name if pod is not None else not stage.api_books.bindings[uid]:
                    yield f"what was reserved for {uid} on {node_name} is not undone"
            for uid, pod in pods.items():
                if stage.api_books.bindings[uid] and uid not in plugin.reserved:
                    yield f"what was reserved for {pod.metadata.name} is undone, though it is bound"
