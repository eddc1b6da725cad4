"""The parts of `kframework run` are put together as the command line says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio

from kframework.clock import LoopClock, run_virtual
from kframework.cluster import Cluster
from kframework.cluster.memory import MemoryCluster
from kframework.config import parse
from kframework.objects import Event, Pod
from kframework.process import Process
from kframework.registry import Registry
from kframework.run import dry, without_binding
from kframework.testing import make_node, make_pod
from tests.extension_points.scripted import alone, plugin

EXTENDED = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
extenders: [{urlPrefix: "http://extender", filterVerb: filter, bindVerb: bind}]
"""


def test_a_dry_run_asks_nobody_to_act() -> None:
    journal: list[str] = []
    acting = plugin("Acting", reserve=None, pre_bind=None, bind=None, post_bind=None, journal=journal)
    events: list[Event] = []

    async def main() -> None:
        clock = LoopClock(asyncio.get_running_loop())
        cluster = MemoryCluster(clock, [make_node("a"), make_pod()])

        @asynccontextmanager
        async def connect() -> AsyncIterator[Cluster]:
            yield cluster

        process = Process(
            without_binding(parse(alone(acting))),
            clock,
            dry(connect, clock, events.append),
            identity="me",
            registry=Registry.of(acting),
        )
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(process.run)
            await asyncio.sleep(60.0)
            process.stop()
        assert cluster.read(Pod, "pod", "default").spec.node_name == ""

    run_virtual(main)
    assert journal == ["Acting.reserve"]
    assert [event.note for event in events] == ["Successfully assigned default/pod to a"]


def test_a_dry_run_has_no_election_and_no_extender_that_binds() -> None:
    settings = without_binding(parse(EXTENDED)).settings
    (extender,) = settings.extenders
    assert (extender.filter_verb, extender.bind_verb) == ("filter", "")
    assert not settings.leader_election.leader_elect
