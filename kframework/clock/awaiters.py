"""Find the tasks that await a connection, a job or a callback.

The object that wakes a task refers to the future that the task awaits: a protocol to its waiter, a reader to its
event's. So references lead from the object to futures, and the callbacks of futures to tasks.
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

#: Most references to follow from a connection to a future; TLS and a stream's reader take eight.
_MAX_DEPTH = 12

#: Types that refer to nearly everything and wake no task themselves.
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


def find_awaiters(source: object) -> Tasks:
    """Return the tasks that await this future, or the futures behind this object, and the tasks that await those."""
    tasks: Tasks = set()
    visited: set[asyncio.Future[Any]] = set()
    sources = [source]
    while sources:
        source = sources.pop()
        for future in [source] if isinstance(source, asyncio.Future) else _reachable_futures(source):
            if future in visited or future.done():
                continue
            visited.add(future)
            for callback, _ in future._callbacks or ():
                task = getattr(callback, "__self__", None)
                if isinstance(task, asyncio.Task):
                    tasks.add(task)
                    sources.append(task)
                else:
                    sources.append(callback)
    return tasks


def task_and_awaiters(task: asyncio.Task[Any]) -> Tasks:
    return {task, *find_awaiters(task)}


def _reachable_futures(source: object) -> Iterator[asyncio.Future[Any]]:
    seen: dict[int, object] = {}
    level = [source]
    for _ in range(_MAX_DEPTH):
        next_level: list[object] = []
        for referent in level:
            if isinstance(referent, weakref.ref):
                referent = referent()
            if id(referent) in seen or not gc.is_tracked(referent):
                continue
            if isinstance(referent, _OPAQUE) or type(referent).__module__.startswith("kframework."):
                continue  # a connection does not wake the scheduler itself
            seen[id(referent)] = referent
            if isinstance(referent, asyncio.Future):
                yield referent
            elif isinstance(referent, types.FunctionType):
                next_level.append(referent.__closure__)
            else:
                next_level.append(referent)
        level = gc.get_referents(*next_level)
