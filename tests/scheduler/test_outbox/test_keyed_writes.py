"""Writes of a queue land in order, side by side, and one per key at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kframework.clock import run_virtual
from kframework.framework.handle import COMPLETED
from kframework.framework.suspendable import Suspendable, wait_for
from kframework.scheduler.outbox import KeyedWriteQueue

#: A write takes as many seconds as its number says; with 0 nothing is awaited.
Write = tuple[str, int]


class Writing:
    """A queue whose writes are noted: key and number at their start, and when they ended."""

    def __init__(self, limit: int) -> None:
        self.begun: list[Write] = []
        self.ended: list[tuple[float, Write]] = []
        self.in_progress: set[str] = set()
        self.most = 0
        self.idled = 0
        self.queue: KeyedWriteQueue[str, Write] = KeyedWriteQueue(self._write, limit, self._idle)

    def _write(self, write: Write) -> Suspendable[None]:
        key, seconds = write
        assert key not in self.in_progress, "two of one key at a time"
        self.begun.append(write)
        self.in_progress.add(key)
        self.most = max(self.most, len(self.in_progress))
        yield from wait_for(asyncio.sleep(seconds) if seconds else COMPLETED)
        self.in_progress.discard(key)
        self.ended.append((asyncio.get_running_loop().time(), write))

    def _idle(self) -> None:
        assert self.queue.is_idle
        self.idled += 1

    def put(self, *writes: Write) -> None:
        for write in writes:
            self.queue.put(write[0], write)


def writing(work: Callable[[Writing], Coroutine[object, object, None]], limit: int = 2) -> Writing:
    """Run a queue while `work` goes on, and an hour longer."""

    async def main() -> Writing:
        rig = Writing(limit)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(rig.queue.run)
            await work(rig)
            await asyncio.sleep(3600)
            tasks.cancel_scope.cancel()
        return rig

    return run_virtual(main)


def test_writes_are_done_in_order_within_a_limit() -> None:
    async def work(rig: Writing) -> None:
        rig.put(("a", 3), ("b", 1), ("c", 1), ("d", 1))
        assert len(rig.queue) == 4 and not rig.queue.is_idle

    rig = writing(work)
    assert rig.ended == [(1.0, ("b", 1)), (2.0, ("c", 1)), (3.0, ("a", 3)), (3.0, ("d", 1))]
    assert (rig.most, rig.idled) == (2, 1)


def test_later_write_takes_the_place_of_one_that_waits() -> None:
    async def work(rig: Writing) -> None:
        rig.put(("a", 1), ("b", 1), ("c", 1), ("d", 1), ("c", 2))
        assert rig.queue.waiting("c") == ("c", 2)
        assert rig.queue.waiting("e") is None

    assert writing(work).begun == [("a", 1), ("b", 1), ("c", 2), ("d", 1)]


def test_one_whose_key_is_in_flight_waits_for_its_end_and_goes_to_the_tail() -> None:
    async def work(rig: Writing) -> None:
        rig.put(("a", 2), ("b", 1))
        await asyncio.sleep(0.5)
        assert rig.queue.in_flight("a") == ("a", 2)
        rig.put(("a", 7), ("a", 3), ("b", 3), ("c", 3), ("d", 3), ("e", 3))
        assert "a" in rig.queue and "x" not in rig.queue

    assert writing(work).begun == [("a", 2), ("b", 1), ("c", 3), ("d", 3), ("e", 3), ("b", 3), ("a", 3)]


def test_dropped_write_is_not_done_and_may_be_put_again() -> None:
    async def work(rig: Writing) -> None:
        rig.put(("a", 1), ("b", 1), ("c", 1))
        assert rig.queue.discard("c") == ("c", 1)
        assert rig.queue.discard("c") is None
        rig.put(("c", 2), ("d", 1))
        rig.queue.discard("d")

    assert writing(work).begun == [("a", 1), ("b", 1), ("c", 2)]


def test_one_can_wait_for_the_end_of_the_next_write() -> None:
    async def work(rig: Writing) -> None:
        loop = asyncio.get_running_loop()
        await rig.queue.wait_until_written("a")
        rig.put(("a", 2))
        await rig.queue.wait_until_written("a")
        assert loop.time() == 2.0, "it was not in flight yet"
        rig.put(("a", 3))
        await asyncio.sleep(1)
        rig.put(("a", 5))
        await asyncio.gather(rig.queue.wait_until_written("a"), rig.queue.wait_until_written("a"))
        assert loop.time() == 5.0, "the next of the key does not count"

    writing(work)


def test_cancelled_write_leaves_no_state() -> None:
    async def main() -> None:
        rig = Writing(2)
        running = asyncio.ensure_future(rig.queue.run())
        rig.put(("a", 9))
        await asyncio.sleep(1)
        landed = asyncio.ensure_future(rig.queue.wait_until_written("a"))
        await asyncio.sleep(1)
        running.cancel()
        await landed
        assert rig.queue.is_idle and rig.ended == []

    run_virtual(main)


PUT = st.tuples(st.sampled_from("abc"), st.integers(0, 3))


@given(st.lists(st.one_of(PUT, st.sampled_from("abc"), st.integers(0, 3)), max_size=40), st.integers(1, 3))
def test_last_write_of_each_key_is_made_unless_it_is_dropped(steps: list[Write | str | int], limit: int) -> None:
    """A step puts a write, drops what waits under a key, or lets seconds pass."""
    last: dict[str, Write] = {}

    async def work(rig: Writing) -> None:
        for step in steps:
            if isinstance(step, tuple):
                rig.put(step)
                last[step[0]] = step
            elif isinstance(step, int):
                await asyncio.sleep(step + 0.5)
            elif rig.queue.discard(step) is not None:
                last.pop(step, None)
                if any(key == step for key, _ in rig.begun):
                    last[step] = [write for write in rig.begun if write[0] == step][-1]

    rig = writing(work, limit)
    made = {write[0]: write for write in rig.begun}
    assert made == last
    assert rig.queue.is_idle and rig.most <= limit
    assert len(rig.begun) == len(rig.ended)


@pytest.mark.parametrize("limit", [1, 2, 16])
def test_writes_put_while_all_writers_are_busy_are_done(limit: int) -> None:
    async def work(rig: Writing) -> None:
        for number in range(100):
            rig.put((str(number), number % 3))
            await asyncio.sleep(0)

    assert len(writing(work, limit).ended) == 100


def test_only_what_has_to_wait_costs_a_task() -> None:
    tasks: list[int] = []

    async def work(rig: Writing) -> None:
        await asyncio.sleep(1)
        rig.put(*[(str(number), 0) for number in range(100)])
        await asyncio.sleep(1)
        tasks.append(len(asyncio.all_tasks()))
        rig.put(("a", 3), ("b", 0), ("c", 3), ("d", 0), ("e", 3), ("f", 0))
        await asyncio.sleep(1)
        tasks.append(len(asyncio.all_tasks()))

    rig = writing(work)
    assert tasks[1] == tasks[0] + 2, "as many as may write at a time"
    assert (len(rig.ended), rig.ended[99][0], rig.idled) == (106, 1.0, 2)


def test_write_put_during_cancellation_waits() -> None:
    async def main() -> None:
        rig = Writing(2)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(rig.queue.run)
            await asyncio.sleep(1)
            tasks.cancel_scope.cancel()
            rig.put(("a", 1), ("b", 1))
        assert (rig.begun, len(rig.queue)) == ([], 2)

    run_virtual(main)
