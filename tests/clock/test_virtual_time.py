"""The loop jumps to its next timer; virtual time is paused while an answer from outside is awaited."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Callable

import pytest

from kframework.clock import await_in_order, external_wait, run_virtual


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


@pytest.mark.parametrize("others", range(6))
def test_timers_of_one_moment_fire_in_the_order_in_which_they_were_set(others: int) -> None:
    fired: list[int] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        for number in range(others):
            loop.call_at(0.5 + number, lambda: None)
        for number in range(8):
            loop.call_at(1.0, fired.append, number)
        await asyncio.sleep(2)

    run_virtual(main)
    assert fired == [*range(8)]


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
    """Call `work` from a thread after `seconds` of real time."""
    timer = threading.Timer(seconds, work)
    timer.start()
    return timer


def test_time_is_paused_while_an_external_answer_is_awaited() -> None:
    async def main() -> tuple[str, float, list[float]]:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[str] = loop.create_future()
        fired: list[float] = []

        async def fire() -> None:  # its own task: a timer of the waiting task would count as a timeout
            await asyncio.sleep(0.001)
            fired.append(loop.time())

        firing = asyncio.ensure_future(fire())
        timer = after(0.05, lambda: loop.call_soon_threadsafe(answer.set_result, "outside"))
        try:
            async with external_wait(60.0):
                result = await answer
        finally:
            timer.join()
        fired_meanwhile = list(fired)
        await asyncio.sleep(5)
        await firing
        return result, loop.time(), fired_meanwhile + fired

    assert run_virtual(main) == ("outside", 5.0, [0.001])


def test_ready_callbacks_run_before_an_answer_is_read() -> None:
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
            async with external_wait(60.0):
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
def test_answer_from_outside_has_its_limit_in_real_time(runner: Callable[..., float]) -> None:
    async def main() -> float:
        loop = asyncio.get_running_loop()
        with pytest.raises(TimeoutError):
            async with external_wait(0.01):
                await loop.create_future()
        return loop.time()

    began = time.monotonic()
    ended = runner(main)
    assert time.monotonic() - began >= 0.01
    assert ended == 0.01 or runner is not run_virtual


def test_run_virtual_raises_what_the_coroutine_raises() -> None:
    async def main() -> None:
        await asyncio.sleep(5)
        raise LookupError("lost")

    with pytest.raises(LookupError, match="lost"):
        run_virtual(main)


def test_result_of_the_coroutine_is_never_formatted() -> None:
    class Result:
        def __repr__(self) -> str:
            raise AssertionError("Python does, for a task at the end of a run, and a simulation's result is long")

    async def main() -> Result:
        return Result()

    assert type(run_virtual(main)) is Result


def test_spinning_task_gets_its_answer() -> None:
    async def main() -> float:
        answer = asyncio.get_running_loop().run_in_executor(None, time.sleep, 0.01)
        while not answer.done():  # noqa: ASYNC110  # the waste of turns is the point
            await asyncio.sleep(0)
        return asyncio.get_running_loop().time()

    assert run_virtual(main) == 0.0


def test_tasks_resume_in_order_of_their_numbers() -> None:
    async def main() -> list[int]:
        order: list[int] = []

        async def ask(number: int) -> None:
            await await_in_order(number, asyncio.to_thread(time.sleep, 0.01 * (3 - number)))
            order.append(number)

        await asyncio.gather(*map(ask, range(4)), asyncio.sleep(1))
        return order

    assert run_virtual(main) == [0, 1, 2, 3]


def test_failed_awaits_resume_in_order_too() -> None:
    async def main() -> list[str]:
        order: list[str] = []

        async def fail() -> None:
            with pytest.raises(OSError, match="broken"):
                await await_in_order(2, asyncio.to_thread(_broken))
            order.append("failed")

        async def answer() -> None:
            await await_in_order(1, asyncio.to_thread(time.sleep, 0.02))
            order.append("answered")

        await asyncio.gather(fail(), answer())
        return order

    assert run_virtual(main) == ["answered", "failed"]


def _broken() -> None:
    raise OSError("broken")


def test_await_without_answers_from_outside_resumes_at_once() -> None:
    async def main() -> list[str]:
        order: list[str] = []

        async def sleep() -> None:
            await await_in_order(1, asyncio.sleep(0))
            order.append("slept")

        async def turn() -> None:
            for _ in range(5):
                await asyncio.sleep(0)
            order.append("turned")

        await asyncio.gather(sleep(), turn())
        return order

    assert run_virtual(main) == ["slept", "turned"]


def test_task_cancelled_while_waiting_for_its_turn_is_skipped() -> None:
    async def main() -> str:
        slow = asyncio.ensure_future(asyncio.to_thread(time.sleep, 0.05))
        early = asyncio.ensure_future(await_in_order(1, asyncio.to_thread(time.sleep, 0)))
        await asyncio.to_thread(time.sleep, 0.02)
        early.cancel()
        await slow
        await asyncio.sleep(1)
        return "cancelled" if early.cancelled() else "done"

    assert run_virtual(main) == "cancelled"
