"""Random reloads among random events: afterwards a scheduler decides as one that has just been started."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from contextlib import suppress
from functools import partial
from pathlib import Path
from random import Random

import anyio
import pytest
from msgspec.structs import replace

from kframework.clock import run_virtual
from kframework.core.cycle.records import Decision
from kframework.core.event_handlers import EventHandlers
from kframework.core.queue.scheduling_queue import SchedulingQueue
from kframework.core.runtime.profile import Profile
from kframework.core.runtime.profiles import ProfileChanges
from kframework.errors import ConfigError, PluginError
from kframework.objects import ApiObject, Node, Pod, PodGroup
from kframework.observe.recording.pod_engine import recording_pod_engine_factory
from kframework.observe.recording.reconsider import reconsider
from kframework.observe.recording.replay import replay
from kframework.observe.recording.writer import Recorder
from kframework.state.pods import PendingPod
from kframework.testing import make_node, make_pod
from tests.support.groups import gang, members
from tests.support.reloads import REGISTRY, Stage, document, profile
from tests.support.scale import seeds

NODES = "abcd"


def random_configuration(random: Random, options: str) -> str:
    """Return a configuration: of one in five nothing can be taken."""
    if random.random() < 0.2:
        return random.choice(
            [
                document(profile(plugin="Missing"), options=options),
                document(profile(fails=True, node=random.choice(NODES)), options=options),
                document(profile(), options=f"seed: 3\n{options}"),
                "kind: KubeSchedulerConf",
            ]
        )
    names = random.choice([["default-scheduler"], ["default-scheduler", "other"], ["other"]])
    profiles = [
        profile(
            name,
            weight=random.randint(1, 3),
            node=random.choice(["", "", *NODES]),
            gate=random.choice(["", "", "x", "y"]),
            holds=random.random() < 0.2,
            strategy=random.choice(["LeastAllocated", "MostAllocated"]),
        )
        for name in names
    ]
    return document(*profiles, settings=f"podMaxBackoffSeconds: {random.randint(2, 6)}", options=options)


class World:
    """Random events in a stage's cluster."""

    def __init__(self, stage: Stage, random: Random, options: str) -> None:
        self.stage = stage
        self.random = random
        self.options = options
        self.pods = 0

    def pod(self) -> Pod:
        self.pods += 1
        name = f"{self.random.choice('xyz')}-{self.pods}"
        scheduler = self.random.choice(["default-scheduler", "default-scheduler", "other"])
        requests = {"cpu": self.random.choice(["500m", "1", "2"])}
        return make_pod(name, scheduler_name=scheduler, requests=requests, priority=self.random.choice([0, 0, 10]))

    def add_gang(self) -> None:
        """Add the pods of a group, and sometimes the group itself later, or never."""
        first, group = self.pod(), f"gang-{self.pods}"
        if self.random.random() < 0.8:
            self.stage.cluster.add(gang(group, self.random.randint(1, 3)))
        for pod in members(group, self.random.randint(1, 4)):
            spec = replace(pod.spec, scheduler_name=first.spec.scheduler_name)
            name = f"{first.metadata.name[0]}-{pod.metadata.name}"
            self.stage.cluster.add(replace(pod, metadata=replace(pod.metadata, name=name, uid=name), spec=spec))

    async def happen(self) -> None:
        """Let one thing happen."""
        cluster, random = self.stage.cluster, self.random
        match random.choice(["pod", "pod", "pod", "delete", "node", "permit", "permit", "reload", "wait"]):
            case "pod" if self.options and random.random() < 0.3:
                self.add_gang()
            case "pod":
                cluster.add(self.pod())
            case "delete":
                if pods := cluster.objects(Pod):
                    cluster.remove(Pod, random.choice(pods).metadata.name)
            case "node":
                self.change_node(random.choice(NODES))
            case "permit":
                for waiting in list(self.stage.scheduler.engine.cluster.waiting.awaiting_permit()):
                    if random.random() < 0.7:
                        waiting.allow("Rule") if random.random() < 0.5 else waiting.reject("Rule", "no")
            case "reload":
                await self.reload(random_configuration(random, self.options))
            case "wait":
                await asyncio.sleep(random.choice([0.5, 5.0, 40.0]))
        await asyncio.sleep(random.choice([0.0, 0.0, 0.1]))

    def change_node(self, name: str) -> None:
        cluster = self.stage.cluster
        if cluster.find(Node, name) is not None:
            cluster.remove(Node, name)
        else:
            cluster.add(make_node(name, allocatable={"cpu": "4", "pods": "6"}))

    async def reload(self, text: str) -> None:
        with suppress(ConfigError, PluginError):
            await self.stage.take(text)

    async def settle(self, text: str) -> None:
        """Take a configuration without a wait on Permit, and let all that waits for a while come to its end."""
        await self.reload(text)
        for _ in range(3):
            for waiting in list(self.stage.scheduler.engine.cluster.waiting.awaiting_permit()):
                waiting.allow("Rule")
            await asyncio.sleep(15.0)


