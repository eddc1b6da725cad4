"""A cluster in this process runs while it is in use."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from kframework.client.transport import Request
from kframework.clock import LoopClock, run_virtual
from kframework.errors import ConfigError
from kframework.fake_api.embedded_server import InProcessTransport
from kframework.fake_api.http_server import ServerOptions, run_cluster, serve_until_signal
from kframework.objects import Pod, kind_of
from kframework.objects.codec import decode
from kframework.objects.manifest import Manifest
from kframework.testing import make_node, make_pod


def test_pods_run_while_the_cluster_runs() -> None:
    places: list[Path] = []

    async def main() -> None:
        clock = LoopClock(asyncio.get_running_loop())
        pod = make_pod(node_name="a", annotations={"kframework.dev/run-seconds": "60"})
        async with run_cluster(Manifest([make_node("a"), pod]), clock, ServerOptions(), places.append) as local:
            assert places[0].exists()
            await asyncio.sleep(59.0)
            assert await phase(InProcessTransport(local.server)) == "Running"
            await asyncio.sleep(2.0)
            assert await phase(InProcessTransport(local.server)) == "Succeeded"

    run_virtual(main)
    assert not places[0].exists()


async def phase(transport: InProcessTransport) -> str:
    answer = await transport.send(Request(method="GET", path="/api/v1/namespaces/default/pods/pod"))
    return decode(answer.body, kind_of(Pod)).status.phase


def test_signal_ends_the_cluster() -> None:
    places: list[Path] = []

    def say_where(kubeconfig: Path) -> None:
        places.append(kubeconfig)
        os.kill(os.getpid(), signal.SIGTERM)

    asyncio.run(serve_until_signal(Manifest(), ServerOptions(), say_where))
    assert not places[0].exists()


def test_unreachable_cluster_does_not_start() -> None:
    with pytest.raises(ConfigError, match="cannot listen on"):
        asyncio.run(serve_until_signal(Manifest(), ServerOptions(bind_address="192.0.2.1"), lambda kubeconfig: None))
