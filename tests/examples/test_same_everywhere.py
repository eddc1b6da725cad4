"""The examples decide alike in a simulation, in a replay of it, and against an API server over HTTP in real time.

What is compared is what a user goes by: where each pod is in the end, why one that waits does so, and the last attempt
at each pod (its result, node, scores and reasons). Priorities say in which order pods are tried first. What cannot be
compared is how often and when they were tried, as in real time events come when they come, and backoffs and polls take
their time; what virtual time does at one moment, as to end two waits, real time does in some order.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from random import Random
from threading import Thread
from typing import Any, NamedTuple

import anyio
import pytest
import yaml
from measured_load.server import LoadServer
from node_policy import NodePolicy
from quota.service import QuotaService

from kframework.cli import main
from kframework.client.kube import ConnectionSettings, connect
from kframework.client.kube_cluster import KubeCluster
from kframework.clock import SystemClock
from kframework.config.load import load_configuration
from kframework.core.cycle.records import Binding, Decision, Observer
from kframework.fake_api.http_server import ServerOptions, publish
from kframework.fake_api.local_cluster import LocalCluster
from kframework.in_memory.cluster import MemoryCluster
from kframework.objects import Pod
from kframework.objects.manifest import Manifest
from kframework.observe.recording.pod_engine import recording_pod_engine_factory
from kframework.observe.recording.replay import replay
from kframework.observe.recording.writer import Recorder
from kframework.scheduler.scheduler import Scheduler
from kframework.simulation.inputs import read_cluster
from kframework.simulation.simulation import Simulation
from tests.support.rights import Authorizer

#: How long the pods may take in real time, on a busy machine, in seconds.
DEADLINE = 40.0

#: Polls and timeouts are short: they pass in real time too, where the group that is not complete waits for its end.
ARGS = {
    "Quota": "{url: '%s', everySeconds: 0.5}",
    "MeasuredLoad": "{url: '%s', most: 0.8}",
    "NodePolicies": "{}",
    "Together": "{timeoutSeconds: 2}",
}

CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {{leaderElect: false}}
profiles:
  - plugins: {{multiPoint: {{enabled: [{{name: {plugin}, weight: 5}}]}}}}
    pluginConfig: [{{name: {plugin}, args: {args}}}]
"""

NODES = """
apiVersion: v1
kind: NodeList
items:
  - metadata: {name: a, labels: {name: a, licence: "yes"}}
    status: {allocatable: {cpu: "16", memory: 16Gi, pods: "110"}}
  - metadata: {name: b, labels: {name: b}}
    status: {allocatable: {cpu: "8", memory: 8Gi, pods: "110"}}
"""

POLICY = """
---
apiVersion: policy.example.com/v1
kind: NodePolicy
metadata: {name: licensed}
spec: {nodeSelector: {licence: "yes"}, namespaces: [solvers], maxPods: 1}
"""


#: Where pods are, None where they wait, and why.
Ends = dict[str, tuple[str | None, str]]

#: A manifest.
Json = dict[str, Any]


class World(NamedTuple):
    """A cluster for a plugin: its pods, the most important first, and what shall become of them, with part of why."""

    plugin: str
    pods: tuple[Json, ...]
    ends: Ends
    service: Callable[[], QuotaService | LoadServer] | None = None
    objects: str = ""


