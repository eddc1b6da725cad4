"""What is logged becomes lines on stderr."""

from __future__ import annotations

import logging

import pytest

from kframework.cli.logs import logging_to_stderr, set_verbosity, sparing
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


def at(seconds: float, text: str, *args: object, level: int = logging.WARNING) -> None:
    record = log.makeRecord(log.name, level, "file", 1, text, args, None)
    record.created = seconds
    log.handle(record)


def test_warnings_in_the_same_words_are_few(capsys: pytest.CaptureFixture[str]) -> None:
    with logging_to_stderr(), sparing(0):
        for second in range(61):
            at(1000.0 + second, "no answer for %d s", second)
        at(1061.0, "no %s", "answer")
    assert capsys.readouterr().err.splitlines() == [
        *(f"warning: no answer for {second} s" for second in range(5)),
        "warning: no answer for 60 s (55 more like the last ones)",
        "warning: no answer",
    ]


@pytest.mark.parametrize(("verbosity", "level"), [(4, logging.WARNING), (1, logging.INFO)])
def test_what_was_asked_for_is_never_too_much(capsys: pytest.CaptureFixture[str], verbosity: int, level: int) -> None:
    with logging_to_stderr(), sparing(verbosity):
        set_verbosity(verbosity)
        for _ in range(99):
            at(1000.0, "no answer", level=level)
    assert len(capsys.readouterr().err.splitlines()) == 99


def test_the_faults_of_a_plugin_are_counted_all_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    with logging_to_stderr(), sparing(0):
        for _ in range(99):
            log.error("%s", fault())
    assert capsys.readouterr().err.splitlines()[-1].endswith("failed 98 more times (-v 4 shows each)")


def test_the_loggers_are_left_as_they_were() -> None:
    root = logging.getLogger()
    before = root.level, list(root.handlers)
    with logging_to_stderr():
        set_verbosity(4)
    assert (root.level, list(root.handlers)) == before
