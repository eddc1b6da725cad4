"""Worlds side by side: for each a pair of processes, one lives through it, one says whether it comes to the same."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import aclosing

import anyio
import msgspec

from tests.architecture.sources import ROOT
from tests.faults.worlds import WorldOrder, WorldResult

__all__ = ["FinishedWorld", "run_in_parallel"]

#: A world that takes longer has come to a standstill, in seconds.
PATIENCE = 300.0

#: An answer may be long where much is wrong, in bytes.
LONGEST = 1 << 26


class FinishedWorld(msgspec.Struct, frozen=True):
    """A world, what did not hold, and which pair of processes it was; `result` is None if it never came to its end."""

    order: WorldOrder
    pair: int
    result: WorldResult | None
    problems: list[str]


async def run_in_parallel(orders: Iterator[WorldOrder], pairs: int, finished: Callable[[FinishedWorld], None]) -> None:
    """Have this number of pairs of processes carry out all orders."""
    async with anyio.create_task_group() as tasks:
        for number in range(pairs):
            tasks.start_soon(_pair, number, orders, finished)


async def _pair(number: int, orders: Iterator[WorldOrder], finished: Callable[[FinishedWorld], None]) -> None:
    async with aclosing(_Worker(2 * number + 1)) as living, aclosing(_Worker(2 * number + 2)) as again:
        for order in orders:
            finished(await _done(order, number, living, again))


async def _done(order: WorldOrder, number: int, living: _Worker, again: _Worker) -> FinishedWorld:
    try:
        result = msgspec.json.decode(await living.ask(order), type=WorldResult)
    except _NoAnswer as error:
        return FinishedWorld(order, number, None, [str(error)])
    try:
        answer = await again.ask(msgspec.structs.replace(order, before=result))
    except _NoAnswer as error:
        return FinishedWorld(order, number, result, [*result.problems, f"again: {error}"])
    return FinishedWorld(order, number, result, [*result.problems, *msgspec.json.decode(answer, type=list[str])])


class _NoAnswer(Exception):
    """A process has given no answer."""


class _Worker:
    """A process that carries out orders; another one replaces it if it dies or does not answer."""

    def __init__(self, hash_seed: int) -> None:
        self._environment = {**os.environ, "PYTHONHASHSEED": str(hash_seed)}
        self._process: asyncio.subprocess.Process | None = None

    async def ask(self, order: WorldOrder) -> bytes:
        """Return the answer to an order."""
        process = self._process or await self._start_process()
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(msgspec.json.encode(order) + b"\n")
        try:
            async with asyncio.timeout(PATIENCE):
                answer = await process.stdout.readline()
        except TimeoutError:
            await self.aclose()
            raise _NoAnswer(f"does not end within {PATIENCE:g} s") from None
        if not answer:
            code = await process.wait()
            self._process = None
            raise _NoAnswer(f"the process ended with {code}")
        return answer

    async def _start_process(self) -> asyncio.subprocess.Process:
        # Ctrl-C is for whoever gives the orders.
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.faults.worlds"),
            cwd=ROOT,
            env=self._environment,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=LONGEST,
            start_new_session=True,
        )
        return self._process

    async def aclose(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is not None and process.returncode is None:
            process.kill()
            with anyio.CancelScope(shield=True):
                await process.wait()
