"""Faults: each reads as one line that says where to look and what to do."""

from __future__ import annotations

import json
from bdb import BdbQuit

import pytest

from kframework.errors import (
    ClusterError,
    ConfigError,
    InputError,
    KFrameworkError,
    PluginError,
    StaleNodeError,
    StatementError,
    escape_json,
    escape_text,
    exit_on_debugger_quit,
    format_error,
    nearest_name,
    safe_repr,
)

#: One of each kind of what steers a terminal or is seen by nobody, and how Python and JSON escape it.
HIDDEN = {
    "\x1b": (r"\x1b", r"\u001b"),
    "\x9b": (r"\x9b", r"\u009b"),
    "\x00": (r"\x00", r"\u0000"),
    "\x7f": (r"\x7f", r"\u007f"),
    "\n": (r"\n", r"\n"),
    "\r": (r"\r", r"\r"),
    "\t": (r"\t", r"\t"),
    "\x85": (r"\x85", r"\u0085"),
    "\xa0": (r"\xa0", r"\u00a0"),
    "\xad": (r"\xad", r"\u00ad"),
    "\ud800": (r"\ud800", r"\ud800"),
    "\U000e0041": (r"\U000e0041", r"\udb40\udc41"),
    **{each: (rf"\u{ord(each):04x}",) * 2 for each in "\u061c\u200b\u200d\u200e\u200f\u2028\u2029\u202a\u202e\u2060"},
    **{each: (rf"\u{ord(each):04x}",) * 2 for each in "\u2066\u2069\ufeff\u034f\u115f\u3164\uffa0"},
}


@pytest.mark.parametrize(
    ("name", "known", "found"),
    [
        ("NodeNam", ["NodeName", "NodePorts"], "NodeName"),
        ("nodename", ["NodePorts", "NodeName"], "NodeName"),
        ("NODEPORTS", ["NodePorts", "NodeName"], "NodePorts"),
        ("xyz", ["NodeName"], None),
        ("NodeName", [], None),
        ("fit", ["Fit", "FIT"], "FIT"),
    ],
)
def test_nearest_name_is_found(name: str, known: list[str], found: str | None) -> None:
    assert nearest_name(name, known) == found
    assert nearest_name(name, reversed(known)) == found


@pytest.mark.parametrize(
    ("fault", "line"),
    [
        (ConfigError("is wrong"), "is wrong"),
        (ConfigError("is wrong", file="a.yaml"), "a.yaml: is wrong"),
        (
            ConfigError("no such plugin", file="a.yaml", line=3, path="profiles[0].plugins", nearest="NodeName"),
            "a.yaml:3: profiles[0].plugins: no such plugin (did you mean 'NodeName'?)",
        ),
        (ConfigError("is wrong", path="profiles"), "profiles: is wrong"),
        (InputError("is no quantity"), "is no quantity"),
        (
            InputError("is no quantity", file="c.yaml", line=9, subject="Pod default/a", path="spec.overhead.cpu"),
            "c.yaml:9: Pod default/a: spec.overhead.cpu: is no quantity",
        ),
        (InputError("is no quantity", subject="Node a"), "Node a: is no quantity"),
        (PluginError("broke", plugin="Mine"), "plugin 'Mine': broke"),
        (
            PluginError("broke", plugin="Mine", hook="score", distribution="mine 1.0"),
            "plugin 'Mine' (from mine 1.0), hook score: broke",
        ),
        (ClusterError('pods "a" not found', status=404, reason="NotFound"), 'pods "a" not found'),
        (
            StaleNodeError("a"),
            "node 'a' was removed; between cycles keep its name, not its NodeInfo",
        ),
        (StatementError("the statement is closed"), "the statement is closed"),
    ],
)
def test_error_text_is_one_line(fault: KFrameworkError, line: str) -> None:
    assert str(fault) == line


class Broken(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")

    __repr__ = __str__


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ValueError("odd"), "ValueError: odd"),
        (ValueError(), "ValueError"),
        (Broken(), "Broken: its __str__ raises RuntimeError"),
    ],
)
def test_format_error_handles_every_exception(error: Exception, words: str) -> None:
    assert format_error(error) == words


def test_safe_repr_handles_every_value() -> None:
    assert (safe_repr("odd"), safe_repr(Broken())) == ("'odd'", "<Broken>")


def test_error_attributes_hold_the_data() -> None:
    config = ConfigError("is wrong", file="a.yaml", line=3, path="profiles", nearest="x")
    assert (config.message, config.file, config.line, config.path, config.nearest) == (
        "is wrong",
        "a.yaml",
        3,
        "profiles",
        "x",
    )
    assert not ClusterError("refused", status=409).retryable
    assert ClusterError("busy", status=429, reason="TooManyRequests", retryable=True).reason == "TooManyRequests"
    assert StaleNodeError("a").node == "a"
    assert PluginError("broke", plugin="Mine", hook="score").hook == "score"


def test_debugger_quit_becomes_keyboard_interrupt() -> None:
    with pytest.raises(KeyboardInterrupt), exit_on_debugger_quit():
        raise BdbQuit
    with pytest.raises(KeyboardInterrupt), exit_on_debugger_quit():
        raise ExceptionGroup("tasks", [ExceptionGroup("more", [BdbQuit()]), ValueError()])
    with pytest.raises(ExceptionGroup), exit_on_debugger_quit():
        raise ExceptionGroup("tasks", [ValueError()])


@pytest.mark.parametrize("hidden", HIDDEN)
def test_control_and_invisible_characters_are_escaped(hidden: str) -> None:
    as_text, as_json = HIDDEN[hidden]
    assert escape_text(f"a{hidden}b") == f"a{as_text}b"
    assert escape_json(f'"a{hidden}b"') == f'"a{as_json}b"'
    assert json.loads(escape_json(f'"a{hidden}b"')) == f"a{hidden}b"


@pytest.mark.parametrize("text", ["", "plain", "Bücher, 本, שלום", "a\\u202eb", "[red]", "\N{SNOWMAN}"])
def test_readable_text_is_unchanged(text: str) -> None:
    assert escape_text(text) == escape_json(text) == text
