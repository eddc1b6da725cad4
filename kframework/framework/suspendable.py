"""Generators that yield awaitables and receive their results: one code path, with or without an event loop.

A scheduling cycle yields calls to extenders, a binding cycle calls of plugins and the cluster that do not complete at
once. A generator that yields nothing is a plain call: a pod that never waits costs no task (26 us of a simulated pod's
435; with a claim, whose writes have a dozen coroutines in between, 430 of 2,200 function calls).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Generator
from typing import Any, TypeVar

from kframework.framework.handle import Completed

T = TypeVar("T")

#: Work that may have to wait before it is complete.
Suspendable = Generator[Awaitable[object], object, T]


def wait_for(question: Awaitable[T]) -> Suspendable[T]:
    """Yield an awaitable to the driver and return its result; one that is `Completed` is skipped."""
    # Several per pod, and a cast is a call more.
    answer: T = question.result if type(question) is Completed else (yield question)  # type: ignore[assignment]  # the driver's answer
    return answer


def start(work: Suspendable[T]) -> T | Coroutine[Any, Any, T]:
    """Run work until it must wait: return its result, or else a coroutine for the rest."""
    try:
        question = next(work)
    except StopIteration as end:
        result: T = end.value
        return result
    return run_async(work, question)


def wrap_waiting(work: Suspendable[T], wrap: Callable[[Coroutine[Any, Any, T]], Awaitable[T]]) -> Suspendable[T]:
    """Run work; if it must wait, the rest of it is awaited inside what `wrap` makes of it."""
    try:
        question = next(work)
    except StopIteration as end:
        result: T = end.value
        return result
    return (yield from wait_for(wrap(run_async(work, question))))


async def run_async(work: Suspendable[T], question: Awaitable[object] | None = None) -> T:
    """Run work to its end, awaiting what it yields, starting with `question` if it is already suspended on that."""
    try:
        question = next(work) if question is None else question
        while True:
            try:
                answer = await question
            except BaseException as error:
                question = work.throw(error)
            else:
                question = work.send(answer)
    except StopIteration as end:
        result: T = end.value
        return result
    finally:
        work.close()
