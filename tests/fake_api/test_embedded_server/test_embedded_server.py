"""A process schedules on a cluster of its own."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from kframework.clock import LoopClock, run_virtual
from kframework.config.load import default_configuration
from kframework.fake_api.embedded_server import EmbeddedServer
from kframework.fake_api.http_server import ServerOptions
from kframework.objects import WorkloadPodTemplate
from kframework.objects.manifest import Manifest
from kframework.process.observers import PodObservers
from kframework.process.process import Process
from kframework.testing import make_node, make_pod
from tests.in_memory.workloads.workload_cluster import stateful_set, template
from tests.support.bound_pods import StopAfterBindings


@pytest.mark.slow
@pytest.mark.parametrize(
    ("controllers", "pods"),
    [(["*"], {"default/pod", "default/two", "default/web-0"}), ([], {"default/pod", "default/two"})],
)
def test_scheduler_runs_on_an_embedded_server(controllers: list[str], pods: set[str]) -> None:
    until, places = StopAfterBindings(len(pods)), list[Path]()
    web = stateful_set(
        1, template=WorkloadPodTemplate(metadata=template().metadata, spec={"containers": [{"name": "a"}]})
    )

    async def main() -> None:
        clock = LoopClock(asyncio.get_running_loop())
        manifest = Manifest([make_node("a"), make_pod(), make_pod("two"), web])
        server = EmbeddedServer(manifest, clock, ServerOptions(), places.append, controllers)
        until.process = Process(default_configuration(), server, clock, observers=PodObservers(until))
        await until.process.run()

    run_virtual(main)
    assert until.nodes == dict.fromkeys(pods, "a")
    assert len(places) == 1
