"""Suspendable work is a plain call if nothing has to be awaited, and is driven to its end if something has."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

import pytest

from kframework.core.cycle.suspendable import Suspendable, run_async, run_sync, wait_for
from kframework.framework.handle import COMPLETED, Completed


def nothing_to_ask() -> Suspendable[str]:
    return "done"
    yield from ()


def two_questions(journal: list[object]) -> Suspendable[str]:
    for question in (one(), refused()):
        try:
            journal.append((yield from wait_for(question)))
        except (ValueError, asyncio.CancelledError) as error:
            journal.append(type(error).__name__)
    return "done"


async def one() -> int:
    await asyncio.sleep(0)
    return 1


async def refused() -> int:
    raise ValueError("no")


async def never() -> None:
    await asyncio.get_running_loop().create_future()


def test_work_without_awaits_runs_synchronously() -> None:
    assert run_sync(nothing_to_ask()) == "done"
    assert asyncio.run(run_async(nothing_to_ask())) == "done"


def test_work_that_awaits_needs_an_event_loop() -> None:
    journal: list[object] = []
    with pytest.raises(RuntimeError, match="no event loop drives this work"):
        run_sync(nobody(journal))
    assert journal == ["closed"]


def nobody(journal: list[object]) -> Suspendable[None]:
    try:
        yield from wait_for(Completed())
    finally:
        journal.append("closed")


def test_completed_awaitable_is_skipped() -> None:
    assert run_sync(wait_for(COMPLETED)) is None


@pytest.mark.parametrize("begun", [False, True])
def test_answers_are_sent_back_and_what_is_raised_is_thrown_in(begun: bool) -> None:
    journal: list[object] = []

    async def main() -> str:
        work = two_questions(journal)
        question: Awaitable[object] | None = next(work) if begun else None
        return await run_async(work, question)

    assert asyncio.run(main()) == "done"
    assert journal == [1, "ValueError"]


def test_cancelled_work_ends_with_its_own_result() -> None:
    journal: list[str] = []

    def work() -> Suspendable[None]:
        try:
            yield from wait_for(never())
        except asyncio.CancelledError:
            journal.append("cancelled")
            raise

    async def main() -> None:
        task = asyncio.create_task(run_async(work()))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert journal == ["cancelled"]


def test_completed_awaitable_takes_no_turn_of_the_loop() -> None:
    async def main() -> list[str]:
        order: list[str] = []
        asyncio.get_running_loop().call_soon(order.append, "turn")
        await COMPLETED
        return order.copy()

    assert asyncio.run(main()) == []
