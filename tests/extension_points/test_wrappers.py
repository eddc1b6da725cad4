"""Wrappers: a plugin may stand around a whole point, once per cycle."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

import pytest

from kframework import Plugin, Status, error, hookwrapper, unschedulable
from tests.extension_points.scripted import plugin, run

Wrapper = Callable[..., Generator[None, Any, object]]

#: Points that can be wrapped, and a way to meet each in a scenario of two nodes.
WRAPPABLE = ["pre_enqueue", "pre_filter", "post_filter", "pre_score", "reserve", "unreserve", "permit"]
MEETING: dict[str, dict[str, Any]] = {
    "post_filter": {"filter": unschedulable("full"), "post_filter": None},
    "pre_score": {"pre_score": None, "score": 1},
    "unreserve": {"permit": unschedulable("no"), "unreserve": None},
}


def wrapping(point: str, wrapper: Wrapper, name: str = "W") -> type[Plugin]:
    """Make a plugin that only wraps a point."""
    hooks: dict[str, Any] = {point: None}
    made = plugin(name, **hooks)

    def method(self: Plugin, *args: object) -> Generator[None, object, object]:
        return (yield from wrapper(*args))

    method.__signature__ = getattr(made, point).__signature__  # type: ignore[attr-defined]  # how pluggy learns the names
    setattr(made, point, hookwrapper(method))
    return made


def around(log: list[str], name: str) -> Wrapper:
    def wrapper(*args: object) -> Generator[None, object, object]:
        log.append(f"{name} before")
        answer = yield
        log.append(f"{name} after")
        return answer

    return wrapper


@pytest.mark.parametrize("point", WRAPPABLE)
def test_first_plugin_is_the_outermost_wrapper_and_the_point_runs_once(point: str) -> None:
    log: list[str] = []
    inner = plugin("Inner", journal=log, **MEETING.get(point, {point: None}))
    run(wrapping(point, around(log, "A"), "A"), wrapping(point, around(log, "B"), "B"), inner, nodes=("a", "b"))
    begin = log.index("A before")
    seen = [entry for entry in log[begin:] if entry.startswith(("A ", "B ")) or entry == f"Inner.{point}"]
    assert seen[:5] == ["A before", "B before", f"Inner.{point}", "B after", "A after"]
    assert seen.count(f"Inner.{point}") <= 2, "asked once, and once more to verify"


def test_wrapper_runs_even_if_no_plugin_implements_the_point() -> None:
    log: list[str] = []
    run(wrapping("permit", around(log, "W")))
    assert log == ["W before", "W after"]


def test_wrapper_can_change_the_answer() -> None:
    def soften(*args: object) -> Generator[None, Status | None, Status | None]:
        answer = yield
        return unschedulable("softened") if answer is not None else None

    result = run(wrapping("reserve", soften), plugin("R", reserve=error("hard")))
    assert result.message_of("pod") == "0/1 nodes are available: 1 softened."


def broken_before(*args: object) -> Generator[None, object, object]:
    raise ValueError("before")
    yield


def broken_after(*args: object) -> Generator[None, object, object]:
    yield
    raise ValueError("after")


def never(*args: object) -> Generator[None, object, object]:
    return None
    yield


def twice(*args: object) -> Generator[None, object, object]:
    yield
    answer = yield
    return answer


@pytest.mark.parametrize(
    ("wrapper", "message"),
    [
        (broken_before, "ValueError: before"),
        (broken_after, "ValueError: after"),
        (never, "is a wrapper that does not yield"),
        (twice, "is a wrapper that yields more than once"),
    ],
)
@pytest.mark.parametrize("point", WRAPPABLE)
def test_failing_wrapper_is_a_plugin_fault(
    point: str, wrapper: Wrapper, message: str, caplog: pytest.LogCaptureFixture
) -> None:
    inner = plugin("Inner", **MEETING.get(point, {point: None}))
    result = run(wrapping(point, wrapper), inner, nodes=("a", "b"))
    text = f"plugin 'W', hook {point}: {message}"
    assert any(record.getMessage() == text for record in caplog.records)
    if point == "pre_enqueue":
        assert result.state_of("pod") == "gated"
    elif point == "unreserve":
        assert result.message_of("pod") == "0/1 nodes are available: 1 no."
    elif point == "post_filter":
        assert result.message_of("pod") == f"0/2 nodes are available: 2 full. {text}"
    else:
        assert result.message_of("pod") == text
        assert result.state_of("pod") == "backoff"
