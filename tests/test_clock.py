"""Time: the machine's, the loop's, and the virtual one; and chance, a generator of its own for every purpose."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kframework.clock import VIRTUAL_EPOCH, LoopClock, Seeds, SystemClock, outside, rfc3339, run_virtual, seconds_of


def test_sleeping_takes_virtual_time_only() -> None:
    async def main() -> tuple[float, float]:
        loop = asyncio.get_running_loop()
        begin = loop.time()
        await asyncio.sleep(3600 * 24)
        return begin, loop.time()

    assert run_virtual(main) == (0.0, 86400.0)


def test_timers_fire_in_their_order_at_their_times() -> None:
    async def main() -> list[tuple[float, str]]:
        loop = asyncio.get_running_loop()
        fired: list[tuple[float, str]] = []

        async def note(name: str, after: float) -> None:
            await asyncio.sleep(after)
            fired.append((loop.time(), name))

        await asyncio.gather(note("c", 7.5), note("a", 1), note("b", 7.25), note("now", 0))
        return fired

    assert run_virtual(main) == [(0.0, "now"), (1.0, "a"), (7.25, "b"), (7.5, "c")]


def test_timeouts_are_virtual_too() -> None:
    async def main() -> float:
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(asyncio.Event().wait(), timeout=900)
        return asyncio.get_running_loop().time()

    assert run_virtual(main) == 900.0


def test_work_that_is_ready_comes_before_a_jump() -> None:
    async def main() -> list[float]:
        loop = asyncio.get_running_loop()
        times: list[float] = []
        loop.call_later(10, lambda: times.append(loop.time()))
        for _ in range(50):
            await asyncio.sleep(0)
            times.append(loop.time())
        await asyncio.sleep(20)
        return times

    assert run_virtual(main) == [0.0] * 50 + [10.0]


def test_data_that_is_there_comes_before_a_jump() -> None:
    async def main() -> tuple[bytes, float]:
        loop = asyncio.get_running_loop()
        near, far = socket.socketpair()
        with near, far:
            near.setblocking(False)
            far.send(b"x")
            data = await asyncio.wait_for(loop.sock_recv(near, 1), timeout=100)
        return data, loop.time()

    assert run_virtual(main) == (b"x", 0.0)


def test_without_timers_the_loop_waits_for_the_outside() -> None:
    async def main() -> str:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[str] = loop.create_future()
        thread = threading.Thread(target=lambda: loop.call_soon_threadsafe(answer.set_result, "outside"))
        thread.start()
        try:
            return await answer
        finally:
            thread.join()

    assert run_virtual(main) == "outside"


def after(seconds: float, work: Callable[[], object]) -> threading.Timer:
    """Let something happen outside, after so much real time."""
    timer = threading.Timer(seconds, work)
    timer.start()
    return timer


def test_time_stands_still_while_an_answer_from_outside_is_awaited() -> None:
    async def main() -> tuple[str, float, list[float]]:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[str] = loop.create_future()
        fired: list[float] = []
        loop.call_later(0.001, lambda: fired.append(loop.time()))
        timer = after(0.02, lambda: loop.call_soon_threadsafe(answer.set_result, "outside"))
        try:
            async with outside(60.0):
                result = await answer
        finally:
            timer.join()
        fired_meanwhile = list(fired)
        await asyncio.sleep(5)
        return result, loop.time(), fired_meanwhile + fired

    assert run_virtual(main) == ("outside", 5.0, [0.001])


def test_what_is_ready_runs_before_an_answer_is_taken_in() -> None:
    async def main() -> list[str]:
        loop = asyncio.get_running_loop()
        order: list[str] = []
        near, far = socket.socketpair()
        with near, far:
            near.setblocking(False)
            far.send(b"x")

            async def inside() -> None:
                for _ in range(50):
                    await asyncio.sleep(0)
                order.append("inside")

            working = asyncio.ensure_future(inside())
            async with outside(60.0):
                await _readable(loop, near)
            order.append("answer")
            await working
        return order

    assert run_virtual(main) == ["inside", "answer"]


async def _readable(loop: asyncio.AbstractEventLoop, near: socket.socket) -> None:
    ready = asyncio.Event()
    loop.add_reader(near, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(near)


@pytest.mark.parametrize("runner", [run_virtual, lambda main: asyncio.run(main())])
def test_an_answer_from_outside_has_its_limit_in_real_time(runner: Callable[..., float]) -> None:
    async def main() -> float:
        loop = asyncio.get_running_loop()
        with pytest.raises(TimeoutError):
            async with outside(0.01):
                await loop.create_future()
        return loop.time()

    began = time.monotonic()
    ended = runner(main)
    assert time.monotonic() - began >= 0.01
    assert ended == 0.0 or runner is not run_virtual


def test_several_answers_are_awaited_each_with_its_limit() -> None:
    async def main() -> tuple[list[str], float]:
        loop = asyncio.get_running_loop()
        order: list[str] = []

        answer: asyncio.Future[None] = loop.create_future()

        async def patient() -> None:
            async with outside(60.0):
                await answer
            order.append("answered")

        async def impatient() -> None:
            with pytest.raises(TimeoutError):
                async with outside(0.01):
                    await loop.create_future()
            order.append("too late")
            after(0.0, lambda: loop.call_soon_threadsafe(answer.set_result, None)).join()

        await asyncio.gather(patient(), impatient())
        return order, loop.time()

    assert run_virtual(main) == (["too late", "answered"], 0.0)


def test_what_the_coroutine_raises_comes_out() -> None:
    async def main() -> None:
        await asyncio.sleep(5)
        raise LookupError("lost")

    with pytest.raises(LookupError, match="lost"):
        run_virtual(main)


@pytest.mark.parametrize(
    ("epoch", "expected"), [(VIRTUAL_EPOCH, "2026-01-01T00:01:30Z"), (0.0, "1970-01-01T00:01:30Z")]
)
def test_the_loops_clock_counts_from_its_epoch(epoch: float, expected: str) -> None:
    async def main() -> float:
        clock = LoopClock(asyncio.get_running_loop(), epoch)
        await asyncio.sleep(90)
        return clock.now()

    assert rfc3339(run_virtual(main)) == expected


def test_the_system_clock_is_not_moved_by_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    wall, monotonic = 1_000_000.0, 50.0
    monkeypatch.setattr(time, "time", lambda: wall)
    monkeypatch.setattr(time, "monotonic", lambda: monotonic)
    clock = SystemClock()
    assert clock.now() == 1_000_000.0
    wall, monotonic = 5.0, 62.5
    assert clock.now() == 1_000_012.5


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "1970-01-01T00:00:00Z"),
        (VIRTUAL_EPOCH, "2026-01-01T00:00:00Z"),
        (VIRTUAL_EPOCH + 59.999, "2026-01-01T00:00:59Z"),
        (951782400.0, "2000-02-29T00:00:00Z"),
    ],
)
def test_times_are_written_as_kubernetes_does(seconds: float, text: str) -> None:
    assert rfc3339(seconds) == text


@given(st.integers(0, 4_000_000_000))
def test_times_are_read_back(seconds: int) -> None:
    assert seconds_of(rfc3339(seconds)) == seconds


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1970-01-01T00:00:01.500000Z", 1.5),
        ("1970-01-01T02:00:00+02:00", 0.0),
        ("2026-01-01T00:00:00Z", VIRTUAL_EPOCH),
    ],
)
def test_times_of_other_writers_are_read(text: str, seconds: float) -> None:
    assert seconds_of(text) == seconds


@pytest.mark.parametrize("text", ["", "yesterday", "2026-13-01T00:00:00Z"])
def test_what_is_no_time_is_an_error(text: str) -> None:
    with pytest.raises(ValueError):
        seconds_of(text)


def test_the_same_seed_and_purpose_give_the_same_draws() -> None:
    assert Seeds(7).generator("ties").random() == Seeds(7).generator("ties").random()


def test_seeds_and_purposes_do_not_follow_one_another() -> None:
    drawn = {Seeds(seed).generator(purpose).random() for seed in (0, 1, 10) for purpose in ("ties", "0/ties", "jitter")}
    assert len(drawn) == 9


def test_no_ones_draws_move_anothers() -> None:
    seeds = Seeds(7)
    alone = Seeds(7).generator("ties").random()
    seeds.generator("jitter").random()
    assert seeds.generator("ties").random() == alone


def test_another_process_draws_the_same() -> None:
    program = "from kframework.clock import Seeds; print(Seeds(7).generator('ties').random())"
    for hash_seed in ("1", "2"):
        process = subprocess.run(
            [sys.executable, "-c", program],
            env=os.environ | {"PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        )
        assert float(process.stdout) == Seeds(7).generator("ties").random()
