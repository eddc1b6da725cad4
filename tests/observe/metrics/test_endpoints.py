"""The metrics over HTTP: complete, in Prometheus' format, and never in the scheduler's way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import anyio
import pytest
from prometheus_client import REGISTRY, Counter

from kframework.clock import SystemClock
from kframework.config.configuration import Configuration
from kframework.config.load import default_configuration, parse
from kframework.in_memory.cluster import MemoryCluster
from kframework.objects import ApiObject
from kframework.observe.metrics.attempts import TIMED_SHARE
from kframework.observe.metrics.endpoints import metrics_routes
from kframework.observe.metrics.metrics import Metrics
from kframework.process.http.endpoints import Listener, health_routes, serve
from kframework.process.http.health import PING
from kframework.scheduler.scheduler import Scheduler
from kframework.testing import make_node, make_pod
from tests.observe.metrics.exposition import samples

ALONE = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection:
  leaderElect: false
"""
CLUSTER = (make_node("a"), make_pod("small"), make_pod("big", cpu=99))

# Plugins are looked for and imported once; that blocks the loop, so it happens before there is one.
Scheduler(default_configuration(), MemoryCluster(SystemClock()), SystemClock())


class Served:
    """A running scheduler, and who asks for its metrics."""

    def __init__(self, url: str, session: aiohttp.ClientSession, metrics: Metrics, scheduler: Scheduler) -> None:
        self.url = url
        self.session = session
        self.metrics = metrics
        self.scheduler = scheduler

    async def get(self, path: str, **headers: str) -> str:
        async with self.session.get(self.url + path, headers=headers) as response:
            assert response.status == 200
            assert response.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
            return await response.text()

    async def samples(self, path: str = "/metrics") -> dict[str, float]:
        return samples(await self.get(path))

    async def reset(self, path: str = "/metrics") -> str:
        async with self.session.delete(self.url + path) as response:
            return await response.text()


