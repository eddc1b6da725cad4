"""A random run and all its output: stored objects, spans, metrics, explanations, recording, log."""

from __future__ import annotations

import asyncio
import gzip
import io
import json
import logging
import re
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import aiohttp
import anyio
import msgspec
from msgspec.structs import replace

from kframework import CycleState, PendingPod, Plugin, hookimpl
from kframework.cli.logs import json_line
from kframework.client.kube_cluster import KubeCluster
from kframework.clock import LoopClock, external_wait, run_virtual
from kframework.config.configuration import Configuration
from kframework.config.load import parse
from kframework.core.runtime.registry import Registry
from kframework.explain.routes import explain_routes
from kframework.fake_api.embedded_server import InProcessTransport
from kframework.fake_api.server import ApiServer
from kframework.in_memory.cluster import MemoryCluster
from kframework.in_memory.kubelet import Kubelet
from kframework.in_memory.volume_controller import VolumeController
from kframework.objects import Event, Pod
from kframework.observe.history import History
from kframework.observe.journal import Journal
from kframework.observe.metrics.attempts import TIMED_SHARE
from kframework.observe.metrics.endpoints import metrics_routes
from kframework.observe.metrics.metrics import Metrics
from kframework.observe.recording.pod_engine import recording_pod_engine_factory
from kframework.observe.recording.writer import Recorder
from kframework.observe.tracing.spans import Tracing
from kframework.process.http.endpoints import Listener, serve
from kframework.scheduler.scheduler import Scheduler
from kframework.testing import make_pod
from kframework.verbosity import V2, V5
from tests.cli.processes import MAIN
from tests.faults.disruptive_plugins import RandomPermit, SecondPermit
from tests.faults.run_settings import RunSettings
from tests.faults.world import World

__all__ = ["Json", "Labels", "RunOutput", "record_run"]

Json = dict[str, Any]

#: The labels of a series, sorted by name.
Labels = tuple[tuple[str, str], ...]

CONFIGURATION = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins:
    permit: {{enabled: [{{name: RandomPermit}}, {{name: SecondPermit}}]}}
    reserve: {{enabled: [{{name: Clumsy}}]}}
    preBind: {{enabled: [{{name: Clumsy}}]}}
