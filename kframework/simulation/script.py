"""A script: what happens to a simulated cluster, and when."""

from __future__ import annotations

import asyncio
import inspect
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from typing import ClassVar

from kframework.clock import Clock
from kframework.in_memory.cluster import MemoryCluster
from kframework.objects import ApiObject

#: Changes the cluster; any function of it will do.
Action = Callable[[MemoryCluster], Awaitable[object] | object]

#: An action, and the seconds after the start at which it happens.
TimedAction = tuple[float, Action]


class Script:
    """Changes a cluster at given times, in seconds since the script was created.

    An action at 0 happens before the scheduler lists the cluster. A simulation is not over before the last action.
    """

    kinds: ClassVar[tuple[type[ApiObject], ...]] = ()

    def __init__(self, cluster: MemoryCluster, clock: Clock, actions: Iterable[TimedAction]) -> None:
        self.on_idle: Callable[[], None] = lambda: None
        self._cluster = cluster
        self._clock = clock
        self._began = clock.now()
        self._actions = deque(sorted(actions, key=lambda timed: timed[0]))

    @property
    def idle(self) -> bool:
        """Whether no action is left."""
        return not self._actions

    async def run(self) -> None:
        """Run each action at its time."""
        while self._actions:
            moment = self._actions[0][0]
            await asyncio.sleep(max(0.0, self._began + moment - self._clock.now()))
            while self._actions and self._actions[0][0] <= moment:
                done = self._actions[0][1](self._cluster)
                if inspect.isawaitable(done):
                    await done
                self._actions.popleft()
        self.on_idle()
