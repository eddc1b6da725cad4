"""Who waits for something: the tasks that go on when a connection, a job or a callback wakes them.

What will wake a task holds the future that the task awaits: a protocol its waiter, a reader's event its own. So the
tasks are found by following references, from what happens outside to the futures, and from these by their callbacks.
"""

from __future__ import annotations

import asyncio
import contextvars
import gc
import threading
import types
import weakref
from collections.abc import Iterator
from typing import Any

#: How many references lie at most between a connection and the future behind it; TLS and a stream's reader take eight.
_DEPTH = 12

#: What leads anywhere, and wakes nobody by itself.
_OPAQUE = (
    type,
    types.ModuleType,
    types.CodeType,
    types.FrameType,
    types.CoroutineType,
    types.GeneratorType,
    types.AsyncGeneratorType,
    contextvars.Context,
    threading.Thread,
    asyncio.AbstractEventLoop,
    asyncio.AbstractServer,
    asyncio.Task,
)

Tasks = set[asyncio.Task[Any]]


def tasks_waiting_for(source: object) -> Tasks:
    """Return the tasks that await this future, or what this wakes, and those that await them in turn."""
    tasks: Tasks = set()
    looked_at: set[asyncio.Future[Any]] = set()
    sources = [source]
    while sources:
        source = sources.pop()
        for future in [source] if isinstance(source, asyncio.Future) else _futures_behind(source):
            if future in looked_at or future.done():
                continue
            looked_at.add(future)
            for callback, _ in future._callbacks or ():
                task = getattr(callback, "__self__", None)
                if isinstance(task, asyncio.Task):
                    tasks.add(task)
                    sources.append(task)
                else:
                    sources.append(callback)
    return tasks


def tasks_around(task: asyncio.Task[Any]) -> Tasks:
    """Return a task and those that await it."""
    return {task, *tasks_waiting_for(task)}


def _futures_behind(source: object) -> Iterator[asyncio.Future[Any]]:
    """Yield the futures to which this refers, by however many others."""
    seen: dict[int, object] = {}
    level = [source]
    for _ in range(_DEPTH):
        following: list[object] = []
        for found in level:
            if isinstance(found, weakref.ref):
                found = found()
            if id(found) in seen or not gc.is_tracked(found):
                continue
            if isinstance(found, _OPAQUE) or type(found).__module__.startswith("kframework."):
                continue  # the scheduler is not what a connection wakes
            seen[id(found)] = found
            if isinstance(found, asyncio.Future):
                yield found
            elif isinstance(found, types.FunctionType):
                following.append(found.__closure__)
            else:
                following.append(found)
        level = gc.get_referents(*following)
