"""A scheduler is reloaded under load, over HTTP: no pod is lost, bound twice, or decided by half a configuration."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random

import anyio
import pytest

from kframework.client.kube import ConnectionSettings
from kframework.clock import SystemClock
from kframework.config.load import load_configuration
from kframework.core.cycle.records import Binding, Decision
from kframework.objects import Event, Pod
from kframework.observe.recording.pod_engine import recording_pod_engine_factory
from kframework.observe.recording.replay import replay
from kframework.observe.recording.writer import Recorder
from kframework.process import followed_files
from kframework.process.followed_files import FollowedFile
from kframework.process.observers import PodObservers
from kframework.process.process import Process
from kframework.process.reload import FollowedConfiguration
from kframework.process.servers import RealServer
from kframework.testing import make_node, make_pod
from kframework.testing.api_server import FakeApi
from kframework.values.status import Code
from tests.support.reloads import REGISTRY, document, plugins, profile

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300), pytest.mark.blocks_loop]

NODES = "abcd"

PODS, RELOADS = 2_000, 20

#: Pods that arrive at once, and the seconds between two such arrivals.
BATCH, PAUSE = 20, 0.05

SETTINGS = "leaderElection: {leaderElect: false}\nclientConnection: {qps: -1}"

#: What cannot be taken.
BAD = (
    "profiles: [",
    document(profile(plugin="Missing"), settings=SETTINGS),
    document(profile(), settings=SETTINGS, options="seed: 3"),
    document(profile(fails=True), settings=SETTINGS),
    document(profile(node="a"), settings=SETTINGS)[:-60],  # half of a file that is being written
)


def good(number: int) -> str:
    """Return a configuration that allows one node, known by its number; with every third, pods wait on Permit."""
    rule = profile(node=NODES[number % len(NODES)], holds=number % 3 == 0)
    return document(rule, settings=f"{SETTINGS}\npodMaxBackoffSeconds: {number + 10}")


class Load:
    """A process that follows a file, on a cluster in which pods arrive while the file changes."""

    def __init__(self, api: FakeApi, folder: Path) -> None:
        self.api = api
        self.file = folder / "scheduler.yaml"
        self.texts = [good(number) for number in range(2, RELOADS - len(BAD) + 2)]
        for position, text in zip(range(1, 4 * len(BAD), 3), BAD, strict=False):
            self.texts.insert(position, text)
        self.file.write_text(good(1))
        self.recorder = Recorder(folder / "recording")
        self.decisions: list[Decision] = []
        self.bindings: list[Binding] = []
        self.happened = asyncio.Event()
        configuration, clock = load_configuration(self.file), SystemClock()
        self.observers = PodObservers(self.recorder, self, engine=recording_pod_engine_factory(self.recorder))
        server = RealServer(ConnectionSettings(kubeconfig=str(api.kubeconfig)), configuration, clock)
        file = FollowedFile(self.file)
        followed = FollowedConfiguration(lambda plugins: load_configuration(self.file), plugins, file)
        self.process = Process(
            configuration, server, clock, observers=self.observers, registry=REGISTRY, followed=followed
        )

    def on_decision(self, decision: Decision) -> None:
        self.decisions.append(decision)
        self.happened.set()

    def on_binding(self, binding: Binding) -> None:
        self.bindings.append(binding)
        self.happened.set()

    async def run(self) -> None:
        """Run the process until all pods are bound and everything is written."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self.process.run)
            async with anyio.create_task_group() as work:
                work.start_soon(self.allow)
                async with anyio.create_task_group() as changes:
                    changes.start_soon(self.arrive)
                    changes.start_soon(self.change)
                while sum(binding.code is Code.SUCCESS for binding in self.bindings) < PODS:
                    self.happened.clear()
                    await self.happened.wait()
                work.cancel_scope.cancel()
            self.process.stop()
        self.recorder.close()

    async def arrive(self) -> None:
        """Create pods, a few at a time."""
        for first in range(0, PODS, BATCH):
            batch = [make_pod(f"pod-{number}") for number in range(first, min(first + BATCH, PODS))]
            await asyncio.to_thread(self.api.add, *batch)
            await asyncio.sleep(PAUSE)

    async def change(self) -> None:
        """Replace the file, each time once what was written before is known to be good or bad."""
        for number, text in enumerate(self.texts, 1):
            self.file.write_text(text)
            while self.reloads < number:  # noqa: ASYNC110  # nothing tells of a count
                await asyncio.sleep(0.05)

    async def allow(self) -> None:
        """Let the pods go on that wait on Permit."""
        random = Random(0)
        while True:
            await asyncio.sleep(0.2)
            if hasattr(self.process, "scheduler"):
                for waiting in list(self.process.scheduler.engine.cluster.waiting.awaiting_permit()):
                    if random.random() < 0.5:
                        waiting.allow("Rule")

    @property
    def reloads(self) -> int:
        return sum(self.observers.metrics.reloads.counts.values())


async def test_reloads_under_load_lose_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(followed_files, "INTERVAL", 0.1)
    with FakeApi([make_node(name, cpu=10_000, memory="100Ti", pods=5_000) for name in NODES]) as api:
        load = Load(api, tmp_path)
        await load.run()
        bound = {pod.metadata.name: pod.spec.node_name for pod in api.objects(Pod)}
        events = Counter(each.reason for each in api.objects(Event))
    assert len(bound) == PODS and all(bound.values())
    assert Counter(each.uid for each in load.bindings if each.code is Code.SUCCESS).most_common(1)[0][1] == 1
    assert (events["ConfigurationTaken"], events["ConfigurationRefused"]) == (RELOADS - len(BAD), len(BAD))
    check_decisions(load.decisions, RELOADS - len(BAD) + 1)
    replayed = replay(tmp_path / "recording", REGISTRY)
    assert replayed.difference is None, str(replayed.difference)
    assert replayed.attempts == len(load.decisions)


def check_decisions(decisions: Sequence[Decision], configurations: int) -> None:
    """No attempt is missing, and each was decided by the one configuration whose number it has."""
    assert [each.attempt for each in decisions] == list(range(1, len(decisions) + 1))
    assert [each.configuration for each in decisions] == sorted(each.configuration for each in decisions)
    assert {each.configuration for each in decisions} <= set(range(1, configurations + 1))
    for each in decisions:
        assert each.node in ("", NODES[each.configuration % len(NODES)]), each
