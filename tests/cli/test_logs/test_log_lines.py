"""How a log line reads."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import Callable
from datetime import datetime

import pytest

from kframework.cli.logs import json_line, klog_line, plain_text
from kframework.clock import run_virtual
from kframework.core.runtime.timing import AttemptTrace, current_attempt
from kframework.state.pod_templates import TemplateInterner
from kframework.state.pods import PodInfo
from kframework.testing import make_pod
from kframework.verbosity import V2

#: A moment of this machine's, and how klog writes it here.
AT = 1_800_000_000.25
HERE = f"{datetime.fromtimestamp(AT):%m%d %H:%M:%S.%f}"


def record(
    message: str = "some text", level: int = V2, error: Exception | None = None, **fields: object
) -> logging.LogRecord:
    """Make a record as a logger does."""
    raised = None if error is None else (type(error), error, error.__traceback__)
    made = logging.getLogger("some.plugin").makeRecord("some.plugin", level, "/a/file.py", 12, message, (), raised)
    made.created, made.process = AT, 42
    made.__dict__.update(fields)
    return made


@pytest.mark.parametrize(
    ("level", "letter"), [(V2, "I"), (logging.INFO, "I"), (logging.WARNING, "W"), (logging.ERROR, "E")]
)
def test_klog_line_has_the_form_of_klog(level: int, letter: str) -> None:
    line = klog_line(record(level=level, pod="shop/web", took=0.5, victims=("a", "b"), top={"n": 1}))
    fields = 'pod="shop/web" took=0.5 victims=["a","b"] top={"n":1}'
    assert line == f'{letter}{HERE}      42 file.py:12] "some text" {fields}'


def test_json_line_has_the_form_of_component_base() -> None:
    assert json.loads(json_line(record(pod="shop/web", node="a", attempt=3, top={"n": 1}))) == {
        "ts": 1_800_000_000_250.0,
        "caller": "file.py:12",
        "logger": "some.plugin",
        "msg": "some text",
        "v": 2,
        "pod": {"name": "web", "namespace": "shop"},
        "node": "a",
        "attempt": 3,
        "top": {"n": 1},
    }


@pytest.mark.parametrize(("level", "name"), [(logging.WARNING, "warning"), (logging.ERROR, "error")])
def test_worse_than_a_notice_has_a_level_in_json(level: int, name: str) -> None:
    line = json.loads(json_line(record(level=level)))
    assert line["level"] == name and "v" not in line


@pytest.mark.parametrize("write", [plain_text, klog_line, json_line])
def test_record_is_one_line_whatever_is_in_it(write: Callable[[logging.LogRecord], str]) -> None:
    line = write(record("two\nlines", pod="a\nb", odd=object()))
    assert len([part for part in line.split("\n") if part.strip()]) == (2 if write is plain_text else 1)
    assert "odd" in line


def test_plain_text_has_the_exception_once() -> None:
    assert plain_text(record("it failed", error=ValueError("odd"))) == "it failed: ValueError: odd"
    assert plain_text(record("it is odd", error=ValueError("odd"))) == "it is odd"
    assert plain_text(record("it failed", error=ValueError())) == "it failed"
    assert plain_text(record("it failed", pod="a/b")) == 'it failed pod="a/b"'


@pytest.mark.parametrize("level", [logging.INFO, logging.DEBUG])
def test_exception_is_a_field_with_its_traceback_at_4(level: int, caplog: pytest.LogCaptureFixture) -> None:
    failed = record("it failed", logging.ERROR, ValueError("odd"))
    with caplog.at_level(level):
        first, *more = klog_line(failed).splitlines()
        line = json.loads(json_line(failed))
    assert first.endswith('"it failed" err="ValueError: odd"')
    assert line["err"] == "ValueError: odd"
    assert more == (["    ValueError: odd"] if level == logging.DEBUG else [])
    assert line.get("stacktrace") == ("ValueError: odd" if level == logging.DEBUG else None)


def test_in_a_simulation_its_own_time_counts() -> None:
    async def main() -> tuple[str, str]:
        await asyncio.sleep(90.5)
        return klog_line(record()), json_line(record())

    text, line = run_virtual(main)
    assert text.startswith("I0101 00:01:30.500000 ")
    assert json.loads(line)["ts"] == 1_767_225_690_500.0


def test_klogs_line_has_the_form_that_its_parsers_look_for() -> None:
    assert re.fullmatch(r"[IWEF]\d{4} \d\d:\d\d:\d\d\.\d{6} +\d+ [^ ]+:\d+\] .*", klog_line(record()))


@pytest.mark.parametrize(
    ("fields", "written"),
    [
        ({}, 'pod="default/web" attempt=7'),
        ({"node": "a"}, 'pod="default/web" attempt=7 node="a"'),
        ({"pod": "default/web"}, 'pod="default/web" attempt=7'),
        ({"pod": "default/other"}, 'pod="default/other"'),
        ({"pod": "default/web", "attempt": 6}, 'pod="default/web" attempt=6'),
    ],
)
def test_line_logged_during_an_attempt_names_the_attempt(fields: dict[str, object], written: str) -> None:
    made = record()
    made.__dict__.update(fields)
    before = current_attempt.set(AttemptTrace(PodInfo(make_pod("web"), TemplateInterner()), 7))
    try:
        text, line, plain = klog_line(made), json.loads(json_line(made)), plain_text(made)
    finally:
        current_attempt.reset(before)
    assert text.partition('"some text" ')[2] == written
    assert line.get("attempt") == (7 if "attempt=7" in written else fields.get("attempt"))
    assert "attempt=7" not in plain