def pod(
    name: str, namespace: str = "default", labels: dict[str, str] | None = None, node: str = "", cpu: str = "1"
) -> Json:
    container = {"name": "main", "image": "app", "resources": {"requests": {"cpu": cpu}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": labels or {}},
        "spec": {"containers": [container], "nodeSelector": {"name": node} if node else {}},
    }


def member(name: str, group: str) -> Json:
    return pod(name, labels={"together.example.com/group": group, "together.example.com/size": "3"})


WORLDS = [
    World(
        "Quota",
        (pod("web-0"), pod("web-1"), pod("web-2"), pod("api", "team")),
        service=lambda: QuotaService({"default": 2000, "team": 1000}),
        ends={
            "default/web-0": ("a", ""),
            "default/web-1": ("a", ""),
            "default/web-2": (None, "quota of default: 0m of cpu are free"),
            "team/api": ("b", ""),
        },
    ),
    World(
        "MeasuredLoad",
        (pod("web"), pod("large", cpu="12"), pod("tied", node="a")),
        service=lambda: LoadServer({"a": 0.95, "b": 0.2}),
        ends={
            "default/web": ("b", ""),
            "default/large": (None, "1 Insufficient cpu, 1 node(s) were more than 80% busy"),
            "default/tied": (None, "1 node(s) were more than 80% busy"),
        },
    ),
    World(
        "NodePolicies",
        (pod("solve-0", "solvers", node="a"), pod("solve-1", "solvers", node="a"), pod("tied", node="a"), pod("web")),
        objects=POLICY,
        ends={
            "solvers/solve-0": ("a", ""),
            "solvers/solve-1": (None, "1 node(s) have all 1 pods that policy licensed allows"),
            "default/tied": (None, "1 node(s) are not for namespace default by policy licensed"),
            "default/web": ("b", ""),
        },
    ),
    World(
        "Together",
        (*(member(f"whole-{i}", "whole") for i in range(3)), member("lonely", "half")),
        ends={
            "default/whole-0": ("a", ""),
            "default/whole-1": ("a", ""),
            "default/whole-2": ("b", ""),
            "default/lonely": (None, "timeout after waiting 2s at plugin Together"),
        },
    ),
]


class Files(NamedTuple):
    """A world as a user has it."""

    cluster: str
    config: str

    @classmethod
    def of(cls, world: World, url: str, folder: Path) -> Files:
        """Write them."""
        pods = [{**each, "spec": {**each["spec"], "priority": -place}} for place, each in enumerate(world.pods)]
        cluster, config = folder / "cluster.yaml", folder / "config.yaml"
        cluster.write_text(f"{NODES}{world.objects}---\n{yaml.safe_dump_all(pods)}")
        args = ARGS[world.plugin]
        config.write_text(CONFIG.format(plugin=world.plugin, args=args % url if "%s" in args else args))
        return cls(str(cluster), str(config))

    def objects(self) -> Manifest:
        return read_cluster([self.cluster], load_configuration(self.config), strict=True)


@contextmanager
def start_services(world: World) -> Iterator[str]:
    """Let what is outside run, and say where."""
    if world.service is None:
        yield ""
        return
    with world.service() as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server.url
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def expect_no_requests(url: str) -> Iterator[None]:
    """Listen where the service was, and check that no client connects."""
    with socket.create_server(("127.0.0.1", int(url.rpartition(":")[2]))) as listener:
        yield
        listener.setblocking(False)
        with pytest.raises(BlockingIOError):
            listener.accept()


class Attempts(Observer):
    """Keeps the last attempt at each pod, without what depends on when it was."""

    def __init__(self) -> None:
        self.last: dict[str, tuple[object, ...]] = {}

    def on_decision(self, decision: Decision) -> None:
        """Note an attempt."""
        d = decision
        self.last[d.pod] = (d.result, d.node, d.score, d.best_nodes, d.reasons, d.rejectors, d.message)

    def on_binding(self, binding: Binding) -> None:
        """Take no notice: where the pods are says it."""


def is_as_expected(expected: Ends, ends: Ends) -> bool:
    """Return whether the pods ended as expected."""
    return expected.keys() == ends.keys() and all(
        ends[name][0] == node and why in ends[name][1] and bool(why) == bool(ends[name][1])
        for name, (node, why) in expected.items()
    )


def outcomes_of(pods: Iterable[Pod]) -> Ends:
    """Say where the pods are, and why not."""
    ends: Ends = {}
    for each in pods:
        why = [c.message for c in each.status.conditions if c.type == "PodScheduled" and c.status == "False"]
        key = f"{each.metadata.namespace}/{each.metadata.name}"
        ends[key] = (each.spec.node_name or None, "" if each.spec.node_name else "".join(why))
    return ends


async def run_over_http(files: Files, rights: Authorizer, attempts: Attempts, expected: Ends) -> MemoryCluster:
    """Schedule until the pods ended as expected, or until that takes too long."""
    clock = SystemClock()
    local = LocalCluster(clock, files.objects())
    async with publish(local.server, ServerOptions()) as kubeconfig:
        rights.server = await connect(ConnectionSettings(kubeconfig=str(kubeconfig)))
        cluster = KubeCluster(rights, clock, random=Random(0))
        scheduler = Scheduler(load_configuration(files.config), cluster, clock, observers=[attempts])
        over = asyncio.Event()

        def look(*_: object) -> None:
            if scheduler.is_idle and outcomes_of(local.memory.objects(Pod)) == expected:
                over.set()

        scheduler.on_idle = look
        local.memory.subscribe([Pod], look)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(local.run)
            tasks.start_soon(scheduler.run)
            with anyio.move_on_after(DEADLINE):
                await over.wait()
            scheduler.stop()
            tasks.cancel_scope.cancel()
        await rights.close()
    return local.memory


def printed_rights(files: Files, capsys: pytest.CaptureFixture[str]) -> Authorizer:
    """Return what holds a scheduler to the rights that `kframework rbac` prints."""
    capsys.readouterr()
    with pytest.raises(SystemExit):
        main(["rbac", "--config", files.config])
    return Authorizer(list(yaml.safe_load_all(capsys.readouterr().out)), ("kube-system", "kframework"))


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.plugin)
def test_example_decides_alike_in_every_environment(
    world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    simulated, recorder = Attempts(), Recorder(tmp_path / "recording")
    with start_services(world) as url:
        files = Files.of(world, url, tmp_path)
        observers = [simulated, recorder]
        with Simulation(
            files.objects().objects,
            load_configuration(files.config),
            engine=recording_pod_engine_factory(recorder),
            observers=observers,
        ) as simulation:
            result = simulation.run().result
        recorder.close()
    ends: Ends = {outcome.pod: (outcome.node, outcome.message) for outcome in result.outcomes}
    assert is_as_expected(world.ends, ends), ends

    with expect_no_requests(url) if url else nullcontext():
        replayed = replay(tmp_path / "recording")
    assert replayed.difference is None
    assert replayed.attempts == len(result.decisions)

    http_extender = Attempts()
    with start_services(world) as url:
        files = Files.of(world, url, tmp_path)
        rights = printed_rights(files, capsys)
        memory = asyncio.run(run_over_http(files, rights, http_extender, ends))
    assert outcomes_of(memory.objects(Pod)) == ends
    assert http_extender.last == simulated.last
    assert rights.refused == []
    if world.objects:
        assert memory.read(NodePolicy, "licensed").status.pods == 1
        assert ("", "policy.example.com", "nodepolicies/status", "patch", ()) in rights.used
