"""Feeds: sources are fetched until the end, whatever their plugins' code does, and each change is published once."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import suppress
from random import Random
from typing import Any

import anyio
import pytest

from kframework import Source, SourceChange
from kframework.clock import VIRTUAL_EPOCH, LoopClock, run_virtual
from kframework.framework.source import SourceSettings
from kframework.scheduler import sources
from kframework.scheduler.sources import SourceFeed
from kframework.scheduler.timeouts import CANCEL_GRACE
from kframework.state.inbox import Message, SourceChanged, SourceFailed

KEY = "default-scheduler/Load/load"

#: What a source says, try by try: values, something to raise, or how long it takes.
Says = Mapping[str, object] | BaseException | float


def settings(**options: Any) -> SourceSettings:
    return SourceSettings(**({"every": 10.0, "jitter": 0.0} | options))


def heard(
    fetch: Callable[[], Any], seconds: float = 35.0, kind: type[Any] = float, **options: Any
) -> list[tuple[float, Message]]:
    """Follow a source for this time; return its updates with their times."""
    told: list[tuple[float, Message]] = []

    async def follow() -> None:
        loop = asyncio.get_running_loop()
        source: Source[object] = Source(KEY, kind, fetch, settings(**options))
        feed = SourceFeed(source, lambda message: told.append((loop.time(), message)), LoopClock(loop), Random(0))
        with anyio.move_on_after(seconds):
            await feed.run()

    run_virtual(follow)
    return told


def polled(*says: Says) -> Callable[[], Any]:
    """Return a fetch function that returns these values in turn and then repeats the last."""
    left = list(says)

    async def fetch() -> Mapping[str, object]:
        said = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(said, BaseException):
            raise said
        if isinstance(said, float):
            await asyncio.sleep(said)
            return {}
        return said

    return fetch


def changed(at: float, values: Mapping[str, object], gone: tuple[str, ...] = ()) -> tuple[float, Message]:
    return at, SourceChanged(KEY, VIRTUAL_EPOCH + at, values, gone)


def failed(at: float, error: str) -> tuple[float, Message]:
    return at, SourceFailed(KEY, error)


def test_source_is_polled_and_its_changes_are_published() -> None:
    says = polled({"a": 1.0, "b": 2.0}, {"a": 1.0, "b": 3.0}, {"a": 1.0}, {"a": 1.0})
    told = heard(says)
    assert told == [
        changed(0, {"a": 1.0, "b": 2.0}),
        changed(10, {"b": 3.0}),
        changed(20, {}, ("b",)),
        changed(30, {}),
    ]


def test_polls_are_spread_by_the_jitter_of_a_seed() -> None:
    def moments() -> list[float]:
        return [moment for moment, _ in heard(polled({}), 100, jitter=0.5)]

    pauses = [later - earlier for earlier, later in zip(moments(), moments()[1:], strict=False)]
    assert all(5 <= pause <= 15 for pause in pauses)
    assert len({round(pause, 3) for pause in pauses}) > 3
    assert moments() == moments()


def test_failed_source_is_retried_with_backoff_up_to_its_interval() -> None:
    told = heard(polled(ConnectionError("no route")), 40)
    assert [moment for moment, _ in told] == [0, 1, 3, 7, 15, 25, 35]
    assert {message for _, message in told} == {SourceFailed(KEY, "ConnectionError: no route")}


def test_wrong_result_is_a_failure() -> None:
    wrong: list[Any] = [
        ("no mapping", "TypeError: fetched a str, expected a mapping"),
        ({"a": "much"}, "ValueError: 'a' has the value 'much': expected a number, got a string"),
        (ValueError(), "ValueError"),
        (asyncio.CancelledError(), "RuntimeError: it awaited a cancelled task"),
        (60.0, "timed out after 10 s (its timeout)"),
    ]
    for answer, error in wrong:
        assert heard(polled(answer), 11, every=100.0, timeout=10.0)[0][1] == SourceFailed(KEY, error)


def test_fetch_that_is_no_coroutine_is_a_failure() -> None:
    ((_, message), *_) = heard(lambda: {"a": 1.0}, 1)
    assert message == SourceFailed(KEY, "TypeError: fetch must be `async def`; it returned a dict")


def test_too_many_values_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "MAX_VALUES", 2)
    told = heard(polled({"a": 1.0, "b": 1.0}, {"a": 1.0, "b": 1.0, "c": 1.0}), 11)
    assert told == [changed(0, {"a": 1.0, "b": 1.0}), failed(10, "ValueError: has more than 2 values")]


def test_as_many_values_as_may_be_may_all_change(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "MAX_VALUES", 2)
    told = heard(polled({"a": 1.0, "b": 1.0}, {"a": 2.0, "b": 2.0}, {"c": 1.0, "d": 1.0}), 21)
    assert told == [
        changed(0, {"a": 1.0, "b": 1.0}),
        changed(10, {"a": 2.0, "b": 2.0}),
        changed(20, {"c": 1.0, "d": 1.0}, ("a", "b")),
    ]


def test_fetch_that_does_not_get_as_far_as_to_be_awaited_is_a_failure() -> None:
    """`result()` of a cancelled future raises CancelledError, though the feed itself was not cancelled."""

    def fetch() -> Awaitable[Mapping[str, float]]:
        raise asyncio.CancelledError

    told = heard(fetch, 2)
    assert told == [failed(at, "RuntimeError: it awaited a cancelled task") for at in (0, 1)]


def test_exception_without_text_is_a_failure() -> None:
    class Unspeakable(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no words")

    assert heard(polled(Unspeakable()), 0.5) == [failed(0, "Unspeakable: its __str__ raises RuntimeError")]


def test_new_failure_is_logged_with_the_plugin_and_so_is_the_end_of_it(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    heard(polled(ConnectionError("no route"), ConnectionError("no route"), {}), 10)
    assert [record.getMessage() for record in caplog.records if record.name.endswith("sources")] == [
        "source 'load' of plugin Load (profile default-scheduler) failed: ConnectionError: no route",
        "source 'load' of plugin Load (profile default-scheduler) recovered",
    ]


# -- generators --------------------------------------------------------------------------------------------------------


def test_generator_publishes_at_any_time() -> None:
    async def fetch() -> AsyncIterator[Mapping[str, float] | SourceChange[float]]:
        yield {"a": 1.0, "b": 1.0}
        await asyncio.sleep(100)
        yield SourceChange({"c": 1.0}, ("b", "never"))
        await asyncio.Event().wait()

    assert heard(fetch, 1000) == [changed(0, {"a": 1.0, "b": 1.0}), changed(100.05, {"c": 1.0}, ("b",))]


def test_generator_that_ends_is_restarted_and_publishes_only_changes() -> None:
    begun = []

    async def fetch() -> AsyncIterator[Mapping[str, float]]:
        begun.append(asyncio.get_running_loop().time())
        yield {"a": 1.0}
        if len(begun) == 1:
            raise ConnectionResetError("gone")

    told = heard(fetch, 5)
    assert told[:3] == [changed(0, {"a": 1.0}), failed(0.05, "ConnectionResetError: gone"), changed(1.05, {})]
    assert begun == [0, 1.05]


def test_silence_of_a_generator_may_have_an_end() -> None:
    closed = []

    async def fetch() -> AsyncIterator[Mapping[str, float]]:
        try:
            yield {}
            await asyncio.Event().wait()
        finally:
            closed.append(True)

    told = heard(fetch, 8, timeout=5.0)
    assert told == [changed(0, {}), failed(5.0, "timed out after 5 s (its timeout)"), changed(6.0, {})]
    assert closed == [True, True]


def test_key_removed_twice_by_a_generator_is_removed() -> None:
    async def fetch() -> AsyncIterator[Mapping[str, float] | SourceChange[float]]:
        yield {"a": 1.0}
        yield SourceChange({"b": 1.0}, ("a", "a"))
        await asyncio.Event().wait()

    assert heard(fetch, 5) == [changed(0, {"a": 1.0}), changed(0.05, {"b": 1.0}, ("a",))]


@pytest.mark.parametrize("answers", [True, False])
def test_generator_that_swallows_its_cancellation_is_begun_again(answers: bool) -> None:
    """The scheduler does not wait for it, drops its late answers, and keeps none of its tasks."""
    begun = []

    async def fetch() -> AsyncIterator[Mapping[str, float]]:
        begun.append(asyncio.get_running_loop().time())
        yield {"a": 1.0}
        while len(begun) == 1:
            with suppress(asyncio.CancelledError):
                await asyncio.Event().wait()
            if answers:
                yield {"late": 1.0}
        yield {"a": 2.0}

    late = 0.0 if answers else CANCEL_GRACE
    assert heard(fetch, 7.5, timeout=5.0) == [
        changed(0, {"a": 1.0}),
        failed(5 + late, "timed out after 5 s (its timeout)"),
        changed(6 + late, {}),
        changed(6.05 + late, {"a": 2.0}),
    ]


def test_generator_that_does_not_clean_up_is_not_waited_for() -> None:
    async def fetch() -> AsyncIterator[Any]:
        try:
            yield "nonsense"
        finally:
            await asyncio.sleep(60)

    told = heard(fetch, 3.5)
    assert told == [failed(at + CANCEL_GRACE, "TypeError: fetched a str, expected a mapping") for at in (0, 2)]


def test_generator_cleans_up_in_the_task_that_it_runs_in() -> None:
    """Or what it has opened could not be closed, as anyio's scopes cannot."""
    ended = []

    async def fetch() -> AsyncIterator[Mapping[str, float]]:
        with anyio.CancelScope():
            yield {"a": 1.0}
            await asyncio.sleep(1)
            yield {"a": 2.0}
            try:
                await asyncio.Event().wait()
            finally:
                ended.append(asyncio.get_running_loop().time())

    told = heard(fetch, 8, timeout=5.0)
    assert told[:3] == [
        changed(0, {"a": 1.0}),
        changed(1.05, {"a": 2.0}),
        failed(6.05, "timed out after 5 s (its timeout)"),
    ]
    assert ended[0] == 6.05


def test_generator_that_never_rests_does_not_flood_the_inbox() -> None:
    async def fetch() -> AsyncIterator[Mapping[str, float]]:
        while True:
            yield {}

    assert len(heard(fetch, 1.01)) == 21
