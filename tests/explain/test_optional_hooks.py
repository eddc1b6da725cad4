"""Hooks that only explanations ask may fail without spoiling them."""

from __future__ import annotations

import pytest

from kframework.explain.optional_hooks import OptionalHooks
from tests.support.helping import engine_of


def hooks() -> OptionalHooks:
    return OptionalHooks(engine_of([]).profiles["default-scheduler"])


def test_a_hook_is_found_where_a_plugin_has_it() -> None:
    assert hooks().of("NodeResourcesFit", "suggest") is not None
    assert hooks().of("NodeResourcesFit", "explain") is None
    assert hooks().of("Nobody", "explain") is None


def test_a_plugin_that_fails_is_told_of_once_and_asked_no_more(caplog: pytest.LogCaptureFixture) -> None:
    asked = hooks()

    def fail() -> str:
        raise RuntimeError("out of order")

    assert asked.safely("NodeResourcesFit", "explain", fail, "nothing") == "nothing"
    assert asked.safely("NodeResourcesFit", "explain", lambda: "something", "nothing") == "nothing"
    assert asked.safely("NodePorts", "explain", lambda: "something", "nothing") == "something"
    (message,) = caplog.messages
    assert "NodeResourcesFit" in message and "explain" in message and "out of order" in message