---
apiVersion: kframework.dev/v1
kind: KFrameworkConfiguration
seed: {seed}
"""

#: Whose lines are read.
LOGGERS = {"kframework.observe.journal": V2, "kframework.core.queue.scheduling_queue": V5}

#: The pod whose explanation is asked for by the command; that of others is what the scheduler answers it.
TYPED = "huge"

#: How long all that was begun may take in the end, in seconds.
QUIET = 2.0


class FailingPlugin(Plugin):
    """Fails now and then, before a pod is assumed and after."""

    name = "Clumsy"

    @hookimpl
    def reserve(self, state: CycleState, pod: PendingPod, node_name: str) -> None:
        self._fail(pod, 0)

    @hookimpl
    def pre_bind(self, state: CycleState, pod: PendingPod, node_name: str) -> None:
        self._fail(pod, 1)

    def _fail(self, pod: PendingPod, kind: int) -> None:
        if self.handle.random.random() < 0.04:
            raise ValueError(f"dropped {pod.name} for the {['first', 'second'][kind]} time")


class RunOutput(NamedTuple):
    """What each of them says, as it was read back."""

    decisions: list[Json]
    bindings: list[Json]
    spans: list[Json]
    samples: dict[tuple[str, Labels], float]
    explanations: dict[str, Json]
    pods: list[Json]
    events: list[Json]
    log: list[Json]


def record_run(seed: int, folder: Path) -> RunOutput:
    """Let a world of this seed happen, stop, and read all accounts of it."""
    run = _Run(seed, folder)
    samples, explanations, pods, events = run_virtual(run.main)
    recorded = [json.loads(line) for line in gzip.decompress(run.recording.read_bytes()).splitlines()]
    lines = [json.loads(line) for line in run.trace.read_text().splitlines()]
    return RunOutput(
        decisions=[line["with"] for line in recorded if line.get("what") == "Decision"],
        bindings=[line["with"] for line in recorded if line.get("what") == "Binding"],
        spans=[span for line in lines for span in _spans(line)],
        samples=samples,
        explanations=explanations,
        pods=pods,
        events=events,
        log=[json.loads(line) for line in run.log.getvalue().splitlines()],
    )


class _Run:
    """One run."""

    def __init__(self, seed: int, folder: Path) -> None:
        self._seed = seed
        self.recording = folder / f"{seed}.jsonl.gz"
        self.trace = folder / f"{seed}.spans"
        self.log = io.StringIO()

    async def main(self) -> tuple[dict[tuple[str, Labels], float], dict[str, Json], list[Json], list[Json]]:
        clock = LoopClock(asyncio.get_running_loop())
        store = MemoryCluster(clock)
        shape = RunSettings(nodes=4, pods=60, pause=4.0)
        world = World(store, clock, Random(f"{self._seed}/world"), shape, Counter(), Counter())
        self._client = KubeCluster(InProcessTransport(ApiServer(store, clock)), clock, random=Random(self._seed))
        history, metrics, recorder = History(), Metrics(), Recorder(self.recording)
        with self.trace.open("w") as stream, self._logged():
            tracing = Tracing.to_stream(stream)
            scheduler = Scheduler(
                _configuration(self._seed),
                self._client,
                clock,
                registry=Registry.with_plugins(FailingPlugin, RandomPermit, SecondPermit),
                observers=[recorder, history, metrics.attempts, tracing, Journal(tracing.trace_id)],
                slice=0.0,
                engine=recording_pod_engine_factory(recorder),
                timed_share=TIMED_SHARE,
            )
            routes = [
                *explain_routes(scheduler, history),
                *metrics_routes(scheduler, metrics.attach(scheduler.engine), metrics.health),
            ]
            async with anyio.create_task_group() as tasks:
                for work in (Kubelet(store, clock), VolumeController(store), scheduler):
                    tasks.start_soon(work.run)
                await world.run()
                _add_hopeless(store)
                await asyncio.sleep(Random(self._seed).uniform(0.1, 10.0))
                scheduler.stand_by()
                await asyncio.sleep(QUIET)
                async with external_wait(60.0), serve(routes, Listener(port=0)) as url:
                    read = await self._read(url)
                tasks.cancel_scope.cancel()
            tracing.close()
            recorder.close()
        return read

    async def _read(self, url: str) -> tuple[dict[tuple[str, Labels], float], dict[str, Json], list[Json], list[Json]]:
        pods = [msgspec.to_builtins(pod) for pod in await self._client.list(Pod)]
        events = [msgspec.to_builtins(event) for event in await self._client.list(Event)]
        explanations = {}
        async with aiohttp.ClientSession(url) as session:
            async with session.get("/metrics") as response:
                samples = dict(_samples(await response.text()))
            for pod in pods:
                key = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
                if pod["metadata"]["name"] == TYPED:
                    explanations[pod["metadata"]["uid"]] = await _typed(
                        "explain", key, "--scheduler", url, "-o", "json"
                    )
                    continue
                async with session.get("/explain", params={"pod": key}) as response:
                    if response.status == 200:
                        explanations[pod["metadata"]["uid"]] = await response.json()
        return samples, explanations, pods, events

    @contextmanager
    def _logged(self) -> Iterator[None]:
        """Write what is logged of attempts and of the queue, as JSON."""
        handler, levels = _Lines(self.log), {logging.getLogger(name): level for name, level in LOGGERS.items()}
        for log, level in levels.items():
            log.addHandler(handler)
            log.setLevel(level)
        try:
            yield
        finally:
            for log in levels:
                log.setLevel(logging.NOTSET)
                log.removeHandler(handler)


class _Lines(logging.StreamHandler[io.StringIO]):
    def format(self, record: logging.LogRecord) -> str:
        return json_line(record)


def _configuration(seed: int) -> Configuration:
    return parse(CONFIGURATION.format(seed=seed))


def _add_hopeless(store: MemoryCluster) -> None:
    """Make pods of every kind that stays pending."""
    for pod in (
        make_pod(TYPED, cpu=64),
        make_pod("elsewhere", node_selector={"zone": "z"}),
        make_pod("gated", gates=["wait"]),
        make_pod("important", cpu="3", priority=1000),
    ):
        store.add(replace(pod, metadata=replace(pod.metadata, uid="")))


async def _typed(*arguments: str) -> Json:
    """Type a command; return what it prints."""
    command = (sys.executable, "-c", MAIN, *arguments)
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    out, _ = await process.communicate()
    printed: Json = json.loads(out)
    return printed


def _spans(line: Json) -> Iterator[Json]:
    """Yield the spans of a line of OTLP, their attributes as dictionaries."""
    for resource in line["resourceSpans"]:
        for scope in resource["scopeSpans"]:
            for span in scope["spans"]:
                yield _with_attributes(span)


def _with_attributes(told: Json) -> Json:
    return told | {"attributes": {each["key"]: _value(each["value"]) for each in told["attributes"]}}


def _value(value: Json) -> object:
    ((kind, content),) = value.items()
    if kind == "arrayValue":
        return [_value(each) for each in content["values"]]
    return int(content) if kind == "intValue" else content


_SAMPLE = re.compile(r"([a-z_:]+)(?:\{(.*)\})? (\S+)")
_LABEL = re.compile(r'(\w+)="([^"]*)"')


def _samples(text: str) -> Iterator[tuple[tuple[str, Labels], float]]:
    """Read the text format of Prometheus."""
    for line in text.splitlines():
        if line and not line.startswith("#"):
            matched = _SAMPLE.fullmatch(line)
            assert matched is not None, line
            name, labels, value = matched.groups()
            yield (name, tuple(sorted(_LABEL.findall(labels or "")))), float(value)
