"""The tasks that await an object are found through any references in between."""

from __future__ import annotations

import asyncio
import functools
import weakref
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from kframework.clock.awaiters import find_awaiters, task_and_awaiters


def objects_holding(future: asyncio.Future[None]) -> dict[str, object]:
    def wake() -> None:
        future.set_result(None)

    return {
        "itself": future,
        "attribute": SimpleNamespace(protocol=SimpleNamespace(waiter=future)),
        "container": {"waiters": [(future,)]},
        "closure": wake,
        "partial": functools.partial(print, future),
        "weakly": [weakref.ref(future)],
    }


@pytest.mark.parametrize("way", ["itself", "attribute", "container", "closure", "partial", "weakly"])
async def test_waiting_task_is_found(way: str) -> None:
    future = asyncio.get_running_loop().create_future()

    async def wait() -> None:
        await future

    task = asyncio.ensure_future(wait())
    assert find_awaiters(objects_holding(future)[way]) == set()
    await asyncio.sleep(0)
    assert find_awaiters(objects_holding(future)[way]) == {task}
    future.set_result(None)
    await task
    assert find_awaiters(objects_holding(future)[way]) == set()


def _gather(task: asyncio.Task[None]) -> Any:
    return asyncio.gather(task)


def _limit(task: asyncio.Task[None]) -> Any:
    return asyncio.wait_for(task, 60)


def _shield(task: asyncio.Task[None]) -> Any:
    return asyncio.shield(task)


def _identity(task: asyncio.Task[None]) -> Any:
    return task


@pytest.mark.parametrize("way", [_identity, _gather, _limit, _shield])
async def test_tasks_that_await_the_waiting_task_are_found(way: Callable[[asyncio.Task[None]], Any]) -> None:
    future = asyncio.get_running_loop().create_future()

    async def wait() -> None:
        await future

    async def wait_for(task: asyncio.Task[None]) -> None:
        await way(task)

    inner = asyncio.ensure_future(wait())
    outer = asyncio.ensure_future(wait_for(inner))
    for _ in range(3):
        await asyncio.sleep(0)
    assert find_awaiters(future) == {inner, outer} == task_and_awaiters(inner)
    future.set_result(None)
    await outer


async def test_references_of_tasks_and_the_loop_are_not_followed() -> None:
    future = asyncio.get_running_loop().create_future()

    async def wait() -> None:
        await future

    task = asyncio.ensure_future(wait())
    await asyncio.sleep(0)
    assert find_awaiters([task, asyncio.get_running_loop()]) == set()
    future.set_result(None)
    await task
