"""Plugins are started, fed and closed, each with what runs for it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import anyio
import pytest

from kframework import Source
from kframework.clock import LoopClock, Seeds, run_virtual
from kframework.config.configuration import HookTimeouts
from kframework.core.runtime.profile import Profile
from kframework.framework.plugin import Plugin
from kframework.scheduler.extenders import Extenders
from kframework.scheduler.running_plugins import Retired, RunningPlugins
from kframework.state.inbox import Message
from tests.extension_points.scripted import plugin, profile
from tests.scheduler.test_sources import KEY, Says, polled, settings


def running(work: Callable[[RunningPlugins], Awaitable[float | None]]) -> float | None:
    """Do work with the plugins of a scheduler; return its answer."""

    async def main() -> float | None:
        plugins = RunningPlugins(LoopClock(asyncio.get_running_loop()), Seeds(0), HookTimeouts())
        async with anyio.create_task_group() as plugins.tasks:
            answer = await work(plugins)
            plugins.tasks.cancel_scope.cancel()
        return answer

    return run_virtual(main)


def created(name: str, journal: list[str]) -> tuple[Profile, Plugin]:
    """Return a plugin that says when it is closed, with its profile."""

    async def close(self: Plugin) -> None:
        journal.append(name)

    made = plugin(name, filter=None)
    made.close = close  # type: ignore[method-assign]  # made here
    compiled = profile(made)
    return compiled, compiled.plugins[name]


@pytest.mark.parametrize(
    ("says", "ready"), [([{}], 0.0), ([ConnectionError("no")], 0.0), ([4.0], 4.0), ([60.0], 10.0)], ids=str
)
def test_each_source_is_tried_once_before_anything_else_but_not_for_long(says: list[Says], ready: float) -> None:
    async def work(plugins: RunningPlugins) -> float:
        source: Source[object] = Source(KEY, float, polled(*says), settings())
        await plugins.feed([source], lambda message: None)
        return asyncio.get_running_loop().time()

    assert running(work) == ready


def test_source_is_fetched_until_it_is_stopped() -> None:
    told: list[Message] = []

    async def work(plugins: RunningPlugins) -> None:
        source: Source[object] = Source(KEY, float, polled({}), settings())
        await plugins.feed([source], told.append)
        await asyncio.sleep(25.0)
        plugins.stop_feeding([source])
        await asyncio.sleep(100.0)

    running(work)
    assert len(told) == 3


def test_started_plugins_are_closed_once() -> None:
    closed: list[str] = []

    async def work(plugins: RunningPlugins) -> None:
        a, b, c = (created(name, closed) for name in "abc")
        await plugins.start([a, b])
        assert await plugins.close([a[1], c[1]]) == []
        assert closed == ["a"], "one that was not started is not closed"
        await plugins.close()

    running(work)
    assert closed == ["a", "b"]


def test_retired_plugins_are_closed_when_nothing_is_left_of_them() -> None:
    closed: list[str] = []

    async def work(plugins: RunningPlugins) -> None:
        a, used = created("a", closed), [True]
        await plugins.start([a])
        plugins.retired.append(Retired([a[1]], Extenders(), lambda: not used))
        plugins.close_retired()
        await asyncio.sleep(1.0)
        assert closed == []
        used.clear()
        plugins.close_retired()
        await asyncio.sleep(1.0)
        assert closed == ["a"] and not plugins.retired

    running(work)
