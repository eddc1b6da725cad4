"""Long work is done in slices, and others have their turn between them."""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Iterator
from contextlib import contextmanager

import pytest

from kframework.observe.explain import slices
from kframework.observe.explain.slices import finished, finished_giving_way, in_slices


def test_work_is_done_in_slices_each_in_a_context_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    log: list[str] = []
    time = iter(range(100))
    monkeypatch.setattr(slices, "perf_counter", lambda: next(time) / 10)
    monkeypatch.setattr(slices, "SLICE", 0.15)

    @contextmanager
    def aside() -> Iterator[None]:
        log.append("(")
        yield
        log.append(")")

    def work() -> Iterator[None]:
        for number in range(5):
            log.append(str(number))
            yield

    log.extend("-" for _ in in_slices(work(), aside))
    assert "".join(log) == "(01)-(23)-(4)"


def test_work_that_raises_leaves_its_context(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slices, "SLICE", 1000.0)
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
        list(in_slices(work(), aside))
    assert left == [True]


def counting(log: list[str]) -> Generator[None, None, int]:
    for number in range(3):
        log.append(str(number))
        yield
    return 3


def test_work_is_done_to_its_end() -> None:
    assert finished(counting([])) == 3


async def test_others_have_their_turn_wherever_work_pauses() -> None:
    log: list[str] = []

    async def other() -> None:
        for _ in range(3):
            log.append("-")
            await asyncio.sleep(0)

    beside = asyncio.ensure_future(other())
    assert await finished_giving_way(counting(log)) == 3
    await beside
    assert "".join(log) == "0-1-2-"
