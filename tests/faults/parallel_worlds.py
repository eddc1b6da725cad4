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
from tests.faults.worlds import Lived, Order

__all__ = ["Finished", "side_by_side"]

#: A world that takes longer has come to a standstill, in seconds.
PATIENCE = 300.0

#: An answer may be long where much is wrong, in bytes.
LONGEST = 1 << 26


class Finished(msgspec.Struct, frozen=True):
    """A world, what did not hold, and which pair of processes it was; `lived` is None if it never came to its end."""

    order: Order
    pair: int
    lived: Lived | None
    complaints: list[str]


async def side_by_side(orders: Iterator[Order], pairs: int, finished: Callable[[Finished], None]) -> None:
    """Have all orders done by so many pairs of processes."""
    async with anyio.create_task_group() as tasks:
        for number in range(pairs):
            tasks.start_soon(_pair, number, orders, finished)


async def _pair(number: int, orders: Iterator[Order], finished: Callable[[Finished], None]) -> None:
    async with aclosing(_Worker(2 * number + 1)) as living, aclosing(_Worker(2 * number + 2)) as again:
        for order in orders:
            finished(await _done(order, number, living, again))


async def _done(order: Order, number: int, living: _Worker, again: _Worker) -> Finished:
    try:
        lived = msgspec.json.decode(await living.ask(order), type=Lived)
    except _Silent as error:
        return Finished(order, number, None, [str(error)])
    try:
        answer = await again.ask(msgspec.structs.replace(order, before=lived))
    except _Silent as error:
        return Finished(order, number, lived, [*lived.complaints, f"again: {error}"])
    return Finished(order, number, lived, [*lived.complaints, *msgspec.json.decode(answer, type=list[str])])


class _Silent(Exception):
    """A process has given no answer."""


class _Worker:
    """A process that does what it is told; another one takes the place of one that dies, or does not answer."""

    def __init__(self, hash_seed: int) -> None:
        self._environment = {**os.environ, "PYTHONHASHSEED": str(hash_seed)}
        self._process: asyncio.subprocess.Process | None = None

    async def ask(self, order: Order) -> bytes:
        """Return the answer to an order."""
        process = self._process or await self._started()
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(msgspec.json.encode(order) + b"\n")
        try:
            async with asyncio.timeout(PATIENCE):
                answer = await process.stdout.readline()
        except TimeoutError:
            await self.aclose()
            raise _Silent(f"does not end within {PATIENCE:g} s") from None
        if not answer:
            code = await process.wait()
            self._process = None
            raise _Silent(f"the process ended with {code}")
        return answer

    async def _started(self) -> asyncio.subprocess.Process:
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
