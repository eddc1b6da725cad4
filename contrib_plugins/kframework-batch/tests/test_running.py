"""What `kframework batch run` runs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.request import urlopen

import anyio
import pytest
from kframework_batch.config import parse
from kframework_batch.program import ConfigurationFile, compile_program, core_registry
from kframework_batch.running import BatchObservers, controller_task, reload_task
from kframework_batch.settings import ProgramSettings
from kframework_batch.testing import make_gang, make_queue

from kframework.client.cluster import Cluster
from kframework.client.missing_rights import MissingRights
from kframework.client.transport import WriteFence
from kframework.clock import LoopClock, SystemClock, run_virtual
from kframework.core.cycle.records import Binding, Decision
from kframework.fake_api.embedded_server import EmbeddedServer
from kframework.fake_api.http_server import ServerOptions
from kframework.in_memory.cluster import MemoryCluster
from kframework.objects import Event, Pod
from kframework.objects.manifest import Manifest, read
from kframework.process.http.endpoints import Listener
from kframework.process.observers import Observers
from kframework.process.process import Process
from kframework.process.servers import Connect
from kframework.testing import make_node

CONFIG = "actions: %s\ntiers: [{plugins: [{name: gang}, {name: predicates}, {name: nodeorder}]}]\n"

#: What binds all for which there is room, and what does nothing.
WORK, IDLE = '"enqueue, allocate"', "shuffle"


def settings(actions: str) -> ProgramSettings:
    return ProgramSettings(compile_program(parse(CONFIG % actions)))


class InMemory:
    """A server that is a cluster in memory."""

    elect: Connect | None = None

    def __init__(self, cluster: MemoryCluster) -> None:
        self.fence = WriteFence()
        self.rights = MissingRights(SystemClock())
        self._cluster = cluster

    @asynccontextmanager
    async def schedule(self) -> AsyncIterator[Cluster]:
        """Yield the cluster."""
        yield self._cluster


class Until:
    """Runs a callback when `count` pods are bound."""

    def __init__(self, pods: int) -> None:
        self.reached: Callable[[], None] = lambda: None
        self.bound_pods: list[str] = []
        self._pods = pods

    def on_decision(self, decision: Decision) -> None:
        """Take no notice."""

    def on_binding(self, binding: Binding) -> None:
        """Count it."""
        self.bound_pods.append(binding.pod)
        if len(self.bound_pods) == self._pods:
            self.reached()


@pytest.mark.slow
def test_jobs_of_an_embedded_server_become_scheduled_pods() -> None:
    example = Path(__file__).parents[1] / "examples" / "training.yaml"
    until, of = Until(5), settings(WORK)

    async def main() -> None:
        clock = LoopClock(asyncio.get_running_loop())
        server = EmbeddedServer(Manifest(read([str(example)]).objects), clock, ServerOptions(), lambda path: None)
        process = Process(
            of.configuration,
            server,
            clock,
            registry=core_registry(),
            observers=Observers(until, engine=of.engine_factory()),
            companions=map(controller_task, of.controller_factories()),
        )
        until.reached = process.stop
        await process.run()

    run_virtual(main)
    assert "default/notebook" in until.bound_pods
    of_jobs = [pod.removeprefix("default/") for pod in until.bound_pods if pod != "default/notebook"]
    assert len(of_jobs) >= 4
    assert len({pod.partition("-")[0] for pod in of_jobs}) == 1, "there is room for one of the two gangs"


def test_dry_run_writes_nothing_and_reports() -> None:
    events: list[Event] = []
    of = settings(WORK)

    async def main() -> None:
        clock = LoopClock(asyncio.get_running_loop())
        group, pods = make_gang("gang", 1)
        cluster = MemoryCluster(clock, [make_node("a"), make_queue("default"), group, *pods])
        process = Process(
            of.configuration,
            InMemory(cluster),
            clock,
            registry=core_registry(),
            observers=Observers(engine=of.engine_factory()),
            report=events.append,
        )
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(process.run)
            await asyncio.sleep(5.0)
            process.stop()
        assert cluster.read(Pod, "gang-0", "default").spec.node_name == ""

    run_virtual(main)
    assert [event.note for event in events] == ["Successfully assigned default/gang-0 to a"]


def test_changed_configuration_is_used_from_the_next_session(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "scheduler.conf"
    file.write_text(CONFIG % IDLE)
    told: list[str] = []

    async def main() -> None:
        clock = LoopClock(asyncio.get_running_loop())
        group, pods = make_gang("gang", 2)
        cluster = MemoryCluster(clock, [make_node("a"), make_queue("default"), group, *pods])
        followed = ConfigurationFile(file)
        of, until = ProgramSettings(followed.load()), Until(2)
        process = Process(
            of.configuration,
            InMemory(cluster),
            clock,
            registry=core_registry(),
            observers=Observers(until, engine=of.engine_factory()),
            companions=[reload_task(followed, told.append)],
        )
        until.reached = process.stop
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(process.run)
            await asyncio.sleep(5.0)
            assert until.bound_pods == []
            file.write_text(CONFIG % WORK + "nonsense: 1\n")

    run_virtual(main)
    assert told == ["using the changed configuration"]
    assert [record.message.rpartition(": ")[2] for record in caplog.records if record.levelname == "WARNING"] == [
        'unknown field "nonsense" is ignored'
    ]


def read_url(url: str) -> str:
    with urlopen(url) as answer:
        text: str = answer.read().decode()
        return text


def test_metrics_and_page_are_served() -> None:
    of, told = settings(WORK), list[str]()

    async def main() -> None:
        clock = SystemClock()
        group, pods = make_gang("gang", 2)
        cluster = MemoryCluster(clock, [make_node("a"), make_queue("default"), group, *pods])
        bound, until = asyncio.Event(), Until(2)
        until.reached = bound.set
        process = Process(
            of.configuration,
            InMemory(cluster),
            clock,
            registry=core_registry(),
            observers=BatchObservers(until, engine=of.engine_factory()),
            listener=Listener(port=0),
            log=told.append,
        )
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(process.run)
            await bound.wait()
            url = told[0].removeprefix("status page at ").split("/ ")[0]
            gang_view = "/view/details?kind=job&name=default/gang"
            metrics, resources, page, sections, gang = [
                await asyncio.to_thread(read_url, url + path)
                for path in ("/metrics", "/metrics/resources", "/", "/view/sections", gang_view)
            ]
            process.stop()
        assert 'scheduler_schedule_attempts_total{result="scheduled",profile="volcano"} 2' in metrics
        assert 'pod="gang-1"' in resources
        assert page.startswith("<!doctype html>")
        assert [section["title"] for section in json.loads(sections)] == ["Queues", "Jobs", "Sessions"]
        assert json.loads(gang)["sections"][0]["title"] == "Tasks of default/gang"

    asyncio.run(main())
