"""Shadows of a running scheduler start, fetch and close beside it, and hold up nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, cast

import pytest

from kframework import CycleState, Handle, PendingPod, Plugin, PluginArgs, hookimpl
from kframework.config.load import parse
from kframework.core.engine import Engine
from kframework.core.runtime.registry import Registry
from kframework.core.shadow.difference import AGREED
from kframework.errors import ConfigError
from kframework.framework.plugin import Watch
from kframework.objects import ConfigMap, Node
from kframework.scheduler.shadows import RunningShadows
from kframework.scheduler.succession import Succession
from kframework.testing import make_node, make_pod
from tests.core.shadow.shadowed import CONFIGURATION, only_shadow, shadowed

OBJECTS = [make_node("a"), make_pod("p")]


class Late(Plugin):
    """Cannot start."""

    name = "Late"
    closed: ClassVar[list[str]] = []

    async def start(self) -> None:
        raise OSError("no route")

    async def close(self) -> None:
        self.closed.append(self.name)

    @hookimpl
    def pre_filter(self, state: CycleState, pod: PendingPod, nodes: object) -> None: ...


class Fetching(Plugin):
    """Fetch data, and watch a kind that no other plugin does."""

    name = "Fetching"
    watches: ClassVar[tuple[Watch, ...]] = (Watch(ConfigMap),)
    seen: ClassVar[list[object]] = []

    def __init__(self, args: PluginArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self.source = handle.source("data", int, self._fetch)

    async def _fetch(self) -> Mapping[str, int]:
        return {"one": 1}

    @hookimpl
    def pre_filter(self, state: CycleState, pod: PendingPod, nodes: object) -> None:
        self.seen.append(dict(self.source))


def enabled(plugin: type[Plugin]) -> str:
    return f"plugins: {{multiPoint: {{enabled: [{{name: {plugin.name}}}]}}}}"


def test_shadow_that_cannot_start_decides_nothing_and_says_why() -> None:
    simulation = shadowed(OBJECTS, enabled(Late), plugins=[Late]).run()
    shadow = only_shadow(simulation)
    assert (shadow.counts[AGREED], shadow.skipped) == (0, 1)
    assert shadow.problem == "plugin 'Late' cannot start: no route"
    assert simulation.decisions[0].node == "a"


def test_shadow_gets_its_data_and_kinds_of_its_own_requeue_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Fetching, "seen", [])
    simulation = shadowed(OBJECTS, enabled(Fetching), plugins=[Fetching]).run(1.0)
    simulation.create(make_pod("q"))
    simulation.run(1.0)
    assert Fetching.seen[-1] == {"one": 1}
    assert ConfigMap in simulation.scheduler.kinds
    assert simulation.scheduler.engine.handlers.silent_kinds == {ConfigMap}
    assert Node not in simulation.scheduler.engine.handlers.silent_kinds


def test_other_engines_refuse_shadows() -> None:
    configuration = parse(CONFIGURATION.format(candidate="plugins: {}"))
    simulation = shadowed(OBJECTS)
    with pytest.raises(ConfigError, match="supports no shadow profiles"):
        RunningShadows(configuration, Registry.from_installed(), cast("Engine", object()), simulation.scheduler)


def test_reload_replaces_the_shadows() -> None:
    simulation = shadowed(OBJECTS, enabled(Fetching), plugins=[Fetching]).run(1.0)
    scheduler, registry = simulation.scheduler, Registry.with_plugins(Fetching)
    before = only_shadow(simulation)
    plain = parse(CONFIGURATION.partition("- schedulerName: candidate")[0])
    simulation.run_until(Succession(scheduler, plain, registry).take())
    assert ([*scheduler.shadows], scheduler.engine.follower) == ([], None)
    simulation.create(make_pod("q"))
    simulation.run(1.0)
    assert before.counts.total() == 1
    again = parse(CONFIGURATION.format(candidate="plugins: {}"))
    simulation.run_until(Succession(scheduler, again, registry).take())
    simulation.create(make_pod("r"))
    simulation.run(1.0)
    assert only_shadow(simulation).counts[AGREED] == 1