def outcome(decision: Decision) -> object:
    """Return what a decision says, without what is counted or drawn."""
    best = sorted(decision.best_nodes)
    return decision.pod, decision.result, decision.score, decision.ties, decision.feasible, best, decision.reasons


async def reload_among_events(seed: int, file: Path) -> tuple[list[Decision], list[str]]:
    """Let things happen; return the decisions, and what a new scheduler does otherwise."""
    random, recorder = Random(seed), Recorder(file)
    nodes = [make_node(name, allocatable={"cpu": "4", "pods": "6"}) for name in NODES[:3]]
    options = "featureGates: {GenericWorkload: true}" if seed % 2 else ""
    first, engine = document(profile(), options=options), recording_pod_engine_factory(recorder)
    stage = Stage(first, recorder, objects=nodes, engine=engine)
    final = document(profile(node=random.choice(["", "a"])), profile("other", gate="y"), options=options)
    world = World(stage, random, options)
    differences: list[str] = []
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(stage.scheduler.run)
        await asyncio.sleep(0.1)
        for _ in range(60):
            await world.happen()
        await world.settle(final)
        kinds: tuple[type[ApiObject], ...] = (Node, PodGroup, Pod)
        fresh = Stage(final, objects=[each for kind in kinds for each in stage.cluster.objects(kind)])
        tasks.start_soon(fresh.scheduler.run)
        await asyncio.sleep(5.0)
        for queue in ("gated", "unschedulable", "active"):
            old, new = ({each.pod.name for each in one.scheduler.engine.queue.pods_in(queue)} for one in (stage, fresh))
            if old != new:
                differences.append(f"{queue}: {sorted(old)}, {sorted(new)}")
        for _ in range(5):
            pod = world.pod()
            answers = []
            for each in (stage, fresh):
                each.cluster.add(pod)
                await asyncio.sleep(0.1)
                made = [outcome(one) for one in each.decisions() if one.pod == f"default/{pod.metadata.name}"]
                answers.append(made[:1])
                each.cluster.remove(Pod, pod.metadata.name)
                await asyncio.sleep(0.1)
            if answers[0] != answers[1]:
                differences.append(f"{answers[0]}, {answers[1]}")
        decisions = stage.decisions()
        stage.scheduler.stop()
        fresh.scheduler.stop()
    recorder.close()
    return decisions, differences


@pytest.mark.parametrize("seed", seeds())
def test_scheduler_decides_after_reloads_as_a_new_one_would(seed: int, tmp_path: Path) -> None:
    decisions, differences = run_virtual(lambda: reload_among_events(seed, tmp_path / "recording"))
    assert not differences, "\n".join(differences)
    assert len(decisions) > 20
    replayed = replay(tmp_path / "recording", REGISTRY)
    assert replayed.difference is None, str(replayed.difference)
    assert not reconsider(tmp_path / "recording", registry=REGISTRY).differences


# -- planted faults are found ------------------------------------------------------------------------------------------


def never_retried(self: SchedulingQueue, profiles: Collection[str]) -> list[PendingPod]:
    return []


def never_taken(self: EventHandlers, changes: ProfileChanges) -> None:
    self.foreign.clear()
    follow_profiles(self, changes)


def unchanged(self: Profile, other: Profile) -> bool:
    return True


follow_profiles = EventHandlers.follow_profiles


@pytest.mark.long
@pytest.mark.parametrize(
    ("owner", "method", "fault"),
    [
        (SchedulingQueue, "retry_profiles", never_retried),
        (EventHandlers, "follow_profiles", never_taken),
        (Profile, "equals", unchanged),
    ],
)
def test_planted_fault_is_found(
    owner: type[object], method: str, fault: Callable[..., object], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(owner, method, fault)
    for seed in range(25):
        _, differences = run_virtual(partial(reload_among_events, seed, tmp_path / str(seed)))
        if differences:
            return
    pytest.fail("not found")
