"""Tasks of hooks are cancelled when the scheduler stops, and some of them only then."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import anyio
import pytest

from kframework.clock import run_virtual
from kframework.scheduler.background import BackgroundTasks


def ended(do: Callable[[BackgroundTasks], Awaitable[None]], told: list[str]) -> str:
    """Say how it ends, and after how many seconds."""

    async def main() -> str:
        loop = asyncio.get_running_loop()
        errands, began, how = BackgroundTasks(lambda: told.append("")), loop.time(), "called back"
        loop.call_later(7.0, errands.cancel)
        with anyio.CancelScope() as scope:
            loop.call_later(3.0, scope.cancel)
            try:
                await do(errands)
                how = "done"
            except ValueError:
                how = "failed"
        assert not len(errands)
        return f"{how} after {loop.time() - began:.0f} s"

    return run_virtual(main)


@pytest.mark.parametrize(
    ("seconds", "fails", "end"),
    [
        (2.0, False, "done after 2 s"),
        (2.0, True, "failed after 2 s"),
        (5.0, False, "called back after 5 s"),
        (5.0, True, "called back after 5 s"),
        (9.0, False, "called back after 7 s"),
    ],
)
def test_work_that_is_done_to_the_end(seconds: float, fails: bool, end: str) -> None:
    """It is called back after 3 seconds, and the scheduler stops after 7."""

    async def work() -> None:
        await asyncio.sleep(seconds)
        if fails:
            raise ValueError

    async def do(errands: BackgroundTasks) -> None:
        await errands.shield(work())

    assert ended(do, []) == end


@pytest.mark.parametrize(("seconds", "end"), [(2.0, "done after 2 s"), (9.0, "done after 7 s")])
def test_spawned_task_ends_by_itself_or_with_the_scheduler(seconds: float, end: str) -> None:
    async def do(errands: BackgroundTasks) -> None:
        begun = errands.register(asyncio.sleep(seconds), "me")
        assert len(errands) == 1
        with anyio.CancelScope(shield=True):
            await begun()

    told: list[str] = []
    assert (ended(do, told), len(told)) == (end, 1)
