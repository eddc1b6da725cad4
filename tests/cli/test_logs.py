"""What is logged becomes lines on stderr."""

from __future__ import annotations

import logging

import pytest

from kframework.cli.logs import logging_to_stderr, set_verbosity
from kframework.errors import PluginError

log = logging.getLogger("some.plugin")


def fault(hook: str = "filter") -> PluginError:
    return PluginError("ValueError: odd", plugin="Odd", hook=hook, distribution="odd 1.0")


@pytest.mark.parametrize(
    ("verbosity", "written"),
    [(0, ["warning", "error"]), (1, ["info", "warning", "error"]), (4, ["debug", "info", "warning", "error"])],
)
def test_verbosity(capsys: pytest.CaptureFixture[str], verbosity: int, written: list[str]) -> None:
    with logging_to_stderr():
        set_verbosity(verbosity)
        for level in (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR):
            log.log(level, "some %s", "text")
    assert capsys.readouterr().err.splitlines() == [f"{name}: some text" for name in written]


def test_a_record_is_one_line_that_says_what_was_raised(capsys: pytest.CaptureFixture[str]) -> None:
    with logging_to_stderr():
        log.error("first\n  second", exc_info=ValueError("odd"))
        log.error("it is odd", exc_info=ValueError("odd"))
    assert capsys.readouterr().err == "error: first second: ValueError: odd\nerror: it is odd\n"


def test_a_plugin_that_fails_again_and_again_is_said_once_per_hook(capsys: pytest.CaptureFixture[str]) -> None:
    with logging_to_stderr():
        for hook in ("filter", "filter", "score", "filter"):
            log.error("%s", fault(hook))
        assert capsys.readouterr().err == f"error: {fault('filter')}\nerror: {fault('score')}\n"
    assert capsys.readouterr().err == "error: plugin 'Odd', hook filter: failed 2 more times (-v 4 shows each)\n"


def test_every_fault_is_shown_with_its_traceback_when_asked(capsys: pytest.CaptureFixture[str]) -> None:
    with logging_to_stderr():
        set_verbosity(4)
        for _ in range(3):
            log.error("%s", fault(), exc_info=ValueError("odd"))
    err = capsys.readouterr().err
    assert err.count(f"error: {fault()}\nValueError: odd\n") == 3
    assert "more times" not in err


def test_the_loggers_are_left_as_they_were() -> None:
    root = logging.getLogger()
    before = root.level, list(root.handlers)
    with logging_to_stderr():
        set_verbosity(4)
    assert (root.level, list(root.handlers)) == before