@asynccontextmanager
async def served(
    *objects: ApiObject, configuration: Configuration | None = None, standing_by: bool = False
) -> AsyncIterator[Served]:
    """Run a scheduler until its pods have been tried, and serve its metrics."""
    metrics, clock = Metrics(), SystemClock()
    scheduler = Scheduler(
        configuration or default_configuration(),
        MemoryCluster(clock, objects or CLUSTER),
        clock,
        observers=[metrics.attempts],
        timed_share=TIMED_SHARE,
    )
    idle = asyncio.Event()
    scheduler.on_idle = lambda: idle.set() if scheduler.is_idle or scheduler.standing_by else None
    if standing_by:
        scheduler.stand_by()
    routes = [
        *metrics_routes(scheduler, metrics.attach(scheduler.engine), metrics.health),
        *health_routes("livez", [PING], metrics.health.count_check),
    ]
    async with (
        serve(routes, Listener(port=0)) as url,
        aiohttp.ClientSession() as session,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(scheduler.run)
        await idle.wait()
        yield Served(url, session, metrics, scheduler)
        tasks.cancel_scope.cancel()


async def test_metrics_endpoint_shows_attempts_queue_process_and_build() -> None:
    async with served() as scheduler:
        shown = await scheduler.samples()
    assert shown['scheduler_schedule_attempts_total{profile="default-scheduler",result="scheduled"}'] == 1
    assert shown['scheduler_pending_pods{queue="unschedulable"}'] == 1
    assert shown["process_resident_memory_bytes"] > 0
    assert [value for name, value in shown.items() if name.startswith("kubernetes_build_info")] == [1]


@pytest.mark.parametrize(("minor", "stability"), [("1.36", "ALPHA"), ("1.37", "BETA")])
async def test_metrics_endpoint_shows_the_metrics_of_the_emulated_minor(minor: str, stability: str) -> None:
    emulated = parse(f"apiVersion: kframework.dev/v1\nkind: KFrameworkConfiguration\nemulatedVersion: '{minor}'\n")
    async with served(configuration=emulated) as scheduler:
        shown = await scheduler.get("/metrics")
    assert f"# HELP scheduler_scheduling_algorithm_duration_seconds [{stability}] " in shown
    assert ("scheduler_queued_entities" in shown) == (minor == "1.37")
    assert f'minor="{minor.removeprefix("1.")}"' in shown


@pytest.mark.tool("promtool")
@pytest.mark.parametrize("path", ["/metrics", "/metrics/resources", "/metrics/slis"])
async def test_metrics_pass_promtool(path: str) -> None:
    async with served() as scheduler:
        await scheduler.session.get(f"{scheduler.url}/livez")
        requests = scheduler.metrics.requests
        requests.requests[0, "GET", "10.0.0.1:6443"] += 1
        requests.durations["GET", "10.0.0.1:6443"].observe(7)
        requests.sent["GET", "10.0.0.1:6443"].observe(7)
        requests.received["GET", "10.0.0.1:6443"].observe(70)
        text = await scheduler.get(path)
    check = await anyio.run_process(["promtool", "check", "metrics"], input=text.encode(), check=False)
    assert (check.returncode, check.stdout, check.stderr) == (0, b"", b"")


async def test_metrics_registered_by_plugins_are_shown() -> None:
    counter = Counter("seen_by_a_plugin", "Counted with prometheus-client.")
    try:
        counter.inc(3)
        async with served() as scheduler:
            assert (await scheduler.samples())["seen_by_a_plugin_total"] == 3
    finally:
        REGISTRY.unregister(counter)


async def test_metrics_response_can_be_compressed() -> None:
    async with served() as scheduler:
        assert "scheduler_pending_pods" in await scheduler.get("/metrics", **{"Accept-Encoding": "gzip"})


@pytest.mark.parametrize(("standing_by", "leads"), [(False, 1), (True, 0)])
async def test_leader_election_metric_shows_the_leader(standing_by: bool, leads: int) -> None:
    async with served(standing_by=standing_by) as scheduler:
        assert (await scheduler.samples())['leader_election_master_status{name="kube-scheduler"}'] == leads


async def test_leader_election_metric_is_absent_without_election() -> None:
    async with served(configuration=parse(ALONE)) as scheduler:
        assert "leader_election_master_status" not in await scheduler.get("/metrics")


async def test_delete_request_resets_metrics() -> None:
    async with served() as scheduler:
        assert await scheduler.reset() == "metrics reset\n"
        shown = await scheduler.samples()
    assert [name for name in shown if name.startswith("scheduler_schedule_attempts_total")] == []
    assert shown["scheduler_scheduling_algorithm_duration_seconds_count"] == 0
    assert shown['scheduler_queue_incoming_pods_total{event="UnscheduledPodAdd",queue="active"}'] == 0
    # What a gauge shows is still so.
    assert shown['scheduler_pending_pods{queue="unschedulable"}'] == 1


async def test_pod_resources_have_their_own_endpoint() -> None:
    async with served() as scheduler:
        shown = await scheduler.samples("/metrics/resources")
        assert {name.partition("{")[0] for name in shown} == {"kube_pod_resource_request"}
        assert len(shown) == 4
        assert await scheduler.reset("/metrics/resources") == "metrics reset\n"
        assert await scheduler.samples("/metrics/resources") == shown
        assert "kube_pod_resource" not in await scheduler.get("/metrics")


async def test_standby_replica_reports_no_pod_resources() -> None:
    async with served(standing_by=True) as scheduler:
        assert await scheduler.get("/metrics/resources") == ""


async def test_health_checks_are_counted_until_a_reset() -> None:
    async with served() as scheduler:
        for _ in range(2):
            await scheduler.session.get(f"{scheduler.url}/livez")
        await scheduler.session.get(f"{scheduler.url}/livez/ping")
        total = 'kubernetes_healthchecks_total{name="ping",status="success",type="livez"}'
        assert await scheduler.samples("/metrics/slis") == {
            'kubernetes_healthcheck{name="ping",type="livez"}': 1,
            total: 2,
        }
        await scheduler.reset("/metrics/slis")
        assert total not in await scheduler.samples("/metrics/slis")


@pytest.mark.slow
async def test_metrics_response_yields_to_other_tasks_and_can_be_aborted(caplog: pytest.LogCaptureFixture) -> None:
    """Thousands of pods are shown piece by piece; a client that leaves meanwhile does not disturb others."""
    pods = [make_pod(f"pod-{number}", node_name="a") for number in range(20_000)]
    async with served(make_node("a"), *pods) as scheduler:
        turns = 0

        async def count() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(count)
            assert len(await scheduler.samples("/metrics/resources")) == 40_000
            assert turns > 10
            response = await scheduler.session.get(f"{scheduler.url}/metrics/resources")
            response.close()
            assert (await scheduler.samples())['scheduler_cache_size{type="pods"}'] == 20_000
            tasks.cancel_scope.cancel()
    assert caplog.messages == []
