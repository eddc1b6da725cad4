"""What is logged becomes lines on stderr."""

from __future__ import annotations

import errno
import io
import json
import logging
import os

import pytest

from kframework.cli.logs import LoggingFormat, deduplicated_logs, logging_to_stderr, set_format, set_verbosity
from kframework.errors import PluginError
from kframework.verbosity import NOTICE, V2, V3, V5, V10, notify_user

log = logging.getLogger("some.plugin")


def fault(hook: str = "filter") -> PluginError:
    return PluginError("ValueError: odd", plugin="Odd", hook=hook, distribution="odd 1.0")


LEVELS = {
    level: logging.getLevelName(level) for level in (V10, V5, 10, V3, V2, 20, NOTICE, logging.WARNING, logging.ERROR)
}


@pytest.mark.parametrize(("verbosity", "least"), [(0, "NOTICE"), (1, "INFO"), (2, "V2"), (4, "DEBUG"), (10, "V10")])
def test_verbosity_sets_the_level(capsys: pytest.CaptureFixture[str], verbosity: int, least: str) -> None:
    with logging_to_stderr():
        set_verbosity(verbosity)
        for level, name in LEVELS.items():
            log.log(level, "some %s", name)
    names = list(LEVELS.values())
    written = [line.rsplit(maxsplit=1)[1].strip('"') for line in capsys.readouterr().err.splitlines()]
    assert written == names[names.index(least) :]


@pytest.mark.parametrize(
    ("verbosity", "form", "begins"),
    [
        (0, None, "warning: some text"),
        (1, None, "W"),
        (0, LoggingFormat.TEXT, "W"),
        (0, LoggingFormat.JSON, "{"),
        (2, LoggingFormat.JSON, "{"),
    ],
)
@pytest.mark.parametrize("verbosity_first", [True, False])
def test_format_option_sets_the_form_of_lines(
    capsys: pytest.CaptureFixture[str],
    verbosity: int,
    form: LoggingFormat | None,
    begins: str,
    *,
    verbosity_first: bool,
) -> None:
    with logging_to_stderr():
        if verbosity_first:
            set_verbosity(verbosity)
        set_format(form)
        if not verbosity_first:
            set_verbosity(verbosity)
        log.warning("some text")
    assert capsys.readouterr().err.startswith(begins)


@pytest.mark.parametrize("form", [None, LoggingFormat.TEXT])
def test_command_speaks_in_plain_words(capsys: pytest.CaptureFixture[str], form: LoggingFormat | None) -> None:
    with logging_to_stderr():
        set_format(form)
        for kind in ("notice", "warning", "error"):
            notify_user(kind, "100% done")
    assert capsys.readouterr().err == "notice: 100% done\nwarning: 100% done\nerror: 100% done\n"


def test_in_json_every_line_is_json(capsys: pytest.CaptureFixture[str]) -> None:
    with logging_to_stderr():
        set_format(LoggingFormat.JSON)
        notify_user("notice", "100% done")
        log.error("%s", fault())
        log.error("%s", fault())
    said, first, more = (json.loads(line) for line in capsys.readouterr().err.splitlines())
    assert (said["msg"], said["v"], said["caller"].partition(":")[0]) == ("100% done", 0, "test_logs.py")
    assert first["msg"] == str(fault())
    assert more["msg"] == "plugin 'Odd', hook filter: failed once more (-v 4 shows each)"


def test_record_is_one_line_with_its_exception(capsys: pytest.CaptureFixture[str]) -> None:
    with logging_to_stderr():
        log.error("first\n  second", exc_info=ValueError("odd"))
        log.error("it is odd", exc_info=ValueError("odd"))
    assert capsys.readouterr().err == "error: first second: ValueError: odd\nerror: it is odd\n"


def test_plugin_that_keeps_failing_is_logged_once_per_hook(capsys: pytest.CaptureFixture[str]) -> None:
    with logging_to_stderr():
        for hook in ("filter", "filter", "score", "filter"):
            log.error("%s", fault(hook))
        assert capsys.readouterr().err == f"error: {fault('filter')}\nerror: {fault('score')}\n"
    assert capsys.readouterr().err == "error: plugin 'Odd', hook filter: failed 2 more times (-v 4 shows each)\n"


