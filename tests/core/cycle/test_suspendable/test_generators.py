"""A cycle without extenders is a plain call; one that waits needs an event loop."""

from __future__ import annotations

from collections.abc import Awaitable, Generator

import pytest

from kframework.core.cycle.suspendable import run_sync
from kframework.framework.suspendable import Suspendable, wait_for


def test_work_without_awaits_runs_synchronously() -> None:
    assert run_sync(nothing_to_ask()) == "done"


class Answer(Awaitable[None]):
    """An awaitable that is never awaited."""

    def __await__(self) -> Generator[None, None, None]:
        yield


def nothing_to_ask() -> Suspendable[str]:
    return "done"
    yield from ()


def test_work_that_awaits_needs_an_event_loop() -> None:
    journal: list[object] = []
    with pytest.raises(RuntimeError, match="no event loop drives this work"):
        run_sync(nobody(journal))
    assert journal == ["closed"]


def nobody(journal: list[object]) -> Suspendable[None]:
    try:
        yield from wait_for(Answer())
    finally:
        journal.append("closed")
