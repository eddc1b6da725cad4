"""Random worlds with a shadow go as without: decisions, messages and writes are the same, whatever the shadow does."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import numpy as np
import pytest

from kframework import CycleState, Handle, NodeInfo, PendingPod, Plugin, PluginArgs, Rows, Scores, Status, hookimpl
from kframework.config.configuration import Configuration, ShadowConfiguration
from kframework.config.models import PluginEntry
from kframework.core.pod_engine import PodEngine
from kframework.core.runtime.registry import Registry
from kframework.core.shadow.difference import AGREED, FAILED, OTHER_NODE
from kframework.core.shadow.follower import ShadowFollower
from kframework.core.shadow.shadow import Shadow
from kframework.framework.answers import Diagnosis
from kframework.objects import Namespace
from kframework.objects.read_only import ReadOnlyError
from kframework.testing import make_node
from tests.faults.disruptive_plugins import RandomErrors, RandomPermit, SecondPermit
from tests.faults.pod_run import PodRun, RunSettings
from tests.faults.recording_lines import Line, lines_of
from tests.faults.run import Report, run
from tests.faults.scheduler_run import SchedulerRun
from tests.support.scale import seeds

#: Everything that a shadow must see as its profile does, each in a part of the worlds.
SHAPES = (
    RunSettings(nodes=8, pods=20, pause=25.0, budgets=True, devices=True, plugin_errors=True),
    RunSettings(nodes=8, pods=20, pause=30.0, groups=True, devices=True),
    RunSettings(pods=30, budgets=True),
)

#: The tests that make 10,000 decisions together.
PARTS = 8

#: What is measured in real time, or hidden with a key of the recording's own.
_MEASURED = {"timings", "plugins", "started", "took", "steps"}


class Raising(Plugin):
    """Raise wherever that is possible, and exit."""

    name = "Raising"

    @hookimpl
    def filter(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> Status | None:
        if node.row % 2:
            raise SystemExit(f"no more of {pod.name}")
        raise ValueError("never")


class Hanging(Plugin):
    """Take a tenth of a second of the shadows' clock for each pod."""

    name = "Hanging"
    seconds: ClassVar[float] = 0.0

    @hookimpl
    def pre_filter(self, state: CycleState, pod: PendingPod, nodes: object) -> None:
        Hanging.seconds += 0.1