def test_coroutine_that_keeps_failing_is_logged_once_and_then_counted(
    capsys: pytest.CaptureFixture[str],
) -> None:
    said = "plugin 'Odd': its coroutine Odd.give_back failed"
    with logging_to_stderr():
        for _ in range(3):
            log.error(said, exc_info=ValueError("odd"), extra={"at_fault": "plugin 'Odd', coroutine Odd.give_back"})
        assert capsys.readouterr().err == f"error: {said}: ValueError: odd\n"
    counted = "error: plugin 'Odd', coroutine Odd.give_back: failed 2 more times (-v 4 shows each)\n"
    assert capsys.readouterr().err == counted


def test_fault_is_shown_with_its_traceback_on_request(capsys: pytest.CaptureFixture[str]) -> None:
    with logging_to_stderr():
        set_verbosity(4)
        for _ in range(3):
            log.error("%s", fault(), exc_info=ValueError("odd"))
    err = capsys.readouterr().err
    assert err.count(f'] {json.dumps(str(fault()))} err="ValueError: odd"\n    ValueError: odd\n') == 3
    assert "more times" not in err


def at(seconds: float, text: str, *args: object, level: int = logging.WARNING) -> None:
    record = log.makeRecord(log.name, level, "file", 1, text, args, None)
    record.created = seconds
    log.handle(record)


def test_warnings_in_the_same_words_are_few(capsys: pytest.CaptureFixture[str]) -> None:
    with logging_to_stderr(), deduplicated_logs(0):
        for second in range(61):
            at(1000.0 + second, "no answer for %d s", second)
        at(1061.0, "no %s", "answer")
    assert capsys.readouterr().err.splitlines() == [
        *(f"warning: no answer for {second} s" for second in range(5)),
        "warning: no answer for 60 s (55 more like the last ones)",
        "warning: no answer",
    ]


@pytest.mark.parametrize(("verbosity", "level"), [(4, logging.WARNING), (1, logging.INFO)])
def test_requested_verbosity_is_not_deduplicated(
    capsys: pytest.CaptureFixture[str], verbosity: int, level: int
) -> None:
    with logging_to_stderr(), deduplicated_logs(verbosity):
        set_verbosity(verbosity)
        for _ in range(99):
            at(1000.0, "no answer", level=level)
    assert len(capsys.readouterr().err.splitlines()) == 99


@pytest.mark.parametrize(("verbosity", "lines"), [(1, 5), (2, 99)])
def test_each_pod_has_its_line_at_its_verbosity(capsys: pytest.CaptureFixture[str], verbosity: int, lines: int) -> None:
    with logging_to_stderr(), deduplicated_logs(verbosity):
        set_verbosity(verbosity)
        for number in range(99):
            log.error("no way", extra={"pod": f"default/pod-{number}"})
    assert len(capsys.readouterr().err.splitlines()) == lines


def test_output_of_a_command_is_not_deduplicated(capsys: pytest.CaptureFixture[str]) -> None:
    with logging_to_stderr(), deduplicated_logs(0):
        for _ in range(9):
            notify_user("error", "no")
    assert len(capsys.readouterr().err.splitlines()) == 9


def test_faults_of_a_plugin_are_counted_all_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    with logging_to_stderr(), deduplicated_logs(0):
        for _ in range(99):
            log.error("%s", fault())
    assert capsys.readouterr().err.splitlines()[-1].endswith("failed 98 more times (-v 4 shows each)")


def test_loggers_are_left_as_they_were() -> None:
    root = logging.getLogger()
    before = root.level, list(root.handlers)
    with logging_to_stderr():
        set_verbosity(4)
    assert (root.level, list(root.handlers)) == before


class Full(io.StringIO):
    """A file on a disk without room."""

    def write(self, text: str) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("form", [None, LoggingFormat.TEXT, LoggingFormat.JSON])
def test_caller_continues_when_stderr_is_full(monkeypatch: pytest.MonkeyPatch, form: LoggingFormat | None) -> None:
    with logging_to_stderr():
        monkeypatch.setattr("sys.stderr", Full())
        set_format(form)
        log.warning("some text")
