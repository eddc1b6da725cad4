"""Plugins that ask servers and threads work in a simulation as they are; it repeats, however long the answers take."""

from __future__ import annotations

import asyncio
import time
from typing import ClassVar

import httpx
import pytest

from kframework.framework.cycle_state import CycleState
from kframework.framework.plugin import Plugin, hookimpl
from kframework.state.pods import PendingPod
from kframework.testing import Scenario, make_node, make_pod
from kframework.values.status import Status, error
from tests.support.slow_http_server import serve_slowly


class Suspendable(Plugin):
    """Asks a server when it starts and before each binding, and a thread in between; some pods fail at first."""

    name = "Asking"
    port: ClassVar[int]
    limit: ClassVar[float] = 5.0

    async def start(self) -> None:
        self._client = httpx.AsyncClient(base_url=f"http://127.0.0.1:{self.port}", timeout=self.limit)
        self._failed: set[str] = set()
        await self._client.get("/slow")

    async def close(self) -> None:
        await self._client.aclose()

    @hookimpl
    async def pre_bind(self, state: CycleState, pod: PendingPod, node_name: str) -> Status | None:
        try:
            await self._client.get("/never" if pod.name == "never" else "/slow")
        except httpx.ReadTimeout:
            return error("no answer")
        await asyncio.to_thread(time.sleep, 0.001)
        if pod.name.endswith("3") and pod.name not in self._failed:
            self._failed.add(pod.name)
            return error("not yet")
        return None


def scenario(*names: str) -> Scenario:
    return Scenario(
        nodes=[make_node(f"node-{number}", pods=6) for number in range(5)],
        pods=[make_pod(name) for name in names],
        plugins=[Suspendable],
    )


def test_runs_repeat_whatever_the_servers_delays() -> None:
    runs = []
    for seed in range(3):
        with serve_slowly(seed) as Suspendable.port:
            result = scenario(*(f"pod-{number}" for number in range(25))).run()
        decided = [(each.pod, each.node, each.result, each.popped_at) for each in result.decisions]
        bound = [(each.pod, each.node, each.code, each.started_at, each.ended_at) for each in result.bindings]
        runs.append((decided, bound))
    assert runs[0] == runs[1] == runs[2]
    assert len({pod for pod, *_ in runs[0][1]}) == 25


def test_server_that_does_not_answer_takes_the_authors_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Suspendable, "limit", 0.2)
    with serve_slowly() as Suspendable.port:
        result = scenario("never").run(until=0.5)
    binding = result.bindings[0]
    assert "no answer" in binding.message
    assert binding.ended_at - binding.started_at == pytest.approx(0.2)
