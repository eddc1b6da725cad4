"""Watches that break, expire and relist, of pods and of nodes, while pods are bound, deleted and replaced."""

from __future__ import annotations

from random import Random

from msgspec.structs import replace

from kframework.client.cluster import Cluster
from kframework.client.kube_cluster import KubeCluster
from kframework.clock import LoopClock
from kframework.fake_api.embedded_server import InProcessTransport
from kframework.fake_api.server import ApiServer
from kframework.in_memory.cluster import MemoryCluster
from kframework.objects import Node, Pod
from kframework.testing import make_node, make_pod
from tests.interleavings.delayed_transport import DelayedTransport
from tests.interleavings.reserving_plugin import Reserving, unbalanced
from tests.interleavings.stage import Stage, this_loop

__all__ = ["watch"]


async def watch() -> list[str]:
    """Bind two pods to two nodes; one of each is deleted and comes back under the same name as another."""
    objects = make_node("a", cpu=1), make_node("b", cpu=1), make_pod("one", cpu="700m"), make_pod("two", cpu="700m")
    stage = Stage(objects, [Reserving], connect=_over_transport)
    store = stage.store
    another = make_pod("one", cpu="700m")
    another = replace(another, metadata=replace(another.metadata, uid="another"))
    stage.act(
        ("one is deleted", lambda: store.remove(Pod, "one", grace=0)),
        ("another one is created", lambda: store.add(another)),
        who="a user",
    )
    stage.act(
        ("node b is deleted", lambda: store.remove(Node, "b")),
        ("its pods are collected", lambda: stage.collect("b")),
        ("node b is back", lambda: store.add(make_node("b", cpu=1))),
        who="the cloud",
    )
    return await stage.run(stage.lost, lambda: unbalanced(stage))


def _over_transport(store: MemoryCluster) -> Cluster:
    clock = LoopClock(this_loop())
    transport = DelayedTransport(
        InProcessTransport(ApiServer(store, clock)), this_loop(), "/pods", "/nodes", "/binding"
    )
    return KubeCluster(transport, clock, random=Random(0))
