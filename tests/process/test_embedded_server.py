"""A process schedules on a cluster of its own."""

from __future__ import annotations

import asyncio
from pathlib import Path

from kframework.apiserver.published import Publication
from kframework.clock import LoopClock, run_virtual
from kframework.config.load import default_configuration
from kframework.objects.manifest import Manifest
from kframework.process.embedded_server import EmbeddedServer
from kframework.process.observers import PodObservers
from kframework.process.process import Process
from kframework.testing import make_node, make_pod
from tests.support.bound_pods import Until


def test_an_embedded_server_is_scheduled_on() -> None:
    until, places = Until(2), list[Path]()

    async def main() -> None:
        clock = LoopClock(asyncio.get_running_loop())
        server = EmbeddedServer(
            Manifest([make_node("a"), make_pod(), make_pod("two")]), clock, Publication(), places.append
        )
        until.process = Process(default_configuration(), server, clock, observers=PodObservers(until))
        await until.process.run()

    run_virtual(main)
    assert until.nodes == {"default/pod": "a", "default/two": "a"}
    assert len(places) == 1
