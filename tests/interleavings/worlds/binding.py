"""A binding: its answer, the word of the watch, the pod's deletion, the node's deletion and return, time-outs."""

from __future__ import annotations

from kframework.objects import Node, Pod
from kframework.testing import make_node, make_pod
from tests.interleavings.stage import Stage

__all__ = ["binding"]


async def binding() -> list[str]:
    """Two pods, of which one is deleted while it is bound; a node that goes and comes back; a pod that comes late."""
    stage = Stage([make_node("a", cpu=1), make_node("b", cpu=1), make_pod("one", cpu="700m"), make_pod("two", cpu="700m")])
    store, again = stage.store, make_node("a", cpu=1)
    stage.act(("one is deleted", lambda: store.remove(Pod, "one", grace=0)), who="a user")
    stage.act(("three is created", lambda: store.add(make_pod("three", cpu="700m"))), who="another user")
    stage.act(
        ("node a is deleted", lambda: store.remove(Node, "a")),
        ("the pods of a are collected", lambda: stage.collect("a")),
        ("node a is back", lambda: store.add(again)),
        who="the cloud",
    )
    return await stage.run(stage.lost)
