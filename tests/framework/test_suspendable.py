"""Suspendable work is a plain call if nothing has to be awaited, and is driven to its end if something has."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine
from typing import Any

import pytest

from kframework.framework.handle import COMPLETED, Completed
from kframework.framework.suspendable import Suspendable, run_async, start, wait_for, wrap_waiting


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


async def wrapped(rest: Coroutine[Any, Any, str]) -> str:
    return f"wrapped: {await rest}"


async def never() -> None:
    await asyncio.get_running_loop().create_future()


def test_work_without_awaits_runs_synchronously() -> None:
    assert start(nothing_to_ask()) == "done"
    assert start(wrap_waiting(nothing_to_ask(), wrapped)) == "done"
    assert asyncio.run(run_async(nothing_to_ask())) == "done"


def test_result_of_a_completed_call_is_taken_without_awaiting_it() -> None:
    assert start(wait_for(COMPLETED)) is None
    assert start(wait_for(Completed("done"))) == "done"


def test_work_that_must_wait_is_begun_at_once_and_ended_by_who_awaits_it() -> None:
    journal: list[object] = []

    def work() -> Suspendable[str]:
        journal.append("begun")
        return (yield from two_questions(journal))

    async def main() -> str:
        rest = start(work())
        journal.append("started")
        assert not isinstance(rest, str)
        return await rest

    assert asyncio.run(main()) == "done"
    assert journal == ["begun", "started", 1, "ValueError"]


def test_work_that_must_wait_is_wrapped() -> None:
    assert asyncio.run(run_async(wrap_waiting(two_questions([]), wrapped))) == "wrapped: done"


def test_completed_call_is_a_coroutine() -> None:
    async def main() -> list[str]:
        return [await asyncio.create_task(Completed("task")), await asyncio.ensure_future(Completed("future"))]

    assert asyncio.run(main()) == ["task", "future"]
    call = Completed("done")
    call.close()
    with pytest.raises(ValueError, match="no"):
        call.throw(ValueError("no"))


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
