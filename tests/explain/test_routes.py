"""A running scheduler explains a pod over HTTP, and goes on scheduling between two slices."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Generator
from contextlib import asynccontextmanager
from typing import NamedTuple

import aiohttp
import anyio
import msgspec
import pytest

from kframework.clock import SystemClock
from kframework.config.load import default_configuration
from kframework.core.pod_engine import PodEngine
from kframework.core.runtime.profiles import load_plugins
from kframework.core.runtime.registry import Registry
from kframework.errors import ClusterError
from kframework.explain import explainer
from kframework.explain.explainer import explain_steps
from kframework.explain.explanation import Explanation
from kframework.explain.routes import explain_routes
from kframework.in_memory.cluster import MemoryCluster
from kframework.objects import ApiObject, Pod
from kframework.observe.history import History
from kframework.process.http.endpoints import Listener, serve
from kframework.scheduler import cooperative
from kframework.scheduler.scheduler import Scheduler
from kframework.state.pods import PodInfo
from kframework.testing import make_node, make_pod

PLUGINS = Registry.from_installed()
load_plugins(default_configuration(), PLUGINS)  # to import them later would block the loop


class Running(NamedTuple):
    """A scheduler at work, and a client of its port."""

    scheduler: Scheduler
    url: str
    session: aiohttp.ClientSession

    async def get(self, query: str) -> tuple[int, bytes, str | None]:
        async with self.session.get(f"{self.url}/explain{query}") as response:
            return response.status, await response.read(), response.headers.get("X-Content-Type-Options")

    async def explained(self, pod: str) -> Explanation:
        status, body, sniffing = await self.get(f"?pod={pod}")
        assert (status, sniffing) == (200, "nosniff"), body
        return msgspec.json.decode(body, type=Explanation)


@asynccontextmanager
async def running(*objects: ApiObject) -> AsyncIterator[Running]:
    clock, history = SystemClock(), History()
    cluster = MemoryCluster(clock, objects)
    scheduler = Scheduler(default_configuration(), cluster, clock, registry=PLUGINS, observers=[history])
    settled = asyncio.Event()
    scheduler.on_idle = lambda: settled.set() if scheduler.is_idle else None
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(scheduler.run)
        await settled.wait()
        async with (
            serve(explain_routes(scheduler, history), Listener(port=0)) as url,
            aiohttp.ClientSession() as session,
        ):
            yield Running(scheduler, url, session)
        tasks.cancel_scope.cancel()


OBJECTS = (
    make_node("n1", cpu=1),
    make_pod("first", cpu=1, priority=5),
    make_pod("second", cpu=1),
    make_pod("foreign", scheduler_name="another"),
)


async def test_pending_pod_is_explained_without_an_api_request(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(*OBJECTS) as run:
        monkeypatch.setattr(run.scheduler.api, "get", None)
        found = await run.explained("default/second")
    assert found.assessment.reasons == {"Insufficient cpu": 1}
    assert found.last_decision is not None and found.last_decision.reasons == found.assessment.reasons
    assert found.remedies


async def test_bound_pod_is_explained_with_its_object_from_the_api(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    async with running(*OBJECTS) as run:
        get = run.scheduler.api.get

        async def noted(kind: type[Pod], name: str, namespace: str = "") -> Pod:
            asked.append(f"{kind.__name__} {namespace}/{name}")
            return await get(kind, name, namespace)

        monkeypatch.setattr(run.scheduler.api, "get", noted)
        found = await run.explained("default/first")
    assert (found.node, found.assessment.feasible) == ("n1", 1)
    assert asked == ["Pod default/first"]


async def test_explanation_succeeds_if_the_api_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(*arguments: object) -> Pod:
        raise ClusterError("down", status=503)

    async with running(*OBJECTS) as run:
        monkeypatch.setattr(run.scheduler.api, "get", refuse)
        assert (await run.explained("default/first")).node == "n1"


async def test_explanation_of_a_standby_replica_has_a_note() -> None:
    async with running(*OBJECTS) as run:
        run.scheduler.stand_by()
        found = await run.explained("default/second")
    assert found.notes == ("this scheduler is on standby while another replica leads",)


@pytest.mark.parametrize(
    ("query", "status", "error"),
    [
        ("?pod=default/absent", 404, "there is no pod default/absent"),
        (
            "?pod=default/foreign",
            404,
            "pod default/foreign is for the scheduler 'another'; this one schedules for default-scheduler",
        ),
        ("?pod=second", 400, "name a pod: /explain?pod=NAMESPACE/NAME"),
        ("", 400, "name a pod: /explain?pod=NAMESPACE/NAME"),
    ],
)
async def test_request_that_cannot_be_explained_is_answered_with_an_error(query: str, status: int, error: str) -> None:
    async with running(*OBJECTS) as run:
        assert (await run.get(query))[:2] == (status, msgspec.json.encode({"error": error}))


async def test_other_tasks_run_between_two_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cooperative, "SLICE", 0.0)
    async with running(*OBJECTS) as run:
        asked = asyncio.create_task(run.explained("default/second"))
        turns = 0
        while not asked.done():
            assert not run.scheduler.engine.cluster.statements
            await asyncio.sleep(0)
            turns += 1
        assert turns > 20
        await asked


async def test_explanations_are_computed_one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cooperative, "SLICE", 0.0)
    in_progress: list[int] = []

    def noted(
        engine: PodEngine, history: History, pod: PodInfo, whole: Pod | None
    ) -> Generator[None, None, Explanation]:
        in_progress.append(1)
        found = yield from explain_steps(engine, history, pod, whole)
        in_progress.append(-1)
        return found

    monkeypatch.setattr(explainer, "explain_steps", noted)
    async with running(*OBJECTS) as run:
        await asyncio.gather(*(run.explained("default/second") for _ in range(3)))
    assert in_progress == [1, -1] * 3
