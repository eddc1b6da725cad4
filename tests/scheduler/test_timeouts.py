"""The scheduler waits for a plugin no longer than its limit, whatever it does about that."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import anyio
import pytest

from kframework.clock import run_virtual
from kframework.scheduler.timeouts import (
    CANCEL_GRACE,
    HookTimeout,
    fault_text,
    restart_timeout,
    with_timeout,
    without_timeout,
)


def ends(work: Callable[[list[str]], Awaitable[object]], seconds: float = 10.0) -> tuple[object, float, list[str]]:
    """Return what comes of such work, after how many virtual seconds, and what it noted even a minute later."""
    journal: list[str] = []

    async def main() -> tuple[object, float]:
        loop = asyncio.get_running_loop()
        try:
            outcome: object = await with_timeout(seconds, work(journal), "hookTimeouts.bind")
        except Exception as error:
            outcome = f"{type(error).__name__}: {error}"
        ended = loop.time()
        await asyncio.sleep(60)
        assert asyncio.all_tasks() == {asyncio.current_task()}
        return outcome, ended

    outcome, ended = run_virtual(main)
    return outcome, ended, journal


LATE = "HookTimeout: timed out after 10 s (hookTimeouts.bind)"


async def quick(journal: list[str]) -> str:
    return "done"


async def slow(journal: list[str]) -> None:
    try:
        await asyncio.Event().wait()
    finally:
        journal.append("cleaned up")


async def late(journal: list[str]) -> str:
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        await asyncio.sleep(CANCEL_GRACE / 2)
        journal.append("answered late")
    return "done after all"


async def deaf(journal: list[str]) -> None:
    while True:
        try:
            await asyncio.sleep(1.0)
        except asyncio.CancelledError:
            journal.append("swallowed")


async def broken(journal: list[str]) -> None:
    raise ValueError("broken")


async def exits(journal: list[str]) -> None:
    await asyncio.sleep(1.0)
    raise SystemExit(3)


async def awaits_what_was_cancelled(journal: list[str]) -> None:
    gone = asyncio.get_running_loop().create_future()
    gone.cancel()
    await gone


@pytest.mark.parametrize(
    ("work", "outcome", "seconds", "journal"),
    [
        (quick, "done", 0.0, []),
        (broken, "ValueError: broken", 0.0, []),
        (awaits_what_was_cancelled, "RuntimeError: it awaited a cancelled task", 0.0, []),
        (exits, "RuntimeError: it called sys.exit", 1.0, []),
        (slow, LATE, 10.0, ["cleaned up"]),
        (late, LATE, 10.0 + CANCEL_GRACE / 2, ["answered late"]),
        (deaf, LATE, 10.0 + CANCEL_GRACE, ["swallowed"]),
    ],
)
def test_work_has_its_time(
    work: Callable[[list[str]], Awaitable[object]], outcome: object, seconds: float, journal: list[str]
) -> None:
    assert ends(work) == (outcome, seconds, journal)


def test_work_without_timeout_is_not_cancelled() -> None:
    async def binds(journal: list[str]) -> str:
        with without_timeout():
            await asyncio.sleep(25.0)
        return "certain"

    async def dawdles(journal: list[str]) -> None:
        await binds(journal)
        await asyncio.sleep(1.0)

    assert ends(binds) == ("certain", 25.0, [])
    assert ends(dawdles) == (LATE, 25.0, [])


def test_limit_may_count_from_a_later_moment() -> None:
    async def works(journal: list[str]) -> str:
        for _ in range(3):
            await asyncio.sleep(8.0)
            restart_timeout()
        return "done"

    async def stops(journal: list[str]) -> None:
        await works(journal)
        await asyncio.Event().wait()

    assert ends(works) == ("done", 24.0, [])
    assert ends(stops) == (LATE, 34.0, [])


def test_limit_that_has_run_out_counts_no_more() -> None:
    async def goes_on(journal: list[str]) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            journal.append("swallowed")
        restart_timeout()
        journal.append("goes on")

    assert ends(goes_on) == (LATE, 10.0, ["swallowed"])


@pytest.mark.parametrize(("work", "journal"), [(slow, ["cleaned up"]), (deaf, ["swallowed"])])
def test_waiting_caller_may_be_cancelled(work: Callable[[list[str]], Awaitable[object]], journal: list[str]) -> None:
    noted: list[str] = []

    async def main() -> float:
        with anyio.move_on_after(3.0):
            await with_timeout(10.0, work(noted), "")
        return asyncio.get_running_loop().time()

    assert run_virtual(main) <= 3.0 + CANCEL_GRACE
    assert noted == journal


def test_timeout_is_logged_without_a_traceback() -> None:
    error = ValueError("broken")
    assert fault_text(error) is error
    assert fault_text(HookTimeout(600.0, "hookTimeouts.preBind")) == "timed out after 600 s (hookTimeouts.preBind)"
