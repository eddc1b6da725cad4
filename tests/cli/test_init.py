"""The command line as a whole: help, usage, exit codes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import version

import pytest

from kframework.cli import main, simulate
from kframework.errors import (
    ClusterError,
    ConfigError,
    ConfigErrors,
    InputError,
    InputErrors,
    KFrameworkError,
    PluginError,
)
from tests.cli.conftest import Command


def fails_with(error: BaseException) -> Callable[..., object]:
    def fail(*args: object) -> object:
        raise error

    return fail


def test_version_is_printed(run: Command) -> None:
    assert run("--version") == (0, f"kframework {version('kframework-sdk')}\n", "")


COMMANDS = [
    *"simulate run fake-api fit nodes compare sweep explain replay".split(),
    *"import rbac conformance bench new plugins config".split(),
]


@pytest.mark.parametrize(
    ("arguments", "commands"),
    [
        ([], COMMANDS),
        (["--help"], COMMANDS),
        (["plugins"], ["list"]),
        (["config"], ["check", "show"]),
        (["config", "-h"], ["check", "show"]),
    ],
)
def test_help_lists_the_commands(run: Command, arguments: list[str], commands: list[str]) -> None:
    code, out, err = run(*arguments)
    assert (code, err) == (0, "")
    listed = out.partition("Commands:\n")[2].splitlines()
    assert [line.split()[0] for line in listed][: len(commands)] == commands  # then come those that are installed


@pytest.mark.parametrize(
    ("arguments", "message", "command"),
    [
        (["simulat"], "No such command 'simulat'. Did you mean 'simulate'?", "kframework"),
        (["simulate"], "Missing option '-f' / '--filename'.", "kframework simulate"),
        (
            ["simulate", "-f", "x", "--confg", "y"],
            "No such option: --confg (Possible options: --config)",
            "kframework simulate",
        ),
        (["config", "check"], "Missing argument 'FILE'.", "kframework config check"),
        (
            ["plugins", "list", "-o", "xml"],
            "Invalid value for '-o' / '--output': 'xml' is not one of 'wide', 'json', 'yaml', 'name'.",
            "kframework plugins list",
        ),
    ],
)
def test_wrong_usage_is_two_lines_and_code_2(run: Command, arguments: list[str], message: str, command: str) -> None:
    assert run(*arguments) == (2, "", f"error: {message}\nSee '{command} --help' for usage.\n")


@pytest.mark.parametrize(
    ("error", "lines"),
    [
        (ConfigError("is wrong", file="c.yaml", line=3), ["c.yaml:3: is wrong"]),
        (InputError("is wrong", file="n.yaml"), ["n.yaml: is wrong"]),
        (PluginError("failed", plugin="P", hook="filter"), ["plugin 'P', hook filter: failed"]),
        (ClusterError("is taken", status=409), ["is taken"]),
        (ConfigErrors([ConfigError("is wrong", line=1), ConfigError("is odd")]), [":1: is wrong", "is odd"]),
        (
            InputErrors([InputError("is wrong", file="n.yaml"), InputError("and 5 more")]),
            ["n.yaml: is wrong", "and 5 more"],
        ),
        (KFrameworkError("on\n  two lines"), ["on two lines"]),
        (FileNotFoundError(2, "No such file or directory", "t.jsonl"), ["t.jsonl: No such file or directory"]),
        (
            OSError(28, "No space left on device"),
            ["cannot write the output: No space left on device; free some space"],
        ),
        (
            ExceptionGroup("tasks", [ExceptionGroup("task", [ConfigError("one")]), InputError("two")]),
            ["one", "two"],
        ),
        (ValueError("odd"), ["unexpected ValueError: odd (-v 4 shows the traceback)"]),
    ],
)
def test_faults_are_lines_and_code_1(
    run: Command, monkeypatch: pytest.MonkeyPatch, error: Exception, lines: list[str]
) -> None:
    monkeypatch.setattr(simulate, "load_simulation_configuration", fails_with(error))
    assert run("simulate", "-f", "-") == (1, "", "".join(f"error: {line}\n" for line in lines))


def test_fault_is_printed_with_its_traceback_on_request(run: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulate, "load_simulation_configuration", fails_with(ValueError("odd")))
    code, _, err = run("simulate", "-f", "-", "-v", "4")
    assert code == 1
    assert "Traceback (most recent call last):" in err
    assert err.splitlines()[-1].startswith("error: unexpected ValueError: odd")


def test_interrupt_is_code_130(run: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulate, "load_simulation_configuration", fails_with(KeyboardInterrupt()))
    assert run("simulate", "-f", "-") == (130, "", "")


def test_reader_that_went_away_is_no_error_message() -> None:
    command = [sys.executable, "-c", "from kframework.cli import main; main(['config', 'show'])"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 1


@pytest.mark.parametrize("arguments", [["simulate", "-f", "-"], ["config", "check", "-"]])
def test_closed_stdin_is_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(SystemExit):
        main(arguments)
    assert capsys.readouterr() == ("", "error: <stdin>: is closed\n")


def test_closed_stdout_is_ignored() -> None:
    done = subprocess.run(f"{sys.executable} -m kframework --version >&-", shell=True, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize(
    ("words", "completion"),
    [
        ("sim", "simulate"),
        ("config ch", "check"),
        ("simulate --dur", "--duration"),
        ("fake-api --state", "--state-file"),
    ],
)
def test_shell_completes_commands_and_options(words: str, completion: str) -> None:
    shell = {"_KFRAMEWORK_COMPLETE": "complete_bash", "COMP_WORDS": f"kframework {words}"}
    done = subprocess.run(
        [sys.executable, "-m", "kframework"],
        env={**os.environ, **shell, "COMP_CWORD": str(len(words.split()))},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout.split()) == (0, [completion])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["simulate", "-f", "x", "--seed", "x"], "Invalid value for '--seed': must be an integer"),
        (["explain", "p", "--attempt", "0"], "Invalid value for '--attempt': must be greater than or equal to 1"),
        (["run", "--kube-api-qps", "x"], "Invalid value for '--kube-api-qps': must be a number"),
        (
            ["explain", "p", "--scheduler", "x:1"],
            "Invalid value for '--scheduler': must begin with http:// or https://",
        ),
    ],
)
def test_wrong_values_are_reported_in_plain_words(run: Command, arguments: list[str], message: str) -> None:
    assert run(*arguments).errors[0].startswith(f"error: {message}")


def test_scheduler_that_does_not_answer_is_reported_without_numbers_of_the_system(run: Command) -> None:
    (line,) = run("explain", "p", "--scheduler", "http://127.0.0.1:1").errors
    assert line.startswith("error: no scheduler answers at http://127.0.0.1:1: Connection refused; ")
