"""Commands that other distributions add."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import pytest

from kframework.cli.commands import GROUP
from tests.cli.conftest import Command, Install

GREETER = """
import typer

app = typer.Typer(help="Greet somebody.")

@app.command()
def hello(name: str, times: int = 1) -> None:
    "Say hello."
    typer.echo(" ".join(["hello", name] * times))

@app.command()
def part() -> None:
    "Say goodbye."

def wave(hands: int = 1) -> None:
    "Wave so many hands."
    typer.echo(f"waves {hands}")

number = 7
"""


@pytest.fixture
def offer(install: Install) -> Install:
    """Install a distribution that offers commands."""
    return partial(install, group=GROUP)


def test_group_and_a_function_become_commands(run: Command, offer: Install) -> None:
    offer("greeter", {"greet": "app", "wave": "wave"}, GREETER)
    assert run("greet", "hello", "you", "--times", 2) == (0, "hello you hello you\n", "")
    assert run("wave", "--hands=2") == (0, "waves 2\n", "")


def test_added_commands_are_listed_last_and_in_order_without_being_loaded(run: Command, offer: Install) -> None:
    offer("greeter", {"wave": "wave", "greet": "app"}, GREETER)
    code, out, err = run("--help")
    listed = [line.split(maxsplit=1) for line in out.partition("Commands:\n")[2].splitlines()]
    names = [line[0] for line in listed]
    assert (code, err, "greeter" in sys.modules) == (0, "", False)
    assert names.index("config") < names.index("greet") < names.index("wave")
    assert ["greet", "The words of greeter"] in listed


def test_added_commands_have_help_and_usage_errors_like_built_in_ones(run: Command, offer: Install) -> None:
    offer("greeter", {"greet": "app", "wave": "wave"}, GREETER)
    code, out, _ = run("greet", "-h")
    assert code == 0
    assert out.startswith("Usage: kframework greet [OPTIONS] COMMAND [ARGS]...\n\n  Greet somebody.\n")
    assert "completion" not in out
    assert "Wave so many hands." in run("wave", "--help").out
    assert run("greet", "hello") == (
        2,
        "",
        "error: Missing argument 'name'.\nSee 'kframework greet hello --help' for usage.\n",
    )


def test_one_that_is_misspelt_is_guessed(run: Command, offer: Install) -> None:
    offer("greeter", {"greet": "app"}, GREETER)
    assert run("greeet").errors[0] == "error: No such command 'greeet'. Did you mean 'greet'?"


@pytest.mark.parametrize(
    ("target", "source", "problem"),
    [
        (
            "app",
            "import heap_of_sand",
            (
                "cannot be loaded: ModuleNotFoundError: No module named 'heap_of_sand', "
                "at {tmp_path}/site/broken/broken.py:1"
            ),
        ),
        ("app", "", "cannot be loaded: AttributeError: module 'broken' has no attribute 'app'"),
        ("number", GREETER, "broken:number is neither a typer.Typer nor a function"),
    ],
)
def test_broken_command_does_not_affect_others(
    run: Command, offer: Install, tmp_path: Path, target: str, source: str, problem: str
) -> None:
    offer("greeter", {"wave": "wave"}, GREETER)
    offer("broken", {"snap": target}, source, version="2.1")
    assert run("snap", "--help") == (
        1,
        "",
        f"error: command 'snap' (from broken 2.1): {problem.format(tmp_path=tmp_path)}\n",
    )
    assert run("wave").out == "waves 1\n"
    assert (run("--help").code, run("--help").err) == (0, "")


def test_our_own_stay_ours(run: Command, offer: Install) -> None:
    offer("greeter", {"rbac": "wave", "wave": "wave"}, GREETER)
    assert run("rbac", "-h").out.startswith("Usage: kframework rbac [OPTIONS]\n\n  Print the rights")
    assert run("wave") == (0, "waves 1\n", "")
    code, out, err = run()
    assert (code, out.count("\n  rbac ")) == (0, 1)
    assert err == "warning: greeter 1.0: ignoring its command 'rbac', as kframework has one of this name\n"


def test_one_that_two_distributions_offer_is_neither_ones(run: Command, offer: Install) -> None:
    offer("greeter", {"wave": "wave"}, GREETER)
    offer("waver", {"wave": "app"}, GREETER)
    claims = "greeter 1.0 (greeter:wave) and waver 1.0 (waver:app)"
    problem = f"error: command 'wave': two distributions offer it: {claims}; uninstall one\n"
    assert run("wave") == (1, "", problem)
