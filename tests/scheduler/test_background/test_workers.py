"""Tasks that have done their work do the next; callers wait for none, and each starts clean."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

import anyio

from kframework.clock import run_virtual
from kframework.core.runtime.timing import AttemptTrace, current_attempt
from kframework.scheduler.background import MAX_IDLE_WORKERS, Workers
from kframework.testing import make_pod, pending_pod


class Works:
    """Pieces of work that take a second each, and what is seen of them."""

    def __init__(self, workers: Workers, cancel: Callable[[], None]) -> None:
        self.workers = workers
        self.cancel = cancel
        self.seen: list[tuple[str, float, object]] = []
        self.begun: list[str] = []
        self.tasks: list[object] = []

    async def one(self, name: str) -> None:
        self.begun.append(name)
        self.tasks.append(asyncio.current_task())
        await asyncio.sleep(1.0)
        self.seen.append((name, asyncio.get_running_loop().time(), current_attempt.get()))


def worked(do: Callable[[Works], Awaitable[None]]) -> Works:
    async def main() -> Works:
        async with anyio.create_task_group() as tasks:
            works = Works(Workers(tasks), tasks.cancel_scope.cancel)
            await do(works)
            tasks.cancel_scope.cancel()
        return works

    return run_virtual(main)


def test_task_does_one_piece_of_work_after_the_other() -> None:
    async def do(works: Works) -> None:
        for name in "abc":
            works.workers.start(works.one(name))
            await asyncio.sleep(2.0)
        assert len(works.workers._idle) == 1

    works = worked(do)
    assert works.begun == ["a", "b", "c"]
    assert len(set(works.tasks)) == 1


def test_all_that_is_begun_is_done_side_by_side_and_few_rest_afterwards() -> None:
    async def do(works: Works) -> None:
        for _ in range(2):
            for number in range(MAX_IDLE_WORKERS + 10):
                works.workers.start(works.one(str(number)))
            await asyncio.sleep(2.0)
            assert len(works.workers._idle) == MAX_IDLE_WORKERS

    works = worked(do)
    assert sorted({when for _, when, _ in works.seen}) == [1.0, 3.0]
    assert works.begun == [*map(str, range(MAX_IDLE_WORKERS + 10))] * 2
    assert len(set(works.tasks)) == MAX_IDLE_WORKERS + 20


def test_work_belongs_to_the_attempt_that_began_it() -> None:
    async def do(works: Works) -> None:
        for attempt in (first, second, None):
            current_attempt.set(attempt)
            works.workers.start(works.one(""))
            current_attempt.set(None)
            await asyncio.sleep(2.0)

    pod = pending_pod(make_pod())
    first, second = AttemptTrace(pod, 1), AttemptTrace(pod, 2)
    assert [attempt for *_, attempt in worked(do).seen] == [first, second, None]


def test_work_alone_has_the_context_and_a_task_of_its_own() -> None:
    async def do(works: Works) -> None:
        works.workers.start(works.one("a"))
        await asyncio.sleep(2.0)
        current_attempt.set(alone)
        works.workers.start_in_own_task(works.one("b"))
        current_attempt.set(None)
        await asyncio.sleep(2.0)
        assert len(works.workers._idle) == 1

    alone = AttemptTrace(pending_pod(make_pod()), 7)
    works = worked(do)
    assert [attempt for *_, attempt in works.seen] == [None, alone]
    assert len(set(works.tasks)) == 2


def test_work_started_right_before_the_end_is_started() -> None:
    """A coroutine that was never awaited would be a warning."""

    async def do(works: Works) -> None:
        works.workers.start(works.one("a"))
        await asyncio.sleep(2.0)
        works.workers.start(works.one("b"))

    works = worked(do)
    assert works.begun == ["a", "b"] and len(works.seen) == 1


def test_work_started_after_the_end_runs_to_its_first_await() -> None:
    async def do(works: Works) -> None:
        works.workers.start(works.one("a"))
        await asyncio.sleep(2.0)
        works.cancel()
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(1.0)
        works.workers.start(works.one("b"))

    works = worked(do)
    assert works.begun == ["a", "b"] and len(works.seen) == 1
