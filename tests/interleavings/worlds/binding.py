"""A binding: its answer, the word of the watch, the pod's deletion, the node's deletion and return, time-outs."""

from __future__ import annotations

from kframework.objects import Node, Pod
from kframework.testing import make_node, make_pod
from tests.interleavings.reserving_plugin import Reserving, unbalanced
from tests.interleavings.stage import Stage

__all__ = ["binding"]


async def binding() -> list[str]:
    """Bind three pods to two nodes with room for one each; one is deleted, a node goes with its pods and comes back."""
    pods = [make_pod(name, cpu="700m") for name in ("one", "two", "three")]
    stage = Stage([make_node("a", cpu=1), make_node("b", cpu=1), *pods], [Reserving])
    store = stage.store

    def bring_back() -> None:
        stage.collect("a")
        store.add(make_node("a", cpu=1))

    stage.act(("one is deleted", lambda: store.remove(Pod, "one", grace=0)), who="a user")
    stage.act(("node a is deleted", lambda: store.remove(Node, "a")), ("node a is back", bring_back), who="the cloud")
    return await stage.run(stage.lost, lambda: unbalanced(stage))
