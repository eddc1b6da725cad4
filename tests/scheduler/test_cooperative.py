"""Long work is done in slices, and others have their turn between them."""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Iterator
from contextlib import contextmanager

import pytest

from kframework.scheduler import cooperative
from kframework.scheduler.cooperative import (
    MESSAGES_PER_TURN,
    apply_in_turns,
    run_cooperatively,
    run_to_end,
    time_sliced,
    wait_until_idle,
)
from kframework.state.cluster import ClusterState
from kframework.state.inbox import ActivateRequested
from tests.support.remedies import make_engine


def test_work_is_done_in_slices_each_in_a_context_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    log: list[str] = []
    time = iter(range(100))
    monkeypatch.setattr(cooperative, "perf_counter", lambda: next(time) / 10)
    monkeypatch.setattr(cooperative, "SLICE", 0.15)

    @contextmanager
    def aside() -> Iterator[None]:
        log.append("(")
        yield
        log.append(")")

    def work() -> Iterator[None]:
        for number in range(5):
            log.append(str(number))
            yield

    log.extend("-" for _ in time_sliced(work(), aside))
    assert "".join(log) == "(01)-(23)-(4)"


def test_work_that_raises_leaves_its_context(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cooperative, "SLICE", 1000.0)
    left: list[bool] = []

    @contextmanager
    def aside() -> Iterator[None]:
        try:
            yield
        finally:
            left.append(True)

    def work() -> Iterator[None]:
        yield
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        list(time_sliced(work(), aside))
    assert left == [True]


def counting(log: list[str]) -> Generator[None, None, int]:
    for number in range(3):
        log.append(str(number))
        yield
    return 3


def test_work_is_done_to_its_end() -> None:
    assert run_to_end(counting([])) == 3


async def test_others_have_their_turn_wherever_work_pauses() -> None:
    log: list[str] = []

    async def other() -> None:
        for _ in range(3):
            log.append("-")
            await asyncio.sleep(0)

    beside = asyncio.ensure_future(other())
    assert await run_cooperatively(ClusterState(), counting(log)) == 3
    await beside
    assert "".join(log) == "0-1-2-"


async def test_work_rests_while_something_is_only_supposed() -> None:
    log: list[str] = []
    cluster = ClusterState()
    statement = cluster.statement()
    asked = asyncio.ensure_future(run_cooperatively(cluster, counting(log)))
    await _turns(5)
    assert log == []
    statement.rollback()
    await _turns(2)
    assert log
    done = list(log)
    statement = cluster.statement()
    await _turns(5)
    assert log == done and not asked.done()
    statement.rollback()
    assert await asked == 3


async def test_wait_ends_at_once_without_a_what_if() -> None:
    cluster = ClusterState()
    is_backing_off = wait_until_idle(cluster)
    with pytest.raises(StopIteration):
        is_backing_off.send(None)


async def _turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def applied_by_turn(arriving: int) -> list[int]:
    """Apply a hundred messages while other tasks bring this many in each turn; return how many are applied in each."""
    engine, applied = make_engine([]), list[int]()
    for _ in range(100):
        engine.offer(ActivateRequested(()))

    async def bring() -> None:
        before = 100
        while True:
            applied.append(before - len(engine.inbox))
            for _ in range(arriving):
                engine.offer(ActivateRequested(()))
            before = len(engine.inbox)
            await asyncio.sleep(0)

    other = asyncio.create_task(bring())
    await apply_in_turns(engine)
    other.cancel()
    return [*applied, len(engine.inbox)]


def test_many_messages_are_applied_in_turns_and_a_few_left_to_the_next_step() -> None:
    *turns, left = asyncio.run(applied_by_turn(0))
    assert set(turns) == {MESSAGES_PER_TURN} and left <= MESSAGES_PER_TURN
    assert sum(turns) + left == 100


def test_messages_that_come_as_fast_as_they_are_applied_are_left_to_the_next_step() -> None:
    *turns, left = asyncio.run(applied_by_turn(MESSAGES_PER_TURN))
    assert turns == [MESSAGES_PER_TURN] and left == 100
