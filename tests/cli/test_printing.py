"""Tables, and who gets colours."""

from __future__ import annotations

import io
import sys

import pytest

from kframework.cli.printing import notify_user, print_json, print_lines, print_names, print_table, print_yaml
from kframework.observe.text_table import table

HEADERS = ("POD", "STATUS", "MESSAGE")
MESSAGE = "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) were unschedulable."
ROWS = [("web", "Bound", ""), ("a-longer-name", "Pending", MESSAGE)]


@pytest.mark.parametrize(
    ("environment", "terminal", "coloured"),
    [
        ({}, True, True),
        ({}, False, False),
        ({"TERM": "dumb"}, True, False),
        ({"NO_COLOR": "1"}, True, False),
        ({"FORCE_COLOR": "1"}, False, True),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, True, False),
    ],
)
def test_terminal_gets_colours(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    environment: dict[str, str],
    terminal: bool,
    coloured: bool,
) -> None:
    for name, value in {"TERM": "xterm", **environment}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: terminal)
    print_table(HEADERS, ROWS)
    assert ("\x1b[" in capsys.readouterr().out) == coloured


def test_terminal_gets_tables_of_its_width(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    print_table(HEADERS, ROWS)
    assert capsys.readouterr().out == "".join(f"{line}\n" for line in table(HEADERS, ROWS, 60))


def test_lines_beside_the_data_are_wrapped_on_a_terminal_only(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    notify_user("notice", "a line of some length")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    notify_user("notice", "a line of some length")
    out, err = capsys.readouterr()
    assert out == ""
    assert err == "notice: a line of some length\nnotice: a line of\n    some length\n"


def test_json_and_yaml_and_names(capsys: pytest.CaptureFixture[str]) -> None:
    items = [{"pod": "default/ä", "node": None}]
    print_json(items)
    assert capsys.readouterr().out == '[\n    {\n        "pod": "default/ä",\n        "node": null\n    }\n]\n'
    print_yaml(items)
    assert capsys.readouterr().out == "- pod: default/ä\n  node: null\n"
    print_names("pod", ["a", "b"])
    assert capsys.readouterr().out == "pod/a\npod/b\n"


def test_lines_are_there_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    piped = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    monkeypatch.setattr(sys, "stdout", piped)
    print_lines("one", "two\x1b")
    assert piped.buffer.getvalue() == b"one\ntwo\\x1b\n"