class Writing(Plugin):
    """Write to whatever it is given, and to what it can reach from there; fail once it has tried all."""

    name = "Writing"

    @hookimpl
    def filter(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> Status | None:
        nodes: Any = self.handle.nodes
        pods: list[Any] = [pod, *node.pods, *self.handle.pods.values(), *self.handle.pending.values()]
        columns = [*nodes.requesteds.values(), *nodes.allocatables.values(), nodes.unschedulable, nodes.taint_sets]
        arrays = [column.values for column in (*columns, nodes.label("zone"), nodes.column("mine"))]
        writes = [
            *(partial(setattr, each, name, 10**6) for each in pods for name in ("priority", "row", "node_name")),
            *(partial(operator.setitem, each.labels, "app", "other") for each in (*pods, node)),
            *(partial(operator.setitem, each.object.metadata.labels, "app", "other") for each in (pod, node)),
            *(partial(operator.setitem, column.cells, node.row, 10**6) for column in columns),
            *(partial(array.fill, 10**6) for array in (*arrays, nodes.order, nodes.positions)),
            *(partial(setattr, each, "name", "other") for each in (node, nodes)),
            *(partial(nodes.remove, node.name), partial(nodes.put, make_node("other")), nodes.mark_named_changed),
        ]
        for write in writes:
            with suppress(TypeError, ValueError):
                write()
                self.written += 1
        raise ReadOnlyError("as each write was refused")

    written: int = 0


class Meddling(Plugin):
    """Request what it can of the scheduler, and change what it can reach of a decision."""

    name = "Meddling"

    def __init__(self, args: PluginArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        handle.on_change(Namespace, self._meddle)

    def _meddle(self, old: object, new: object) -> None:
        raise ValueError("never")

    @hookimpl
    def filter(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> Status | None:
        handle = self.handle
        handle.activate(handle.pending.values())
        handle.nominate(pod, node.name)
        handle.invalidate()
        handle.event(pod, reason="Meddled", action="Meddling", note="no")
        for waiting in handle.waiting_pods():
            waiting.reject(self.name, "no")
            waiting.allow("RandomPermit")
        statement = handle.statement()
        for other in [*node.pods][:1]:
            statement.remove(other)
        statement.commit()
        handle.statement()
        return None

    @hookimpl
    def score_nodes(self, state: CycleState, pod: PendingPod, nodes: object, rows: Rows) -> Scores:
        given = np.asarray(rows)
        scores = given % 7
        _overwrite(given)
        return scores

    @hookimpl
    def normalize_score(self, state: CycleState, pod: PendingPod, scores: Scores) -> Scores:
        _overwrite(scores)
        return scores

    @hookimpl
    def score(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> int:
        return node.row % 7

    @hookimpl
    def post_filter(self, state: CycleState, pod: PendingPod, diagnosis: Diagnosis) -> Status:
        self.handle.spawn(self._write(pod))
        raise ValueError("never")

    async def _write(self, pod: PendingPod) -> None:
        await self.handle.api.bind(pod, "node-1")


def _overwrite(array: Scores) -> None:
    if array.flags.writeable:
        array[:] = 0


PLUGINS = Registry.with_plugins(RandomPermit, SecondPermit, RandomErrors, Raising, Hanging, Meddling, Writing)


class WorkClock:
    """A clock that only hanging plugins move."""

    def now(self) -> float:
        return Hanging.seconds


class ShadowedRun(PodRun):
    """A run whose profile has a shadow: the same profile, with these plugins besides.

    `life` 1 makes it one that packs where the profile spreads.
    """

    plugins: Sequence[str] = ()
    life: int = 0

    @property
    def registry(self) -> Registry:
        return PLUGINS

    def configuration(self, number: int) -> Configuration:
        configuration = super().configuration(number)
        (profile,) = configuration.profiles
        (other,) = super().configuration(number + self.life).profiles
        added = tuple(PluginEntry(name=name) for name in self.plugins)
        points = other.plugins.multi_point
        plugins = other.plugins.model_copy(
            update={"multi_point": points.model_copy(update={"enabled": (*points.enabled, *added)})}
        )
        shadow = replace(other, scheduler_name="shadow", plugins=plugins)
        return replace(configuration, shadows=(ShadowConfiguration(shadow, profile.scheduler_name, 0.5),))

    def scheduler_run(self, number: int) -> SchedulerRun[PodEngine]:
        begun = super().scheduler_run(number)
        follower = begun.scheduler.engine.follower
        assert isinstance(follower, ShadowFollower)
        if "Hanging" in self.plugins:
            follower.clock = WorkClock()
        return begun

    @property
    def shadows(self) -> list[Shadow]:
        return [shadow for each in self.scheduler_runs for shadow in each.scheduler.shadows]


def run_both(
    seed: int, shape: RunSettings, folder: Path, plugins: Sequence[str] = ()
) -> tuple[Report, Report, list[Shadow]]:
    """Run a world without and with a shadow."""
    (folder / "plain").mkdir()
    (folder / "shadowed").mkdir()
    plain = run(PodRun(seed, shape, folder / "plain", 1 << 40))
    shadowed = ShadowedRun(seed, shape, folder / "shadowed", 1 << 40)
    shadowed.plugins = plugins
    return plain, run(shadowed), shadowed.shadows


def _comparable(line: Line) -> object:
    body = line.get("with")
    if not isinstance(body, Mapping):
        return line
    metadata = body.get("metadata", {})
    return (
        line["what"],
        line["at"],
        {name: value for name, value in body.items() if name not in _MEASURED | {"metadata"}},
        {name: value for name, value in metadata.items() if name not in ("annotations", "labels")},
    )


def messages_of(report: Report) -> list[object]:
    """List the messages, steps and decisions of a run."""
    return [_comparable(line) for file in report.recordings for line in lines_of(file)[1:]]


@pytest.mark.parametrize("seed", seeds(24))
def test_shadow_like_its_profile_never_differs_nor_affects_it(seed: int, tmp_path: Path) -> None:
    plain, shadowed, shadows = run_both(seed, SHAPES[seed % len(SHAPES)], tmp_path)
    assert shadowed.problems == []
    assert shadowed.history == plain.history
    assert messages_of(shadowed) == messages_of(plain)
    (shadow,) = shadows
    assert [*shadow.differences] == []
    assert shadow.counts[AGREED] == sum(shadow.counts.values()) > 20


@pytest.mark.parametrize("plugin", ["Raising", "Hanging", "Meddling", "Writing"])
@pytest.mark.parametrize("seed", seeds(6))
def test_bad_shadow_does_not_affect_its_profile(
    seed: int, plugin: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Hanging, "seconds", 0.0)
    plain, shadowed, (shadow,) = run_both(seed, SHAPES[seed % len(SHAPES)], tmp_path, [plugin])
    assert shadowed.problems == []
    assert shadowed.history == plain.history
    assert messages_of(shadowed) == messages_of(plain)
    if plugin != "Meddling":  # the what-ifs that it leaves open are in the way of those about nominated pods
        assert bool(shadow.counts[FAILED]) == (plugin in ("Raising", "Writing"))
    assert getattr(shadow.engine.profile.plugins[plugin], "written", 0) == 0
    assert bool(shadow.skipped) == (plugin == "Hanging")


@pytest.mark.long
@pytest.mark.timeout(150)
@pytest.mark.parametrize("part", range(PARTS))
def test_shadow_like_its_profile_never_differs_over_10_000_decisions(part: int, tmp_path: Path) -> None:
    decided = 0
    for seed in count(100 * part):
        world = ShadowedRun(seed, msgspec.structs.replace(SHAPES[seed % len(SHAPES)], pods=100), tmp_path, 1 << 40)
        run(world)
        (shadow,) = world.shadows
        assert [*shadow.differences] == []
        assert shadow.counts[AGREED] == shadow.counts.total()
        decided += shadow.counts[AGREED]
        if decided >= 10_000 / PARTS:
            break


@pytest.mark.parametrize("seed", seeds(6))
def test_shadow_that_scores_otherwise_differs_for_that_reason_and_no_other(seed: int, tmp_path: Path) -> None:
    packing = ShadowedRun(seed, SHAPES[2], tmp_path, 1 << 40)
    packing.life = 1
    assert run(packing).problems == []
    (shadow,) = packing.shadows
    moved = [each for each in shadow.differences if each.outcome == OTHER_NODE]
    assert moved
    assert {each.plugin for each in moved} == {"NodeResourcesFit"}
    assert all(each.reason.startswith("NodeResourcesFit ") for each in moved)
