"""A cluster in this process is kept going while somebody needs it."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from kframework.client.transport import Request
from kframework.clock import LoopClock, run_virtual
from kframework.errors import ConfigError
from kframework.fake_api.embedded_server import InProcess
from kframework.fake_api.published import Publication, running, serve
from kframework.objects import Pod, kind_of
from kframework.objects.codec import decode
from kframework.objects.manifest import Manifest
from kframework.testing import make_node, make_pod


def test_pods_run_while_it_is_kept_going() -> None:
    places: list[Path] = []

    async def main() -> None:
        clock = LoopClock(asyncio.get_running_loop())
        pod = make_pod(node_name="a", annotations={"kframework.dev/run-seconds": "60"})
        async with running(Manifest([make_node("a"), pod]), clock, Publication(), places.append) as local:
            assert places[0].exists()
            await asyncio.sleep(59.0)
            assert await phase(InProcess(local.server)) == "Running"
            await asyncio.sleep(2.0)
            assert await phase(InProcess(local.server)) == "Succeeded"

    run_virtual(main)
    assert not places[0].exists()


async def phase(transport: InProcess) -> str:
    answer = await transport.send(Request(method="GET", path="/api/v1/namespaces/default/pods/pod"))
    return decode(answer.body, kind_of(Pod)).status.phase


def test_a_signal_ends_it() -> None:
    places: list[Path] = []

    def say_where(kubeconfig: Path) -> None:
        places.append(kubeconfig)
        os.kill(os.getpid(), signal.SIGTERM)

    asyncio.run(serve(Manifest(), Publication(), say_where))
    assert not places[0].exists()


def test_where_it_cannot_be_reached_it_does_not_begin() -> None:
    with pytest.raises(ConfigError, match="cannot listen on"):
        asyncio.run(serve(Manifest(), Publication(bind_address="192.0.2.1"), lambda kubeconfig: None))
