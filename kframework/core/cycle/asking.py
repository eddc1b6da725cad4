"""Work that may have to wait: a generator that yields what is to be awaited, and gets the answer sent back.

A scheduling cycle yields what it asks extenders, a binding cycle what its plugins and the cluster do not answer at
once. What yields nothing is a plain call: a pod that nobody waits for costs no task (26 us of a simulated pod's 435).
"""

from __future__ import annotations

from collections.abc import Awaitable, Generator
from typing import TypeVar, cast

from kframework.framework.handle import DONE

T = TypeVar("T")

#: Work that may have to wait before it comes to its end.
Asking = Generator[Awaitable[object], object, T]


def answered(question: Awaitable[T]) -> Asking[T]:
    """Have a question answered by whoever drives the work; DONE is answered already, and nobody hears of it."""
    return cast("T", None if question is DONE else (yield question))


def unasked(work: Asking[T]) -> T:
    """Bring work to its end that has nothing to wait for."""
    try:
        question = next(work)
    except StopIteration as end:
        return cast("T", end.value)
    raise RuntimeError(f"there is nobody to answer {question!r}")


async def awaited(work: Asking[T], question: Awaitable[object] | None = None) -> T:
    """Bring work to its end, awaiting what it asks: first the question that it has been asking, if it has begun."""
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
        return cast("T", end.value)
    finally:
        work.close()
