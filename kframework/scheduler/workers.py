"""Tasks that do one piece of work after the other: making one took a twentieth of all that a pod with a claim costs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

from anyio.abc import TaskGroup

from kframework.core.runtime.timing import AttemptTrace, current_attempt

#: How many tasks rest at most until there is work again.
MOST_RESTING = 64


class Workers:
    """Begins all work at once, side by side, in tasks of a group; when that is cancelled, so is the work.

    Work belongs to the attempt in which it is begun; other context than that it finds as other work left it.
    """

    def __init__(self, tasks: TaskGroup) -> None:
        self._tasks = tasks
        #: What those who rest wait for: work, and the attempt that it belongs to.
        self._resting: list[asyncio.Future[tuple[Awaitable[None], AttemptTrace | None]]] = []

    def begin(self, work: Awaitable[None]) -> None:
        """Begin work; what it raises ends the group."""
        while self._resting:
            rest = self._resting.pop()
            if not rest.done():  # or else it was cancelled with the group
                rest.set_result((work, current_attempt.get()))
                return
        self._tasks.start_soon(self._work, work)

    def begin_alone(self, work: Awaitable[None]) -> None:
        """Begin work in a task of its own, with the context that is current now."""
        self._tasks.start_soon(_awaited, work)

    async def _work(self, work: Awaitable[None]) -> None:
        await work
        while len(self._resting) < MOST_RESTING:
            # Who rests holds on to nothing of what was done: its pod may be gone by the time that there is work again.
            del work
            current_attempt.set(None)
            rest = asyncio.get_running_loop().create_future()
            self._resting.append(rest)
            work, attempt = await rest
            current_attempt.set(attempt)
            del rest, attempt
            await work

    def __repr__(self) -> str:
        return f"<Workers: {len(self._resting)} at rest>"


async def _awaited(work: Awaitable[None]) -> None:
    await work
